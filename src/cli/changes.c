/* SPDX-License-Identifier: Apache-2.0 */
/* changes.c: see changes.h. */
#include "cli/changes.h"

#include <string.h>

#include "cli/cli.h"

struct cli_changes cli_changes = {.git_ignored = "show"};

const struct cli_option cli_changes_which[] = {
    {"workspace", 0, CLI_TEXT, &cli_changes.workspace, "PATH",
     "which workspace, if the box has several: its path here or in the box"},
    {"exclude", 0, CLI_LIST, &cli_changes.excludes, "PATTERN",
     "leave out what fits this pattern, as in a .gitignore file"},
    {"git-ignored", 0, CLI_CHOICE, &cli_changes.git_ignored, "HOW",
     "show (default) or hide what git ignores", .choices = "show hide"},
    {0},
};

const struct cli_option cli_changes_apply[] = {
    {"dry-run", 'n', CLI_FLAG, &cli_changes.dry_run, NULL, "write nothing, say what would be done"},
    {"merge", 'm', CLI_FLAG, &cli_changes.merge, NULL,
     "merge text files that both sides changed (with git)"},
    {"allow", 0, CLI_LIST, &cli_changes.allow, "RULE|PATH|all",
     "let changes through that this rule holds back, or this one"},
    {0},
};

const struct cli_option cli_changes_json[] = {
    {"json", 0, CLI_FLAG, &cli_changes.json, NULL, "print all as a JSON object"},
    {0},
};

static int set_all(boxlite_change_options *o, const struct cli_list *operands, size_t first,
                   boxlite_error **err)
{
    int r = cli_changes.workspace
                ? boxlite_change_options_set_workspace(o, cli_changes.workspace, err)
                : 0;

    for (size_t i = first; r == 0 && operands && i < operands->count; i++) {
        r = boxlite_change_options_add_path(o, operands->items[i], err);
    }
    for (size_t i = 0; r == 0 && i < cli_changes.excludes.count; i++) {
        r = boxlite_change_options_add_exclude(o, cli_changes.excludes.items[i], err);
    }
    for (size_t i = 0; r == 0 && i < cli_changes.allow.count; i++) {
        r = boxlite_change_options_add_allow(o, cli_changes.allow.items[i], err);
    }
    r = r < 0 ? r
              : boxlite_change_options_set_hide_git_ignored(
                    o, strcmp(cli_changes.git_ignored, "hide") == 0, err);
    r = r < 0 ? r : boxlite_change_options_set_dry_run(o, cli_changes.dry_run, err);
    return r < 0 ? r : boxlite_change_options_set_merge(o, cli_changes.merge, err);
}

