/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image_history.c: boxlite image history. */
#include <string.h>

#include "cli/commands.h"
#include "cli/output.h"

#define TEXT_SHOWN 60

static bool whole;

static const struct cli_option options[] = {
    {"no-trunc", 0, CLI_FLAG, &whole, NULL, "show commands in full"},
    {0},
};

static const struct cli_column columns[] = {
    {"LAYER", "layer"}, {"CREATED", "created"}, {"CREATED BY", "created_by"},
    {"SIZE", "size"},   {"COMMENT", "comment"},
};

static void add_layer(struct cli_table *t, const char *digest)
{
    const char *colon = digest ? strchr(digest, ':') : NULL;
    _cleanup_free_ char *id = cli_text("%.12s", colon ? colon + 1 : "-");

    cli_cell_pair(t, id, digest);
}

static void add_text(struct cli_table *t, const char *text)
{
    size_t n = strlen(text);
    _cleanup_free_ char *cut = NULL;

    if (whole || n <= TEXT_SHOWN) {
        cli_cell_pair(t, text, text);
        return;
    }
    n = TEXT_SHOWN - 3;
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) { /* not inside a character */
        n--;
    }
    cut = cli_text("%.*s...", (int)n, text);
    cli_cell_pair(t, cut, text);
}

static void add_step(struct cli_table *t, const boxlite_image *image, size_t i)
{
    int64_t created = boxlite_image_history_created(image, i);

    add_layer(t, boxlite_image_history_layer(image, i));
    if (created) {
        cli_cell_age(t, created);
    } else {
        cli_cell_pair(t, "-", "");
    }
    add_text(t, boxlite_image_history_created_by(image, i));
    cli_cell_size(t, boxlite_image_history_size(image, i));
    cli_cell_text(t, boxlite_image_history_comment(image, i));
}

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_ boxlite_image *image = NULL;
    struct cli_table t;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_image_open(cli.rt, operands->items[0], &image, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_table_init(&t, columns, CLI_COUNT(columns));
    for (size_t i = boxlite_image_history_count(image); i-- > 0;) {
        add_step(&t, image, i);
    }
    status = cli_table_print(&t, 0);
    cli_table_done(&t);
    return status;
}

static const struct cli_option *const sets[] = {options, cli_quiet_options, cli_format_options,
                                                NULL};

const struct cli_command cli_cmd_image_history = {
    .name = "image history",
    .args = "IMAGE",
    .summary = "show how an image was made",
    .about =
        "Lists the steps that made an image, the newest first, with the layers and their packed sizes.",
    .examples = "boxlite image history my/image:1",
    .sets = sets,
    .min = 1,
    .max = 1,
    .first = CLI_W_IMAGE,
    .run = run,
};
