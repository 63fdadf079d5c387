/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.c: changes that would act on the host later, by themselves or through a tool the user runs without thinking:
 * held back unless they are named. The rules are data: a table here, and more in "gate.rules" of the home:
 *
 *     [deploy]                      a rule's name: one of the table's, or a new one
 *     path = deploy/?*              pattern (bx_ws_match, case does not count); may come several times
 *     reason = runs on the server
 *
 *     [lockfile]
 *     off = true                    the table's rule of this name is not used
 *
 * The file is the user's own. A workspace cannot bring one: what it holds may be a stranger's work.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "workspace/workspace.h"

#define RULES_MAX 256
#define PATTERNS_MAX 4096
#define LINE_MAX_BYTES 1024

enum condition {
    C_PATH,    /* the path fits a pattern */
    C_EXEC,    /* a file becomes executable */
    C_LINK,    /* a link leads out of the workspace, or cannot be judged */
    C_SETID,   /* set-user-ID or set-group-ID */
    C_SPECIAL, /* a device, a pipe, a socket: never applied */
};

struct rule {
    char *name, *reason;
    enum condition condition;
    struct bx_strv paths;
    bool off;
};

struct bx_ws_rules {
    struct rule v[RULES_MAX];
    size_t n;
};

static const struct {
    const char *name, *reason;
    enum condition condition;
    const char *paths; /* blank-separated */
} built_in[] = {
    {"git-hooks", "git runs it", C_PATH,
     "**/.git/hooks/** **/.git/modules/**/hooks/** **/.husky/** **/.githooks/**"},
    {"git-config", "it steers git, which runs what it names", C_PATH,
     "**/.git/config **/.git/config.worktree **/.git/modules/**/config **/.git/info/attributes **/.git "
     "**/*.git/config **/*.git/hooks/** **/.git/commondir **/.git/worktrees/**"},
    {"ci", "a build server runs it with its secrets", C_PATH,
     "**/.github/workflows/** **/.github/actions/** **/.gitlab-ci.yml **/.gitlab/** **/.circleci/** "
     "**/azure-pipelines*.yml **/.travis.yml **/Jenkinsfile **/.drone.yml **/.buildkite/** "
     "**/bitbucket-pipelines.yml **/.woodpecker.y*ml **/.woodpecker/** **/.forgejo/workflows/** "
     "**/.gitea/workflows/** **/appveyor.yml **/.pre-commit-config.yaml"},
    {"shell", "a shell reads it on entering the folder", C_PATH,
     "**/.envrc **/.env.sh **/.autoenv* **/.mise.toml **/mise.toml **/.mise/** **/.bashrc **/.profile "
     "**/.zshrc **/.bash_profile **/.zshenv"},
    {"editor", "an editor runs or obeys it on opening the folder", C_PATH,
     "**/.vscode/** **/*.code-workspace **/.idea/** **/.exrc **/.vimrc **/.nvimrc **/.nvim.lua "
     "**/.dir-locals.el **/.zed/** **/.devcontainer/** **/.devcontainer.json"},
    {"package-scripts", "a package manager runs it", C_PATH,
     "**/package.json **/setup.py **/binding.gyp **/.npmrc **/.yarnrc **/.yarnrc.yml **/.pnpmfile.cjs "
     "**/pip.conf **/.cargo/config **/.cargo/config.toml **/build.rs **/gradlew **/gradlew.bat "
     "**/gradle/wrapper/** **/mvnw **/.mvn/** **/Rakefile **/extconf.rb **/composer.json"},
    {"lockfile", "it decides which code is downloaded", C_PATH,
     "**/package-lock.json **/npm-shrinkwrap.json **/yarn.lock **/pnpm-lock.yaml **/bun.lock **/bun.lockb "
     "**/poetry.lock **/Pipfile.lock **/uv.lock **/pdm.lock **/Cargo.lock **/Gemfile.lock "
     "**/composer.lock **/go.sum **/flake.lock **/gradle.lockfile **/mix.lock **/Package.resolved"},
    {"new-exec", "it becomes a program", C_EXEC, ""},
    {"link-out", "it leads out of the workspace", C_LINK, ""},
    {"set-id", "it would run with another user's rights", C_SETID, ""},
    {"special-file", "it is a device, a pipe or a socket", C_SPECIAL, ""},
};

/* ---- making rules */

static void rule_done(struct rule *r)
{
    free(r->name);
    free(r->reason);
    bx_strv_done(&r->paths);
}

void bx_ws_rules_free(struct bx_ws_rules *r)
{
    for (size_t i = 0; r && i < r->n; i++) {
        rule_done(&r->v[i]);
    }
    free(r);
}

