/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_pull.c: boxlite pull: images from registries. */
#include "cli/commands.h"
#include "cli/transfer.h"

static const struct cli_option options[] = {
    {"platform", 0, CLI_TEXT, &cli_transfer.platform, "OS/ARCH[/VARIANT]",
     "which image of several (default: this machine's)"},
    {0},
};

static int pull_one(const char *name)
{
    _cleanup_free_ char *full = NULL;
    _cleanup_free_ char *digest = NULL;
    int status = cli_pull(name, &full, &digest);

    if (!status) {
        cli_transfer_end(full, digest);
    }
    return status;
}

static int run(const struct cli_list *operands)
{
    int status = cli_transfer_choose_output("pull");

    return status ? status : cli_each(operands, pull_one);
}

static const struct cli_option *const sets[] = {cli_transfer_output_options, options,
                                                cli_transfer_options, NULL};

const struct cli_command cli_cmd_pull = {
    .name = "pull",
    .args = "NAME[:TAG|@DIGEST]...",
    .summary = "fetch images from a registry",
    .about =
        "Fetches images, and makes their root images. Names are read as Docker reads them. Layers that are here "
        "already are not fetched again, and a pull that was cut goes on where it stopped. Registries, mirrors, "
        "proxies and authorities are set in registries.json: see boxlite-registries(5).",
    .examples = "boxlite pull python:3.12-slim\n"
                "boxlite pull --platform linux/amd64 localhost:5000/my/tool:1",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_IMAGE,
    .rest = CLI_W_IMAGE,
    .run = run,
};
