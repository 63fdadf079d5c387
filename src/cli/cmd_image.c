/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image.c: boxlite image ls, rm, inspect. */
#include <fnmatch.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/inspect.h"
#include "cli/output.h"

static bool force, digests;
static struct cli_list filters;

static const struct cli_option ls_options[] = {
    {"digests", 0, CLI_FLAG, &digests, NULL, "show digests in full"},
    {"filter", 'f', CLI_LIST, &filters, "NAME=VALUE",
     "only images with reference=PATTERN, or dangling=true (without a name)"},
    {0},
};

static const struct cli_column columns[] = {
    {"NAME", "name"},       {"ID", "digest"}, {"PLATFORM", "platform"},
    {"CREATED", "created"}, {"SIZE", "size"}, {"SHARED", "shared_size"},
};

/* The digest's first 12 hexadecimal digits. */
static void add_image_id(struct cli_table *t, const char *digest)
{
    const char *colon = strchr(digest, ':');
    _cleanup_free_ char *id = cli_text("%.12s", colon ? colon + 1 : digest);

    cli_cell_pair(t, digests ? digest : id, digest);
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
    cli_cell_size(t, boxlite_image_shared_size(image));
}

static const char reference[] = "reference=";

/* The first filter that is none, or NULL. */
static const char *bad_filter(void)
{
    for (size_t i = 0; i < filters.count; i++) {
        const char *f = filters.items[i];

        if (strncmp(f, reference, sizeof(reference) - 1) != 0 && strcmp(f, "dangling=true") != 0 &&
            strcmp(f, "dangling=false") != 0) {
            return f;
        }
    }
    return NULL;
}

static bool passes(const char *f, const char *name)
{
    const char *pattern = f + sizeof(reference) - 1;

    if (strncmp(f, reference, sizeof(reference) - 1) != 0) {
        return (strcmp(f, "dangling=true") == 0) == !name;
    }
    return name &&
           (fnmatch(pattern, name, 0) == 0 || fnmatch(pattern, cli_image_familiar(name), 0) == 0);
}

static bool is_wanted(const char *name)
{
    bool wanted = true;

    for (size_t i = 0; i < filters.count; i++) {
        wanted = wanted && passes(filters.items[i], name);
    }
    return wanted;
}

static int run_ls(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_list_ boxlite_image_list *list = NULL;
    const char *bad = bad_filter();
    struct cli_table t;
    int status = bad ? cli_error_hint("there are: reference=PATTERN, dangling=true, dangling=false",
                                      "image ls: no filter '%s'", bad)
                     : cli_open();

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
            const char *name = j < names ? boxlite_image_name(image, j) : NULL;

            if (is_wanted(name)) {
                add_row(&t, image, name);
            }
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

static const struct cli_option *const ls_sets[] = {ls_options, cli_quiet_options,
                                                   cli_format_options, NULL};

const struct cli_command cli_cmd_image_ls = {
    .name = "image ls",
    .args = "",
    .summary = "list images",
    .about =
        "Lists local images: one line a name. SIZE is what the image takes on this disk; SHARED is how much of that "
        "other images use too.",
    .examples = "boxlite image ls\n"
                "boxlite images --json\n"
                "boxlite images -f reference='python:*'",
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
    .about =
        "Removes names of images, and each image with its last name; given by id or digest, with all its names.",
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
