/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_create.c: boxlite create: a box that start will run. */
#include "cli/boxrun.h"
#include "cli/boxspec.h"
#include "cli/commands.h"

static int run(const struct cli_list *operands)
{
    _cleanup_box_options_ boxlite_box_options *o = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status = cli_box_spec(operands, true, &o);

    if (status || (status = cli_open()) != 0 || (status = cli_box_create(o, &box)) != 0) {
        return status;
    }
    puts(boxlite_box_id(box));
    return 0;
}

static const struct cli_option *const sets[] = {cli_process_options, cli_box_options, NULL};

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
