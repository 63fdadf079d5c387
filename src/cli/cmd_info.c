/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_info.c: boxlite info: this home in numbers. */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/output.h"

#define DEPTH_MAX 32

static const struct cli_column columns[] = {
    {"Version", "version"}, {"Home", "home"},     {"Engine", "engine"},   {"Boxes", "boxes"},
    {"Running", "running"}, {"Images", "images"}, {"Kernels", "kernels"}, {"Disk use", "disk_use"},
};

static uint64_t disk_use; /* nftw() has no way to pass it */

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    if (type == FTW_F || type == FTW_D) {
        disk_use += (uint64_t)st->st_blocks * 512u;
    }
    return 0;
}

static int count_boxes(uint64_t *ret_all, uint64_t *ret_running, boxlite_error **err)
{
    _cleanup_box_list_ boxlite_box_list *list = NULL;
    int r = boxlite_box_list_new(cli.rt, &list, err);

    if (r < 0) {
        return r;
    }
    *ret_all = boxlite_box_list_count(list);
    *ret_running = 0;
    for (size_t i = 0; i < *ret_all; i++) {
        _cleanup_error_ boxlite_error *gone = NULL;
        int state = boxlite_box_state(boxlite_box_list_get(list, i), &gone);

        *ret_running += state == BOXLITE_BOX_RUNNING || state == BOXLITE_BOX_PAUSED;
    }
    return 0;
}

static int count_things(uint64_t *ret_images, uint64_t *ret_kernels, boxlite_error **err)
{
    _cleanup_image_list_ boxlite_image_list *images = NULL;
    _cleanup_kernel_list_ boxlite_kernel_list *kernels = NULL;
    int r = boxlite_image_list_new(cli.rt, &images, err);

    r = r < 0 ? r : boxlite_kernel_list_new(cli.rt, &kernels, err);
    if (r < 0) {
        return r;
    }
    *ret_images = boxlite_image_list_count(images);
    *ret_kernels = boxlite_kernel_list_count(kernels);
    return 0;
}

/* What doctor found out about the engine. */
static int engine_text(char **ret, boxlite_error **err)
{
    _cleanup_report_ boxlite_report *report = NULL;
    int r = boxlite_doctor(cli.rt, &report, err);

    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < boxlite_report_count(report) && !*ret; i++) {
        if (strcmp(boxlite_report_name(report, i), "engine") == 0) {
            *ret = cli_text("%s", boxlite_report_detail(report, i));
        }
    }
    return 0;
}

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_free_ char *engine = NULL;
    uint64_t boxes = 0, running = 0, images = 0, kernels = 0;
    struct cli_table t;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (count_boxes(&boxes, &running, &err) < 0 || count_things(&images, &kernels, &err) < 0 ||
        engine_text(&engine, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    (void)nftw(boxlite_runtime_home(cli.rt), add_file, DEPTH_MAX, FTW_PHYS | FTW_MOUNT);
    cli_table_init(&t, columns, CLI_COUNT(columns));
    cli_cell_text(&t, boxlite_version());
    cli_cell_text(&t, boxlite_runtime_home(cli.rt));
    cli_cell_text(&t, engine ? engine : "unknown");
    cli_cell_number(&t, boxes);
    cli_cell_number(&t, running);
    cli_cell_number(&t, images);
    cli_cell_number(&t, kernels);
    cli_cell_size(&t, disk_use);
    status = cli_table_card(&t);
    cli_table_done(&t);
    return status;
}

static const struct cli_option *const sets[] = {cli_format_options, NULL};

const struct cli_command cli_cmd_info = {
    .name = "info",
    .args = "",
    .summary = "show the home directory in numbers",
    .about =
        "Shows where boxes and images are kept, how many there are and what they take, and which engine runs boxes.",
    .examples = "boxlite info\n"
                "boxlite info --json",
    .sets = sets,
    .run = run,
};
