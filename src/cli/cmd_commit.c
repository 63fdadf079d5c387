/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_commit.c: boxlite commit: an image of what a box has changed. */
#include "cli/commands.h"
#include "cli/imageconfig.h"
#include "cli/progress.h"

static const char *message;

static const struct cli_option options[] = {
    {"message", 'm', CLI_TEXT, &message, "TEXT", "a comment for the image's history"},
    {0},
};

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_config_ boxlite_image_config *config = NULL;
    _cleanup_image_ boxlite_image *image = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status = cli_image_config(&config);

    status = status ? status : cli_open();
    status = status ? status : cli_open_box(operands->items[0], &box);
    if (status) {
        return status;
    }
    if (boxlite_box_commit(box, operands->items[1], config, message, &image, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    puts(boxlite_image_digest(image));
    return 0;
}

static const struct cli_option *const sets[] = {options, cli_image_config_options, NULL};

const struct cli_command cli_cmd_commit = {
    .name = "commit",
    .args = "BOX NAME[:TAG]",
    .summary = "make an image of what a box has changed",
    .about =
        "Makes an image: the one that the box was made from, with one more layer of all that the box has changed since. The box may run "
        "or be stopped; one that is stopped is started quietly for it. Prints the image's digest, which is the same for the same changes.",
    .examples = "boxlite commit work my/environment:1\n"
                "boxlite commit -m 'numpy installed' -w /data work my/environment:2\n"
                "boxlite push my/environment:2",
    .sets = sets,
    .min = 2,
    .max = 2,
    .first = CLI_W_BOX,
    .run = run,
};
