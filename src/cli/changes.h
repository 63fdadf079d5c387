/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes.h: what diff, apply, undo and run --apply-if share: their options, and how changes are shown.
 */
#ifndef CLI_CHANGES_H
#define CLI_CHANGES_H

#include "cli/options.h"

BX_DEFINE_CLEANUP(boxlite_changes *, boxlite_changes_free, cli_cleanup_changes);
BX_DEFINE_CLEANUP(boxlite_change_options *, boxlite_change_options_free,
                  cli_cleanup_change_options);
#define _cleanup_changes_ _cleanup_(cli_cleanup_changes)
#define _cleanup_change_options_ _cleanup_(cli_cleanup_change_options)

/* Exit statuses of apply, undo and run --apply-if; docs/workspaces.md. */
#define CLI_EXIT_CHECK_FAILED 121 /* the command was fine, the check was not: nothing was applied */
#define CLI_EXIT_HELD 122         /* changes are held back; the others were applied */
#define CLI_EXIT_CONFLICT 123 /* this machine changed some of the files too: nothing was applied */

struct cli_changes {
    const char *workspace, *git_ignored;
    struct cli_list excludes, allow;
    bool dry_run, merge, json;
};
extern struct cli_changes cli_changes;
extern const struct cli_option cli_changes_which[]; /* --workspace --exclude --git-ignored */
extern const struct cli_option cli_changes_apply[]; /* --dry-run --merge --allow */
extern const struct cli_option cli_changes_json[];  /* --json */

/* The library's options from those and the paths (operands from `first` on). 0 or an exit status. */
int cli_changes_options(const struct cli_list *operands, size_t first,
                        boxlite_change_options **ret);
/* A line a change: what happened, its size, its name. */
void cli_changes_list(const boxlite_changes *c, FILE *f);
/* What is not in the list, if anything is; to standard error. */
void cli_changes_left_out(const boxlite_changes *c);
/* What is held back and by which rule, conflicts, and what came of it; returns the exit status. */
int cli_changes_outcome(boxlite_changes *c, const char *verb);
/* A name fit for one line: with quotes and escapes when it holds anything odd. Caller frees. */
char *cli_changes_name(const char *name);

#endif
