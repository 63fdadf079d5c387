/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel.c: boxlite kernel import, ls, rm. */
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"

static struct {
    const char *modules, *name;
} opt;

static const struct cli_option import_options[] = {
    {"modules", 0, CLI_TEXT, &opt.modules, "DIR",
     "its modules, /lib/modules/VERSION, for a kernel file that is not a package",
     .words = CLI_W_FILE},
    {"name", 0, CLI_TEXT, &opt.name, "NAME", "name to keep it under (default: default)"},
    {0},
};

static const struct cli_column columns[] = {
    {"NAME", "name"}, {"RELEASE", "release"}, {"SIZE", "size"}};

static int run_import(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_kernel_import(cli.rt, operands->items[0], opt.modules, opt.name, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    puts(opt.name ? opt.name : "default");
    return 0;
}

static int run_ls(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_kernel_list_ boxlite_kernel_list *list = NULL;
    struct cli_table t;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_kernel_list_new(cli.rt, &list, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_table_init(&t, columns, CLI_COUNT(columns));
    for (size_t i = 0; i < boxlite_kernel_list_count(list); i++) {
        cli_cell_text(&t, boxlite_kernel_list_name(list, i));
        cli_cell_text(&t, boxlite_kernel_list_release(list, i));
        cli_cell_size(&t, boxlite_kernel_list_size(list, i));
    }
    status = cli_table_print(&t, 0);
    cli_table_done(&t);
    return status;
}

static bool force;

static int remove_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;

    if (boxlite_kernel_remove(cli.rt, name, force, &err) < 0) {
        bool unknown = boxlite_error_code(err) == BOXLITE_E_NOT_FOUND;
        return cli_fail_hint(&err, NULL, unknown ? "list kernels with: boxlite kernel ls" : NULL);
    }
    puts(name);
    return 0;
}

static int run_rm(const struct cli_list *operands)
{
    return cli_each(operands, remove_one);
}

static const struct cli_option *const import_sets[] = {import_options, NULL};

const struct cli_command cli_cmd_kernel_import = {
    .name = "kernel import",
    .args = "FILE",
    .summary = "take a distribution's kernel for the boxes",
    .about =
        "Takes a guest kernel from a Debian kernel package (.deb), which need not be installed, from a vmlinuz with its "
        "modules, or from a plain vmlinux. A kernel of that name is replaced; boxes use the one named "
        "\"default\" unless they name another.",
    .examples =
        "apt-get download linux-image-6.1.0-50-cloud-amd64 && boxlite kernel import linux-image-*.deb\n"
        "boxlite kernel import /boot/vmlinuz-6.1.0-50-amd64 --modules /lib/modules/6.1.0-50-amd64",
    .sets = import_sets,
    .min = 1,
    .max = 1,
    .first = CLI_W_FILE,
    .run = run_import,
};

static const struct cli_option *const ls_sets[] = {cli_quiet_options, cli_format_options, NULL};

const struct cli_command cli_cmd_kernel_ls = {
    .name = "kernel ls",
    .args = "",
    .summary = "list kernels",
    .about = "Lists the guest kernels of this home.",
    .examples = "boxlite kernel ls",
    .sets = ls_sets,
    .run = run_ls,
};

static const struct cli_option rm_options[] = {
    {"force", 'f', CLI_FLAG, &force, NULL, "also one that boxes use"},
    {0},
};
static const struct cli_option *const rm_sets[] = {rm_options, NULL};

const struct cli_command cli_cmd_kernel_rm = {
    .name = "kernel rm",
    .args = "NAME...",
    .summary = "remove kernels",
    .about =
        "Removes guest kernels. One that boxes name is kept, because they could not start until there is one of that name "
        "again; -f removes it all the same.",
    .examples = "boxlite kernel rm old",
    .sets = rm_sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_KERNEL,
    .rest = CLI_W_KERNEL,
    .run = run_rm,
};
