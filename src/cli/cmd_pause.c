/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_pause.c: boxlite pause and unpause. */
#include "cli/commands.h"

typedef int (*verb_fn)(boxlite_box *box, boxlite_error **err);

static int apply(const char *name, verb_fn fn)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status = cli_open_box(name, &box);

    if (status) {
        return status;
    }
    if (fn(box, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    puts(name);
    return 0;
}

static int pause_one(const char *name)
{
    return apply(name, boxlite_box_pause);
}

static int resume_one(const char *name)
{
    return apply(name, boxlite_box_resume);
}

static int run_pause(const struct cli_list *operands)
{
    return cli_each(operands, pause_one);
}

static int run_unpause(const struct cli_list *operands)
{
    return cli_each(operands, resume_one);
}

const struct cli_command cli_cmd_pause = {
    .name = "pause",
    .args = "BOX...",
    .summary = "hold boxes still",
    .about =
        "Stops the virtual CPUs. Memory stays as it is; nothing in the box runs until unpause.",
    .examples = "boxlite pause work",
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_BOX,
    .run = run_pause,
};

const struct cli_command cli_cmd_unpause = {
    .name = "unpause",
    .args = "BOX...",
    .summary = "let paused boxes go on",
    .about = "Lets paused boxes go on where they were.",
    .examples = "boxlite unpause work",
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_BOX,
    .run = run_unpause,
};
