/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_diff.c: boxlite diff. */
#include <string.h>

#include "cli/changes.h"
#include "cli/commands.h"

#define MAX_BYTES (1u << 20)

static bool stat_only, names_only, patch;
static uint64_t max_bytes = MAX_BYTES;

static const struct cli_option options[] = {
    {"patch", 'p', CLI_FLAG, &patch, NULL, "as a unified diff"},
    {"stat", 0, CLI_FLAG, &stat_only, NULL, "the lines added and removed in each file"},
    {"name-only", 0, CLI_FLAG, &names_only, NULL, "the names alone"},
    {"max-bytes", 0, CLI_SIZE, &max_bytes, "SIZE",
     "longest unified diff; it ends behind a whole file (default: 1M)", 1, 1u << 30},
    {0},
};

static int print_stat(boxlite_changes *c)
{
    size_t all_added = 0, all_removed = 0, n = boxlite_changes_count(c);

    for (size_t i = 0; i < n; i++) {
        _cleanup_error_ boxlite_error *err = NULL;
        _cleanup_free_ char *name = cli_changes_name(boxlite_changes_path(c, i));
        size_t added, removed;

        if (boxlite_changes_lines(c, i, &added, &removed, &err) < 0) {
            return cli_fail(&err, NULL);
        }
        printf("%7zu %7zu  %s\n", added, removed, name);
        all_added += added;
        all_removed += removed;
    }
    printf("%zu file%s, %zu line%s added, %zu removed\n", n, n == 1 ? "" : "s", all_added,
           all_added == 1 ? "" : "s", all_removed);
    return 0;
}

static int print(boxlite_changes *c)
{
    _cleanup_error_ boxlite_error *err = NULL;
    const char *text;
    int r = 0;

    if (stat_only) {
        return print_stat(c);
    }
    if (names_only) {
        for (size_t i = 0; i < boxlite_changes_count(c); i++) {
            _cleanup_free_ char *name = cli_changes_name(boxlite_changes_path(c, i));
            puts(name);
        }
    } else if (cli_changes.json) {
        r = boxlite_changes_json(c, &text, &err);
        r = r < 0 ? r : puts(text);
    } else if (patch) {
        r = boxlite_changes_text(c, (size_t)max_bytes, &text, &err);
        r = r < 0 ? r : fputs(text, stdout);
    } else {
        cli_changes_list(c, stdout);
    }
    return err ? cli_fail(&err, NULL) : 0;
}

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_change_options_ boxlite_change_options *o = NULL;
    _cleanup_changes_ boxlite_changes *c = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status = 0;

    if (stat_only + names_only + patch + cli_changes.json > 1) {
        return cli_error_hint("leave all but one out",
                              "--patch, --stat, --name-only and --json exclude each other");
    }
    status = cli_changes_options(operands, 1, &o);
    if (status || (status = cli_open()) != 0 ||
        (status = cli_open_box(operands->items[0], &box)) != 0) {
        return status;
    }
    if (boxlite_box_diff(box, o, &c, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    status = print(c);
    cli_changes_left_out(c);
    return status;
}

static const struct cli_option *const sets[] = {options, cli_changes_which, cli_changes_json, NULL};

const struct cli_command cli_cmd_diff = {
    .name = "diff",
    .args = "BOX [PATH...]",
    .summary = "show what a box changed in its workspace",
    .about =
        "Shows what differs from what the box saw when it was first started: A added, M modified, D deleted, R renamed, "
        "P permissions, T type; with sizes, and what the gate would hold back. PATH: only what is at or below it. A box that "
        "does not run is started for it without its command, and stopped after.",
    .examples = "boxlite diff work\n"
                "boxlite diff -p work src | less\n"
                "boxlite diff --json work | jq -r '.changes[].path'",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_FILE,
    .run = run,
};
