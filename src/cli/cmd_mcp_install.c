/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_mcp_install.c: boxlite mcp install: writes boxlite-mcp-server into the configuration of a coding agent, or takes it
 * out again.
 *
 * What is there stays: only the entry named "boxlite" is ever touched, one that says something else is not replaced, a
 * file that cannot be understood is left alone. In JSON, comments and layout of the rest stay (jsonedit.c); in TOML, too. A
 * file is replaced whole, by rename, through symbolic links, with its mode kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/jsonedit.h"

#define FILE_MAX (16u << 20)
#define NAME "boxlite"
#define TABLE "[mcp_servers." NAME

BX_DEFINE_CLEANUP(json_t *, json_decref, cleanup_json);
#define _cleanup_json_ _cleanup_(cleanup_json)

static struct {
    bool project, remove, print;
} opt;

static const struct cli_option install_options[] = {
    {"print", 0, CLI_FLAG, &opt.print, NULL, "print the entry and where it belongs; change nothing"},
    {"project", 0, CLI_FLAG, &opt.project, NULL, "for the project in this folder, not for this user"},
    {"remove", 0, CLI_FLAG, &opt.remove, NULL, "take the entry out again"},
    {0},
};

enum form { PLAIN, TYPED, LOCAL, TOML };
static const struct client {
    const char *name;
    enum form form;
    const char *key;             /* the object that holds servers */
    const char *user, *project;  /* below the user's home, below the folder */
    const char *home_variable;   /* names the folder of the user's file */
} clients[] = {
    {"codex", TOML, "mcp_servers", ".codex/config.toml", ".codex/config.toml", "CODEX_HOME"},
    {"claude", PLAIN, "mcpServers", ".claude.json", ".mcp.json", NULL},
    {"gemini", PLAIN, "mcpServers", ".gemini/settings.json", ".gemini/settings.json", NULL},
    {"cursor", PLAIN, "mcpServers", ".cursor/mcp.json", ".cursor/mcp.json", NULL},
    {"vscode", TYPED, "servers", ".config/Code/User/mcp.json", ".vscode/mcp.json", NULL},
    {"opencode", LOCAL, "mcp", ".config/opencode/opencode.json", "opencode.json", NULL},
};

/* ---- The entry */

/* boxlite-mcp-server beside this program (in a build folder: in bin/), or the bare name where that is not known. */
static char *server_path(void)
{
    static const char *const places[] = {"boxlite-mcp-server", "../../bin/boxlite-mcp-server"};
    char self[PATH_MAX], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash;

    self[n > 0 ? n : 0] = '\0';
    slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < CLI_COUNT(places); i++) {
        _cleanup_free_ char *path = cli_text("%.*s/%s", (int)(slash - self), self, places[i]);
        if (access(path, X_OK) == 0) {
            return cli_text("%s", i > 0 && realpath(path, real) ? real : path);
        }
    }
    return cli_text("boxlite-mcp-server");
}

/* The home directory, if it is not the default: clients start servers without our environment. */
static const char *home_setting(void)
{
    return cli.home ? cli.home : getenv("BOXLITE_HOME");
}

static json_t *json_entry(enum form form, const char *command)
{
    const char *home = home_setting();
    json_t *v = form == LOCAL ? json_pack("{s:s, s:[s], s:b}", "type", "local", "command", command, "enabled", 1)
                              : json_pack("{s:s, s:[]}", "command", command, "args");
    if (v && form == TYPED) {
        json_object_set_new(v, "type", json_string("stdio"));
    }
    if (v && home && home[0]) {
        json_object_set_new(v, form == LOCAL ? "environment" : "env", json_pack("{s:s}", "BOXLITE_HOME", home));
    }
    if (!v) {
        cli_die_memory();
    }
    return v;
}

/* A TOML basic string. */
static char *toml_string(const char *s)
{
    char *out = cli_alloc(2 * strlen(s) + 3), *o = out;
    *o++ = '"';
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') {
            *o++ = '\\';
        }
        *o++ = *s;
    }
    *o = '"';
    return out;
}

static char *toml_entry(const char *command)
{
    const char *home = home_setting();
    _cleanup_free_ char *quoted = toml_string(command), *quoted_home = toml_string(home ? home : "");
    _cleanup_free_ char *env = home && home[0] ? cli_text(TABLE ".env]\nBOXLITE_HOME = %s\n", quoted_home) : cli_text("%s", "");

    return cli_text(TABLE "]\ncommand = %s\nargs = []\nstartup_timeout_sec = 30\ntool_timeout_sec = 600\n%s", quoted, env);
}

