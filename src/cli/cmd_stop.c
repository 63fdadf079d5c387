/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stop.c: boxlite stop. */
#include "cli/commands.h"

static uint64_t wait_ms = 10000;

static const struct cli_option options[] = {
    {"time", 't', CLI_TIME, &wait_ms, "TIME",
     "how long the command may take to end before it is killed (default: 10s)", .max = 86400000},
    {0},
};

static int stop_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status = cli_open_box(name, &box);

    if (status) {
        return status;
    }
    if (boxlite_box_stop(box, (uint32_t)wait_ms, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    puts(name);
    return 0;
}

static int run(const struct cli_list *operands)
{
    return cli_each(operands, stop_one);
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_stop = {
    .name = "stop",
    .args = "BOX...",
    .summary = "stop running boxes",
    .about =
        "Sends the main command its stop signal, waits, kills what is left, syncs the disk and ends the machine. A box "
        "that is stopped already is no error.",
    .examples = "boxlite stop work\n"
                "boxlite stop -t 0 work",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_BOX,
    .run = run,
};