int cli_changes_options(const struct cli_list *operands, size_t first, boxlite_change_options **ret)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_change_options_ boxlite_change_options *o = NULL;

    if (boxlite_change_options_new(&o, &err) < 0 || set_all(o, operands, first, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    *ret = steal_ptr(&o);
    return 0;
}

char *cli_changes_name(const char *name)
{
    const unsigned char *p = (const unsigned char *)name;
    bool plain = *p != '"';

    for (; *p && plain; p++) {
        plain = *p >= ' ' && *p != 0x7f && *p != '\\' && *p < 0x80;
    }
    if (plain) {
        return cli_copy(name, strlen(name));
    }
    char *text = cli_alloc(4 * strlen(name) + 3), *out = text;
    *out++ = '"';
    for (p = (const unsigned char *)name; *p; p++) {
        if (*p == '"' || *p == '\\') {
            *out++ = '\\';
            *out++ = (char)*p;
        } else if (*p >= ' ' && *p < 0x7f) {
            *out++ = (char)*p;
        } else {
            out += snprintf(out, 5, "\\%03o", *p);
        }
    }
    *out = '"';
    return text;
}

static void print_size(const boxlite_changes *c, size_t i, FILE *f)
{
    unsigned long long old = boxlite_changes_old_size(c, i), now = boxlite_changes_size(c, i);

    switch (boxlite_changes_kind(c, i)) {
    case BOXLITE_CHANGE_MODE:
        fprintf(f, "%04o>%04o  ", boxlite_changes_old_mode(c, i) & 0777u,
                boxlite_changes_mode(c, i) & 0777u);
        return;
    case BOXLITE_CHANGE_MODIFIED:
        fprintf(f, "%+10lld  ", (long long)(now - old));
        return;
    default:
        fprintf(f, "%10llu  ", now ? now : old);
    }
}

void cli_changes_list(const boxlite_changes *c, FILE *f)
{
    static const char letters[] = "?AMDRPT";

    for (size_t i = 0; i < boxlite_changes_count(c); i++) {
        _cleanup_free_ char *name = cli_changes_name(boxlite_changes_path(c, i));
        const char *from = boxlite_changes_from(c, i), *note = boxlite_changes_conflict(c, i);
        _cleanup_free_ char *old = from ? cli_changes_name(from) : NULL;

        fprintf(f, "%c  ", letters[boxlite_changes_kind(c, i)]);
        print_size(c, i, f);
        fprintf(f, "%s%s%s%s%s%s", old ? old : "", old ? " -> " : "", name, note ? "  (" : "",
                note ? note : "", note ? ")" : "");
        note = boxlite_changes_held(c, i);
        fprintf(f, "%s%s%s\n", note ? "  [" : "", note ? note : "", note ? "]" : "");
    }
}

void cli_changes_left_out(const boxlite_changes *c)
{
    const struct {
        size_t n;
        const char *why;
    } counts[] = {
        {boxlite_changes_outside(c), "not below the paths that were named"},
        {boxlite_changes_ignored(c), "by .boxliteignore and --exclude"},
        {boxlite_changes_git_ignored(c), "because git ignores them"},
    };

    for (size_t i = 0; i < CLI_COUNT(counts); i++) {
        if (counts[i].n) {
            fprintf(stderr, "%zu change%s left out: %s\n", counts[i].n, counts[i].n == 1 ? "" : "s",
                    counts[i].why);
        }
    }
}

static size_t list_held(const boxlite_changes *c)
{
    size_t held = 0;

    for (size_t i = 0; i < boxlite_changes_count(c); i++) {
        const char *rule = boxlite_changes_held(c, i), *allow = boxlite_changes_allow(c, i);

        if (rule) {
            _cleanup_free_ char *name = cli_changes_name(boxlite_changes_path(c, i));

            fprintf(stderr, "held back: %s: %s", name, rule);
            if (allow && *allow) {
                fprintf(stderr, " (let it through with --allow %s)\n", allow);
            } else {
                fprintf(stderr, " (nothing lets it through)\n");
            }
            held++;
        }
    }
    return held;
}

int cli_changes_outcome(boxlite_changes *c, const char *verb)
{
    const int status = boxlite_changes_status(c);
    const bool quiet = status == BOXLITE_CHANGES_CONFLICT || status == BOXLITE_CHANGES_NONE;
    size_t held, n = boxlite_changes_count(c);

    if (cli_changes.json) {
        _cleanup_error_ boxlite_error *err = NULL;
        const char *json;

        if (boxlite_changes_json(c, &json, &err) < 0) {
            return cli_fail(&err, NULL);
        }
        puts(json);
    } else if (!quiet) {
        cli_changes_list(c, stdout);
    }
    cli_changes_left_out(c);
    held = list_held(c);
    for (size_t i = 0; i < boxlite_changes_conflict_count(c); i++) {
        _cleanup_free_ char *line = cli_changes_name(boxlite_changes_conflict_line(c, i));
        fprintf(stderr, "conflict: %s\n", line);
    }
    if (status == BOXLITE_CHANGES_CONFLICT) {
        fprintf(stderr, "boxlite: nothing was %s: files were changed on this machine too\n", verb);
        return CLI_EXIT_CONFLICT;
    }
    if (status == BOXLITE_CHANGES_NONE) {
        fprintf(stderr, "nothing to do\n");
    } else if (status != BOXLITE_CHANGES_LISTED && n > held) {
        _cleanup_free_ char *dir = cli_changes_name(boxlite_changes_workspace(c));
        fprintf(stderr, "%zu change%s %s in %s\n", n - held, n - held == 1 ? "" : "s", verb, dir);
    }
    return held ? CLI_EXIT_HELD : 0;
}