static struct rule *find(struct bx_ws_rules *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++) {
        if (bx_streq(r->v[i].name, name)) {
            return &r->v[i];
        }
    }
    return NULL;
}

static struct rule *add_rule(struct bx_ws_rules *r, const char *name, enum condition condition)
{
    struct rule *rule = r->n < RULES_MAX ? &r->v[r->n] : NULL;
    if (!rule) {
        return NULL;
    }
    *rule =
        (struct rule){.name = strdup(name), .condition = condition, .paths = {.max = PATTERNS_MAX}};
    if (!rule->name) {
        return NULL;
    }
    r->n++;
    return rule;
}

static char *lower(const char *text, size_t len)
{
    char *copy = strndup(text, len);
    for (char *p = copy; p && *p; p++) {
        *p = (char)tolower((unsigned char)*p);
    }
    return copy;
}

static int add_path(struct rule *rule, const char *text, size_t len)
{
    _cleanup_free_ char *pattern = lower(text, len);
    return pattern ? bx_strv_add(&rule->paths, pattern) : -1;
}

int bx_ws_rules_new(struct bx_ws_rules **ret, boxlite_error **err)
{
    struct bx_ws_rules *r = calloc(1, sizeof(*r));
    bool good = r != NULL;
    for (size_t i = 0; good && i < BX_ARRAY_SIZE(built_in); i++) {
        struct rule *rule = add_rule(r, built_in[i].name, built_in[i].condition);
        good = rule && (rule->reason = strdup(built_in[i].reason));
        for (const char *p = built_in[i].paths; good && *p;) {
            size_t n = strcspn(p, " ");
            good = n == 0 || add_path(rule, p, n) == 0;
            p += n + (p[n] == ' ');
        }
    }
    if (!good) {
        bx_ws_rules_free(r);
        return bx_fail_oom(err);
    }
    *ret = r;
    return 0;
}

/* ---- a file of rules */

static bool name_ok(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)p[i]) && !strchr("-_.", p[i])) {
            return false;
        }
    }
    return n > 0 && n <= 64;
}

static char *trimmed(const char *p, size_t n)
{
    while (n > 0 && isspace((unsigned char)*p)) {
        p++;
        n--;
    }
    while (n > 0 && isspace((unsigned char)p[n - 1])) {
        n--;
    }
    if (n >= 2 && *p == '"' && p[n - 1] == '"') {
        p++;
        n -= 2;
    }
    return strndup(p, n);
}

/* NULL, or what is wrong with the line. */
static const char *parse_setting(struct rule *rule, const char *line, size_t len)
{
    const char *eq = memchr(line, '=', len);
    if (!eq || !rule) {
        return rule ? "is no \"name = value\"" : "stands before the first [rule]";
    }
    _cleanup_free_ char *key = trimmed(line, (size_t)(eq - line));
    _cleanup_free_ char *value = trimmed(eq + 1, (size_t)(line + len - eq - 1));
    if (!key || !value) {
        return "could not be read: out of memory";
    }
    if (bx_streq(key, "path") && *value) {
        return rule->condition != C_PATH                  ? "gives a path to a rule that has none"
               : add_path(rule, value, strlen(value)) < 0 ? "is one path too many"
                                                          : NULL;
    }
    if (bx_streq(key, "reason") && *value) {
        free(rule->reason);
        rule->reason = steal_ptr(&value);
        return NULL;
    }
    if (bx_streq(key, "off") && (bx_streq(value, "true") || bx_streq(value, "false"))) {
        rule->off = bx_streq(value, "true") && rule->condition != C_SPECIAL;
        return NULL;
    }
    return "is none of path, reason, off = true|false";
}

static const char *parse_line(struct bx_ws_rules *r, struct rule **at, const char *p, size_t n)
{
    _cleanup_free_ char *line = trimmed(p, n);
    size_t len = line ? strlen(line) : 0;
    if (!line || n > LINE_MAX_BYTES) {
        return line ? "is too long" : "could not be read: out of memory";
    }
    if (len == 0 || *line == '#') {
        return NULL;
    }
    if (*line != '[') {
        return parse_setting(*at, line, len);
    }
    if (line[len - 1] != ']' || !name_ok(line + 1, len - 2)) {
        return "is no [rule name]";
    }
    line[len - 1] = '\0';
    *at = find(r, line + 1);
    *at = *at ? *at : add_rule(r, line + 1, C_PATH);
    if (!*at) {
        return "is one rule too many";
    }
    if (!(*at)->reason && !((*at)->reason = strdup("your gate.rules names it"))) {
        return "could not be read: out of memory";
    }
    return NULL;
}