/* ---- Files */

/* The whole file as text; *ret NULL if there is none. 0 or an exit status. */
static int read_file(const char *path, char **ret)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    _cleanup_free_ char *text = NULL;
    size_t n;

    *ret = NULL;
    if (!f) {
        return errno == ENOENT ? 0 : cli_error("%s: %s", path, strerror(errno));
    }
    text = cli_alloc(FILE_MAX + 1);
    n = fread(text, 1, FILE_MAX + 1, f);
    if (ferror(f) || n > FILE_MAX || memchr(text, '\0', n)) {
        return cli_error("%s: %s", path, ferror(f) ? strerror(errno) : "too large, or not text");
    }
    text[n] = '\0';
    *ret = cli_copy(text, n);
    return 0;
}

static int make_folders(const char *path)
{
    _cleanup_free_ char *copy = cli_copy(path, strlen(path));
    for (char *p = strchr(copy + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST) {
            return cli_error("%s: %s", copy, strerror(errno));
        }
        *p = '/';
    }
    return 0;
}

static int write_file(const char *path, const char *text)
{
    char real[PATH_MAX];
    const char *target = realpath(path, real) ? real : path;
    _cleanup_free_ char *temporary = cli_text("%s.boxlite.%d", target, (int)getpid());
    _cleanup_close_ int fd = -1;
    struct stat st;
    mode_t mode = stat(target, &st) == 0 ? st.st_mode & 0777 : 0600;
    int r = make_folders(target);

    if (r) {
        return r;
    }
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0 || fchmod(fd, mode) < 0 || cli_write_all(fd, text, strlen(text)) < 0 || fsync(fd) < 0 ||
        rename(temporary, target) < 0) {
        r = cli_error("%s: %s", target, strerror(errno));
        (void)unlink(temporary);
    }
    return r;
}

/* ---- JSON */

static int not_understood(const char *path, const char *why)
{
    return cli_error_hint("add the entry by hand: boxlite mcp install CLIENT --print shows it", "%s: %s", path, why);
}

static int edit_json(const struct client *client, const char *path, const char *text, json_t *entry, char **ret)
{
    const char *now = text && text[strspn(text, " \t\r\n")] ? text : "{\n}\n";
    _cleanup_json_ json_t *root = cli_json_read(now);
    json_t *servers = json_object_get(root, client->key), *old;

    *ret = NULL;
    if (!root) {
        return not_understood(path, "not a JSON object");
    }
    if (servers && !json_is_object(servers)) {
        return not_understood(path, "its servers are not an object");
    }
    old = json_object_get(servers, NAME);
    if (opt.remove ? !old : old && json_equal(old, entry)) {
        return 0;
    }
    if (old && !opt.remove) {
        return cli_error_hint("take it out first: boxlite mcp install CLIENT --remove",
                              "%s: there is another entry named " NAME, path);
    }
    *ret = cli_json_edit(now, client->key, NAME, opt.remove ? NULL : entry);
    return *ret ? 0 : not_understood(path, "written in a form that cannot be edited safely");
}

/* ---- TOML: by lines, so that comments and layout stay */

static size_t count(const char *line, size_t n, const char *what)
{
    size_t found = 0;
    for (size_t i = 0; i + 3 <= n; i++) {
        if (memcmp(line + i, what, 3) == 0) {
            found++;
            i += 2;
        }
    }
    return found;
}

/* Whether a header line is that of our table or of one below it. */
static bool ours(const char *line, size_t n)
{
    size_t len = strlen(TABLE);
    return n > len && strncmp(line, TABLE, len) == 0 && (line[len] == ']' || line[len] == '.');
}

/* Copies the text without our tables; *ret_had: there were some. False: a form that is not understood. */
static bool without_ours(const char *text, char *out, bool *ret_had)
{
    bool in_text = false, skip = false, top = true;

    *ret_had = false;
    while (*text) {
        size_t n = strcspn(text, "\n");
        size_t blank = strspn(text, " \t");
        const char *line = text + blank;
        size_t left = blank < n ? n - blank : 0;

        if (!in_text && left > 0 && line[0] == '[') {
            skip = ours(line, left);
            top = false;
            *ret_had |= skip;
            if (!skip && memmem(line, left, NAME, strlen(NAME)) && memmem(line, left, "mcp_servers", 11)) {
                return false; /* written in another way */
            }
        }
        if (!in_text && top && left > 11 && strncmp(line, "mcp_servers", 11) == 0) {
            return false; /* an inline table or dotted keys */
        }
        in_text ^= (count(line, left, "\"\"\"") + count(line, left, "'''")) % 2;
        n += text[n] == '\n';
        if (!skip) {
            memcpy(out, text, n);
            out += n;
        }
        text += n;
    }
    *out = '\0';
    return !in_text;
}

