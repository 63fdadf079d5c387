/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image_tag.c: boxlite image tag, untag. */
#include "cli/commands.h"

static int run_tag(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_image_tag(cli.rt, operands->items[0], operands->items[1], &err) < 0) {
        return cli_fail_hint(&err, NULL, "list images with: boxlite image ls");
    }
    return 0;
}

static int untag_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;

    if (boxlite_image_untag(cli.rt, name, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    puts(name);
    return 0;
}

static int run_untag(const struct cli_list *operands)
{
    return cli_each(operands, untag_one);
}

const struct cli_command cli_cmd_image_tag = {
    .name = "image tag",
    .args = "IMAGE NAME[:TAG]",
    .summary = "give an image another name",
    .about = "Gives an image one more name. A name that another image has is taken from that one.",
    .examples = "boxlite image tag my/image:1 my/image:stable\n"
                "boxlite tag 4f2d1c9e8b7a my/image",
    .min = 2,
    .max = 2,
    .first = CLI_W_IMAGE,
    .run = run_tag,
};

const struct cli_command cli_cmd_image_untag = {
    .name = "image untag",
    .args = "NAME...",
    .summary = "take names of images away",
    .about =
        "Takes names away and keeps the images: one without a name is known by its digest, until it is pruned.",
    .examples = "boxlite image untag my/image:stable",
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_IMAGE,
    .rest = CLI_W_IMAGE,
    .run = run_untag,
};
