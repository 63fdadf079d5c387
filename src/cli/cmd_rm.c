/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_rm.c: boxlite rm. With --force it promises that the box is gone, so a box that never was is fine. */
#include "cli/commands.h"

static bool force;

static const struct cli_option options[] = {
    {"force", 'f', CLI_FLAG, &force, NULL, "also boxes that run; no error if there is no such box"},
    {0},
};

static int remove_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int r = boxlite_box_open(cli.rt, name, &box, &err);

    if (r == BOXLITE_E_NOT_FOUND && force) {
        return 0;
    }
    if (r == 0) {
        r = boxlite_box_remove(box, force, &err);
    }
    if (r < 0) {
        return cli_fail_hint(&err, NULL,
                             r == BOXLITE_E_STATE ? "stop it first, or use rm -f" : NULL);
    }
    puts(name);
    return 0;
}

static int run(const struct cli_list *operands)
{
    return cli_each(operands, remove_one);
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_rm = {
    .name = "rm",
    .args = "BOX...",
    .summary = "remove boxes with all that they wrote",
    .about = "Removes boxes and their disks. Images stay.",
    .examples = "boxlite rm work\n"
                "boxlite rm -f $(boxlite ls -aq)",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_BOX,
    .run = run,
};