static int edit_toml(const char *path, const char *text, const char *entry, char **ret)
{
    size_t n = text ? strlen(text) : 0;
    _cleanup_free_ char *rest = cli_alloc(n + 1);
    bool had = false;

    *ret = NULL;
    if (!without_ours(text ? text : "", rest, &had)) {
        return not_understood(path, "its servers are written in a form that is not understood");
    }
    if (opt.remove) {
        *ret = had ? cli_copy(rest, strlen(rest)) : NULL;
        return 0;
    }
    if (had) {
        return strstr(text, entry) ? 0
                                   : cli_error_hint("take it out first: boxlite mcp install codex --remove",
                                                    "%s: there is another entry named " NAME, path);
    }
    *ret = cli_text("%s%s%s", rest, n == 0 ? "" : rest[strlen(rest) - 1] == '\n' ? "\n" : "\n\n", entry);
    return 0;
}

/* ---- The command */

static const struct client *find_client(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT(clients); i++) {
        if (strcmp(clients[i].name, name) == 0) {
            return &clients[i];
        }
    }
    return NULL;
}

static char *config_path(const struct client *client)
{
    const char *home = getenv("HOME");
    const char *own = client->home_variable ? getenv(client->home_variable) : NULL;

    if (opt.project) {
        return cli_text("%s", client->project);
    }
    if (own && own[0]) {
        return cli_text("%s/%s", own, strrchr(client->user, '/') + 1);
    }
    return home && home[0] == '/' ? cli_text("%s/%s", home, client->user) : NULL;
}

static int print_entry(const struct client *client, const char *path, json_t *entry, const char *toml)
{
    _cleanup_json_ json_t *whole = json_pack("{s:{s:O}}", client->key, NAME, entry);
    _cleanup_free_ char *text = whole ? json_dumps(whole, JSON_INDENT(2)) : NULL;

    printf("%s:\n%s%s", path, client->form == TOML ? toml : text ? text : "", client->form == TOML ? "" : "\n");
    return 0;
}

static int run_install(const struct cli_list *operands)
{
    const struct client *client = find_client(operands->items[0]);
    _cleanup_free_ char *path = client ? config_path(client) : NULL, *command = server_path();
    _cleanup_free_ char *toml = toml_entry(command), *text = NULL, *changed = NULL;
    _cleanup_json_ json_t *entry = NULL;
    int r;

    if (!client) {
        return cli_error_hint("one of: codex claude gemini cursor vscode opencode", "%s: not a client that is known",
                              operands->items[0]);
    }
    if (!path) {
        return cli_error_hint("set it, or use --project", "HOME is not set");
    }
    entry = json_entry(client->form, command);
    if (opt.print) {
        return print_entry(client, path, entry, toml);
    }
    r = read_file(path, &text);
    if (!r) {
        r = client->form == TOML ? edit_toml(path, text, toml, &changed) : edit_json(client, path, text, entry, &changed);
    }
    if (r) {
        return r;
    }
    if (!changed) {
        printf("%s: nothing to change\n", path);
        return 0;
    }
    r = write_file(path, changed);
    if (!r) {
        printf("%s: %s\n", path, opt.remove ? "removed " NAME : "added " NAME);
    }
    return r;
}

static const struct cli_option *const install_sets[] = {install_options, NULL};

const struct cli_command cli_cmd_mcp_install = {
    .name = "mcp install",
    .args = "CLIENT",
    .summary = "let a coding agent use boxes",
    .about =
        "Writes boxlite-mcp-server into the configuration of a coding agent: codex, claude, gemini, cursor, vscode or "
        "opencode. Only the entry named boxlite is touched; one that says something else is not replaced, and a file that "
        "is not understood is left alone.",
    .examples = "boxlite mcp install codex\n"
                "boxlite mcp install claude --project\n"
                "boxlite mcp install cursor --remove",
    .sets = install_sets,
    .min = 1,
    .max = 1,
    .run = run_install,
};
