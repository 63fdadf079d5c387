/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image.c: boxlite image ls, rm, inspect. */
#include <string.h>

#include "cli/commands.h"
#include "cli/inspect.h"
#include "cli/output.h"

static bool force;

static const struct cli_column columns[] = {
    {"NAME", "name"},       {"ID", "digest"}, {"PLATFORM", "platform"},
    {"CREATED", "created"}, {"SIZE", "size"},
};

/* The digest's first 12 hexadecimal digits. */
static void add_image_id(struct cli_table *t, const char *digest)
{
    const char *colon = strchr(digest, ':');
    _cleanup_free_ char *id = cli_text("%.12s", colon ? colon + 1 : digest);

    cli_cell_pair(t, id, digest);
}

/* "docker.io/library/x" is what people call "x". */
const char *cli_image_familiar(const char *name)
{
    static const char *const prefixes[] = {"docker.io/library/", "docker.io/"};

    for (size_t i = 0; i < CLI_COUNT(prefixes); i++) {
        size_t n = strlen(prefixes[i]);

        if (strncmp(name, prefixes[i], n) == 0) {
            return name + n;
        }
    }
    return name;
}

static void add_row(struct cli_table *t, const boxlite_image *image, const char *name)
{
    cli_cell_pair(t, name ? cli_image_familiar(name) : "-", name);
    add_image_id(t, boxlite_image_digest(image));
    cli_cell_text(t, boxlite_image_platform(image));
    cli_cell_age(t, boxlite_image_created(image));
    cli_cell_size(t, boxlite_image_size(image));
}

static int run_ls(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_list_ boxlite_image_list *list = NULL;
    struct cli_table t;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_image_list_new(cli.rt, &list, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_table_init(&t, columns, CLI_COUNT(columns));
    for (size_t i = 0; i < boxlite_image_list_count(list); i++) {
        const boxlite_image *image = boxlite_image_list_get(list, i);
        size_t names = boxlite_image_name_count(image);

        for (size_t j = 0; j < (names ? names : 1); j++) {
            add_row(&t, image, j < names ? boxlite_image_name(image, j) : NULL);
        }
    }
    status = cli_table_print(&t, 1);
    cli_table_done(&t);
    return status;
}

static int remove_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;
    int r = boxlite_image_remove(cli.rt, name, force, &err);

    if (r == BOXLITE_E_NOT_FOUND && force) {
        return 0;
    }
    if (r < 0) {
        return cli_fail_hint(
            &err, NULL, r == BOXLITE_E_NOT_FOUND ? "list images with: boxlite image ls" : NULL);
    }
    puts(name);
    return 0;
}

static int run_rm(const struct cli_list *operands)
{
    return cli_each(operands, remove_one);
}

static int run_inspect(const struct cli_list *operands)
{
    return cli_inspect(operands, 'i');
}

static const struct cli_option *const ls_sets[] = {cli_quiet_options, cli_format_options, NULL};

const struct cli_command cli_cmd_image_ls = {
    .name = "image ls",
    .args = "",
    .summary = "list images",
    .about = "Lists local images: one line a name. SIZE is what the image takes on this disk.",
    .examples = "boxlite image ls\n"
                "boxlite images --json",
    .sets = ls_sets,
    .run = run_ls,
};

static const struct cli_option rm_options[] = {
    {"force", 'f', CLI_FLAG, &force, NULL,
     "also if a box uses it; no error if there is no such image"},
    {0},
};
static const struct cli_option *const rm_sets[] = {rm_options, NULL};

const struct cli_command cli_cmd_image_rm = {
    .name = "image rm",
    .args = "IMAGE...",
    .summary = "remove images",
    .about = "Removes names of images, and each image with its last name.",
    .examples = "boxlite image rm my/image:1",
    .sets = rm_sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_IMAGE,
    .rest = CLI_W_IMAGE,
    .run = run_rm,
};

const struct cli_command cli_cmd_image_inspect = {
    .name = "image inspect",
    .args = "IMAGE...",
    .summary = "show all that is known of images",
    .about =
        "Prints a JSON array with one object for each image: digest, names, configuration, layers, sizes.",
    .examples = "boxlite image inspect boxlite/base:bookworm",
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_IMAGE,
    .rest = CLI_W_IMAGE,
    .run = run_inspect,
};
