/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image_import.c: boxlite image import: an image from the tar of a root file system. */
#include "cli/commands.h"
#include "cli/imageconfig.h"
#include "cli/progress.h"

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_config_ boxlite_image_config *config = NULL;
    _cleanup_image_ boxlite_image *image = NULL;
    int status;

    status = cli_image_config(&config);
    status = status ? status : cli_open();
    if (status) {
        return status;
    }
    if (boxlite_image_import(cli.rt, operands->items[0], operands->items[1], config, &image, &err) <
        0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    puts(boxlite_image_digest(image));
    return 0;
}

static const struct cli_option *const sets[] = {cli_image_config_options, NULL};

const struct cli_command cli_cmd_image_import = {
    .name = "image import",
    .args = "FILE|- NAME[:TAG]",
    .summary = "make an image from a tar of a root file system",
    .about =
        "Makes an image from a tar archive (plain, gzip or zstd) of a root file system; \"-\" reads standard input. "
        "The options say how its commands start. Prints the image's digest.",
    .examples = "boxlite image import rootfs.tar.gz my/image:1 --cmd /bin/sh\n"
                "docker export CONTAINER | boxlite image import - my/image -e LANG=C.UTF-8",
    .sets = sets,
    .min = 2,
    .max = 2,
    .first = CLI_W_FILE,
    .run = run,
};
