/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image_prune.c: boxlite image prune. */
#include <inttypes.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/values.h"

static struct {
    bool all;
    uint64_t until_ms, keep;
} opt;

static const struct cli_option options[] = {
    {"all", 'a', CLI_FLAG, &opt.all, NULL, "also images with a name, if no box uses them"},
    {"until", 0, CLI_TIME, &opt.until_ms, "AGE",
     "only what came and was last used so long ago: \"240h\"", .max = UINT64_MAX},
    {"keep-size", 0, CLI_SIZE, &opt.keep, "SIZE",
     "the least recently used first, and stop at so many bytes: \"10G\"", .max = INT64_MAX},
    {0},
};

static const struct cli_column columns[] = {{"Removed images", "removed"},
                                            {"Space freed", "freed"}};

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    uint64_t removed = 0, freed = 0;
    struct cli_table t;
    int status = cli_open();

    (void)operands;
    if (status) {
        return status;
    }
    if (boxlite_image_prune(cli.rt, opt.all, opt.until_ms / 1000, opt.keep, &removed, &freed,
                            &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_table_init(&t, columns, CLI_COUNT(columns));
    cli_cell_number(&t, removed);
    cli_cell_size(&t, freed);
    status = cli_table_card(&t);
    cli_table_done(&t);
    return status;
}

static const struct cli_option *const sets[] = {options, cli_format_options, NULL};

const struct cli_command cli_cmd_image_prune = {
    .name = "image prune",
    .args = "",
    .summary = "remove images that nobody needs",
    .about =
        "Removes images without a name; with --all also those with one. Images that a box uses stay. What crashed "
        "processes left of images is cleared as well.",
    .examples = "boxlite image prune\n"
                "boxlite image prune --all --until 240h\n"
                "boxlite image prune --all --keep-size 10G",
    .sets = sets,
    .run = run,
};
