/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_push.c: boxlite push: images to registries. */
#include "cli/commands.h"
#include "cli/transfer.h"

static int run(const struct cli_list *operands)
{
    const char *to = operands->count > 1 ? operands->items[1] : NULL;
    _cleanup_free_ char *full = NULL;
    _cleanup_free_ char *digest = NULL;
    int status = cli_transfer_choose_output("push");

    status = status ? status : cli_open();
    status = status ? status : cli_push(operands->items[0], to, &full, &digest);
    if (!status) {
        cli_transfer_end(full, digest);
    }
    return status;
}

static const struct cli_option *const sets[] = {cli_transfer_output_options, cli_transfer_options,
                                                NULL};

const struct cli_command cli_cmd_push = {
    .name = "push",
    .args = "IMAGE [NAME[:TAG]]",
    .summary = "send an image to a registry",
    .about =
        "Sends an image to the registry that its name says, or under another name if one is given. Its digest stays "
        "what it is. Layers that the registry has are not sent again.",
    .examples = "boxlite push localhost:5000/my/tool:1\n"
                "boxlite push my/tool:1 localhost:5000/my/tool:1",
    .sets = sets,
    .min = 1,
    .max = 2,
    .first = CLI_W_IMAGE,
    .run = run,
};
