/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image_load.c: boxlite image load: OCI image layouts and docker archives. */
#include "cli/commands.h"
#include "cli/progress.h"

static struct {
    const char *input, *name;
    bool quiet;
} opt;

static const struct cli_option options[] = {
    {"input", 'i', CLI_TEXT, &opt.input, "PATH", "the same as the operand, Docker's way",
     .words = CLI_W_FILE},
    {"name", 0, CLI_TEXT, &opt.name, "NAME[:TAG]", "name for an image that carries none"},
    {"quiet", 'q', CLI_FLAG, &opt.quiet, NULL, "print only digests"},
    {0},
};

static void print_image(const boxlite_image *image)
{
    if (opt.quiet || boxlite_image_name_count(image) == 0) {
        puts(boxlite_image_digest(image));
        return;
    }
    for (size_t i = 0; i < boxlite_image_name_count(image); i++) {
        printf("%s %s\n", cli_image_familiar(boxlite_image_name(image, i)),
               boxlite_image_digest(image));
    }
}

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_list_ boxlite_image_list *list = NULL;
    const char *path = operands->count ? operands->items[0] : opt.input;
    int status;

    if (!path && !isatty(STDIN_FILENO)) {
        path = "-";
    }
    if (!path || (operands->count && opt.input)) {
        return cli_error_hint("usage: boxlite image load PATH|-", "image load: give one path");
    }
    status = cli_open();
    if (status) {
        return status;
    }
    if (boxlite_image_load(cli.rt, path, opt.name, &list, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    for (size_t i = 0; i < boxlite_image_list_count(list); i++) {
        print_image(boxlite_image_list_get(list, i));
    }
    return 0;
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_image_load = {
    .name = "image load",
    .args = "[PATH|-]",
    .summary = "load an OCI layout or a docker archive",
    .about =
        "Loads all images of an OCI image layout (a folder or a tar archive of one) or of an archive that "
        "\"docker save\" or \"podman save\" wrote; \"-\" (the default unless it is a terminal) reads standard input. "
        "Prints their names and digests.",
    .examples = "docker save python:3.11-slim -o python.tar && boxlite image load python.tar\n"
                "boxlite image load ./layout --name my/image:1",
    .sets = sets,
    .max = 1,
    .first = CLI_W_FILE,
    .run = run,
};