int bx_ws_rules_parse(struct bx_ws_rules *r, const char *text, boxlite_error **err)
{
    struct rule *at = NULL;
    unsigned number = 1;
    for (const char *p = text; *p; number++) {
        size_t n = strcspn(p, "\n");
        const char *problem = parse_line(r, &at, p, n);
        if (problem) {
            return bx_fail(err, BOXLITE_E_INVALID, "gate.rules: line %u %s", number, problem);
        }
        p += n + (p[n] == '\n');
    }
    return 0;
}

/* ---- asking them */

/* "..", an absolute target, or ".." behind a name, whose meaning depends on what that is. */
static bool leads_out(const char *path, const char *target)
{
    int depth = 0;
    bool named = false;
    for (const char *p = path; (p = strchr(p, '/')); p++) {
        depth++;
    }
    if (*target == '/') {
        return true;
    }
    for (const char *p = target; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            if (named || --depth < 0) {
                return true;
            }
        } else if (n > 0 && !(n == 1 && *p == '.')) {
            named = true;
        }
        p += n + (p[n] == '/');
    }
    return false;
}

static bool fits_paths(const struct rule *rule, const char *path)
{
    _cleanup_free_ char *folded = lower(path, strlen(path));
    for (size_t i = 0; folded && i < rule->paths.n; i++) {
        if (bx_ws_match(rule->paths.v[i], folded)) {
            return true;
        }
    }
    return !folded; /* out of memory: held back */
}

static bool holds(const struct rule *rule, const struct bx_ws_change *c)
{
    const struct bx_ws_node *old = &c->old, *fresh = &c->fresh;
    if (rule->off) {
        return false;
    }
    switch (rule->condition) {
    case C_PATH:
        return !(fresh->type == BX_WS_DIR && old->type == BX_WS_NONE) &&
               (fits_paths(rule, c->path) || (c->from && fits_paths(rule, c->from)));
    case C_EXEC:
        return fresh->type == BX_WS_FILE && (fresh->mode & 0111) &&
               !(old->type == BX_WS_FILE && (old->mode & 0111));
    case C_LINK:
        return fresh->type == BX_WS_LINK && leads_out(c->path, c->target);
    case C_SETID:
        return fresh->type == BX_WS_FILE && (fresh->mode & 06000);
    case C_SPECIAL:
        return fresh->type == BX_WS_OTHER;
    }
    return true;
}

static bool named(const struct bx_strv *allow, const char *a)
{
    for (size_t i = 0; i < allow->n; i++) {
        if (bx_streq(allow->v[i], a) || bx_streq(allow->v[i], "all")) {
            return true;
        }
    }
    return false;
}

/* The first rule that holds it and is not named. */
static int ask(const struct bx_ws_rules *rules, struct bx_ws_change *c, const struct bx_strv *allow,
               boxlite_error **err)
{
    free(steal_ptr(&c->rule));
    free(steal_ptr(&c->allow));
    for (size_t i = 0; i < rules->n; i++) {
        const struct rule *rule = &rules->v[i];
        if (!holds(rule, c) ||
            (rule->condition != C_SPECIAL && (named(allow, rule->name) || named(allow, c->path)))) {
            continue;
        }
        c->rule = bx_asprintf("%s: %s", rule->name, rule->reason);
        c->allow = rule->condition == C_SPECIAL ? strdup("") : strdup(rule->name);
        return c->rule && c->allow ? 0 : bx_fail_oom(err);
    }
    return 0;
}

static bool known(const struct bx_ws_rules *rules, const struct bx_ws_changes *changes,
                  const char *name)
{
    for (size_t i = 0; i < rules->n; i++) {
        if (bx_streq(rules->v[i].name, name)) {
            return true;
        }
    }
    for (size_t i = 0; i < changes->n; i++) {
        if (bx_streq(changes->v[i].path, name)) {
            return true;
        }
    }
    return bx_streq(name, "all");
}

int bx_ws_gate(const struct bx_ws_rules *rules, const struct bx_ws_changes *changes,
               const struct bx_strv *allow, boxlite_error **err)
{
    int r = 0;
    for (size_t i = 0; i < allow->n; i++) {
        if (!known(rules, changes, allow->v[i])) {
            bx_fail(err, BOXLITE_E_INVALID, "allow: \"%.200s\" is no rule and no changed path",
                    allow->v[i]);
            bx_hint(err, "name a rule (new-exec, lockfile, …), a changed path, or \"all\"");
            return BOXLITE_E_INVALID;
        }
    }
    for (size_t i = 0; r == 0 && i < changes->n; i++) {
        r = ask(rules, &changes->v[i], allow, err);
    }
    return r;
}
