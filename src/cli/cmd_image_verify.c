/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image_verify.c: boxlite image verify. */
#include "cli/commands.h"
#include "cli/progress.h"

static bool repair;

static const struct cli_option options[] = {
    {"repair", 0, CLI_FLAG, &repair, NULL,
     "remove damaged files, and build damaged root images anew"},
    {0},
};

static int verify_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;

    if (boxlite_image_verify(cli.rt, name, repair, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    printf("%s: ok\n", name);
    return 0;
}

static int verify_all(void)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_list_ boxlite_image_list *list = NULL;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_image_list_new(cli.rt, &list, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    for (size_t i = 0; i < boxlite_image_list_count(list); i++) {
        const boxlite_image *image = boxlite_image_list_get(list, i);
        const char *name = boxlite_image_name(image, 0);
        int r = verify_one(name ? cli_image_familiar(name) : boxlite_image_digest(image));

        status = status ? status : r;
    }
    return status;
}

static int run(const struct cli_list *operands)
{
    return operands->count ? cli_each(operands, verify_one) : verify_all();
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_image_verify = {
    .name = "image verify",
    .args = "[IMAGE...]",
    .summary = "check images against their digests",
    .about =
        "Digests every file of the images (default: of all), and builds their root images anew to compare them. Says "
        "what is damaged and what to do about it.",
    .examples = "boxlite image verify\n"
                "boxlite image verify --repair my/image:1",
    .sets = sets,
    .max = CLI_ANY,
    .first = CLI_W_IMAGE,
    .rest = CLI_W_IMAGE,
    .run = run,
};
