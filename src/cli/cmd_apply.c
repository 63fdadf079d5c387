/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_apply.c: boxlite apply, discard and undo. */
#include "cli/changes.h"
#include "cli/commands.h"

static int apply(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_change_options_ boxlite_change_options *o = NULL;
    _cleanup_changes_ boxlite_changes *c = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status = cli_changes_options(operands, 1, &o);

    if (status || (status = cli_open()) != 0 ||
        (status = cli_open_box(operands->items[0], &box)) != 0) {
        return status;
    }
    if (boxlite_box_apply(box, o, &c, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    return cli_changes_outcome(c, "applied");
}

static const struct cli_option *const apply_sets[] = {cli_changes_apply, cli_changes_which,
                                                      cli_changes_json, NULL};

const struct cli_command cli_cmd_apply = {
    .name = "apply",
    .args = "BOX [PATH...]",
    .summary = "bring what a box changed to this machine's folder",
    .about =
        "Writes the box' changes of its workspace to the folder, all or nothing. If files were changed here since the box "
        "saw them, they are listed and nothing is written (exit status 123). What would run on this machine later (git hooks, "
        "build servers' files, new programs, links that lead out, …) is held back unless a rule or path is named (122); naming "
        "a file as PATH lets it through. The replaced files are kept for undo.",
    .examples = "boxlite apply -n work\n"
                "boxlite apply work src tests\n"
                "boxlite apply --allow new-exec work",
    .sets = apply_sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_FILE,
    .run = apply,
};

static int discard(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_change_options_ boxlite_change_options *o = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status = cli_changes_options(operands, 1, &o);

    if (status || (status = cli_open()) != 0 ||
        (status = cli_open_box(operands->items[0], &box)) != 0) {
        return status;
    }
    return boxlite_box_discard(box, o, &err) < 0 ? cli_fail(&err, NULL) : 0;
}

static const struct cli_option discard_options[] = {
    {"workspace", 0, CLI_TEXT, &cli_changes.workspace, "PATH",
     "which workspace, if the box has several: its path here or in the box"},
    {0},
};
static const struct cli_option *const discard_sets[] = {discard_options, NULL};

const struct cli_command cli_cmd_discard = {
    .name = "discard",
    .args = "BOX [PATH...]",
    .summary = "make a box forget what it changed in its workspace",
    .about =
        "Takes back all changes of a box in its workspace, or those at and below PATH: the box then sees this "
        "machine's files again. The box must be stopped.",
    .examples = "boxlite discard work\n"
                "boxlite discard work src/generated",
    .sets = discard_sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_FILE,
    .run = discard,
};

static int undo(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_changes_ boxlite_changes *c = NULL;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_workspace_undo(cli.rt, operands->count ? operands->items[0] : ".",
                               cli_changes.dry_run, &c, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    return cli_changes_outcome(c, "undone");
}

static const struct cli_option undo_options[] = {
    {"dry-run", 'n', CLI_FLAG, &cli_changes.dry_run, NULL, "write nothing, say what would be done"},
    {0},
};
static const struct cli_option *const undo_sets[] = {undo_options, cli_changes_json, NULL};

const struct cli_command cli_cmd_undo = {
    .name = "undo",
    .args = "[DIR]",
    .summary = "take back the last apply to a folder",
    .about =
        "Puts back what the last apply to the folder (default: this one) replaced and removed, and removes what it "
        "added. Files that were changed since are listed, and nothing is written then (exit status 123). The last 20 "
        "applies can be undone one after the other, also when the box is gone.",
    .examples = "boxlite undo\n"
                "boxlite undo -n ~/project",
    .sets = undo_sets,
    .max = 1,
    .first = CLI_W_FILE,
    .run = undo,
};
