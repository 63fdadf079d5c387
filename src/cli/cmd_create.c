/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_create.c: boxlite create: a box that start will run. */
#include "cli/boxrun.h"
#include "cli/boxspec.h"
#include "cli/commands.h"
#include "cli/transfer.h"

static bool quiet;

static const struct cli_option options[] = {
    {"quiet", 'q', CLI_FLAG, &quiet, NULL, "show no progress"},
    {0},
};

static int run(const struct cli_list *operands)
{
    _cleanup_box_options_ boxlite_box_options *o = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status;

    if (quiet) {
        cli_transfer.show = CLI_SHOW_NOTHING;
    }
    status = cli_box_make(operands, true, &o);
    status = status ? status : cli_box_create(o, &box);
    if (status) {
        return status;
    }
    puts(boxlite_box_id(box));
    return 0;
}

static const struct cli_option *const sets[] = {options, cli_process_options, cli_box_options,
                                                NULL};

const struct cli_command cli_cmd_create = {
    .name = "create",
    .args = "IMAGE [COMMAND [ARG...]]",
    .summary = "create a box without starting it",
    .about = "Creates a box as run does, prints its id, and leaves it for start.",
    .examples = "boxlite create --name build --cpus 2 --memory 2G boxlite/base:bookworm make\n"
                "boxlite start -a build",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .verbatim = true,
    .first = CLI_W_IMAGE,
    .run = run,
};
