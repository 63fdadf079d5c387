/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_setup.c: boxlite setup: what a new home needs before its first box. A kernel comes from a file or, by the helper
 * kernel-fetch, from the distribution; images from a registry or from files. What is there already is left alone.
 */
#include <errno.h>
#include <ftw.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/libexec.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/transfer.h"

static struct {
    const char *kernel, *modules;
} opt;

static const struct cli_option options[] = {
    {"kernel", 0, CLI_TEXT, &opt.kernel, "FILE",
     "kernel package, vmlinuz or vmlinux (default: one of this distribution is fetched)",
     .words = CLI_W_FILE},
    {"modules", 0, CLI_TEXT, &opt.modules, "DIR",
     "its modules, for a kernel file that is not a package", .words = CLI_W_FILE},
    {0},
};

static int has_kernel(bool *ret)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_kernel_list_ boxlite_kernel_list *list = NULL;

    if (boxlite_kernel_list_new(cli.rt, &list, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    *ret = false;
    for (size_t i = 0; i < boxlite_kernel_list_count(list); i++) {
        *ret = *ret || strcmp(boxlite_kernel_list_name(list, i), "default") == 0;
    }
    return 0;
}

static int import_kernel(const char *path, const char *modules)
{
    _cleanup_error_ boxlite_error *err = NULL;

    if (boxlite_kernel_import(cli.rt, path, modules, NULL, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    puts("kernel default");
    return 0;
}

static int import_fetched(const char *folder)
{
    const char *argv[] = {"kernel-fetch", folder, NULL};
    _cleanup_free_ char *deb = cli_text("%s/kernel.deb", folder);
    _cleanup_free_ char *vmlinuz = cli_text("%s/vmlinuz", folder);
    _cleanup_free_ char *modules = cli_text("%s/modules", folder);
    int status = cli_libexec_run((char *const *)argv);

    if (status) {
        return cli_error("no kernel could be fetched (status %d)", status);
    }
    return access(deb, R_OK) == 0 ? import_kernel(deb, NULL) : import_kernel(vmlinuz, modules);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static int fetch_kernel(void)
{
    const char *tmp = getenv("TMPDIR");
    _cleanup_free_ char *folder = cli_text("%s/boxlite-setup.XXXXXX", tmp ? tmp : "/tmp");
    int status;

    if (!mkdtemp(folder)) {
        return cli_error("%s: %s", folder, strerror(errno));
    }
    status = import_fetched(folder);
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return status;
}

static int set_up_kernel(void)
{
    bool there = false;
    int status = has_kernel(&there);

    if (status || (there && !opt.kernel)) {
        return status;
    }
    return opt.kernel ? import_kernel(opt.kernel, opt.modules) : fetch_kernel();
}

static int load(const char *path)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_list_ boxlite_image_list *list = NULL;

    if (boxlite_image_load(cli.rt, path, NULL, &list, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    for (size_t i = 0; i < boxlite_image_list_count(list); i++) {
        printf("image %s\n", boxlite_image_digest(boxlite_image_list_get(list, i)));
    }
    return 0;
}

static int set_up_image(const char *what)
{
    _cleanup_image_ boxlite_image *image = NULL;
    _cleanup_free_ char *digest = NULL;
    int status;

    if (strchr("./", *what)) {
        return load(what);
    }
    if (boxlite_image_open(cli.rt, what, &image, NULL) == 0) {
        return 0;
    }
    status = cli_pull(what, NULL, &digest);
    if (status == 0) {
        printf("image %s\n", digest);
    }
    return status;
}

static int run(const struct cli_list *operands)
{
    int status;

    if (opt.modules && !opt.kernel) {
        return cli_error_hint("name the kernel with --kernel", "setup: --modules without a kernel");
    }
    status = cli_open();
    status = status ? status : set_up_kernel();
    return status ? status : cli_each(operands, set_up_image);
}

static const struct cli_option *const sets[] = {options, cli_transfer_options, NULL};

const struct cli_command cli_cmd_setup = {
    .name = "setup",
    .args = "[IMAGE|./FILE]...",
    .summary = "bring a guest kernel and images for a first box",
    .about =
        "Prepares a home: fetches a guest kernel from this distribution's package archive (which is not installed, "
        "only unpacked) unless there is one, and the images that are named: pulled from their registry, or loaded from a "
        "path that begins with \"/\" or \".\". What is there already is left alone. Prints what it brought.",
    .examples = "boxlite setup python:3.12-slim\n"
                "boxlite setup --kernel linux-image-cloud.deb ./python.tar",
    .sets = sets,
    .max = CLI_ANY,
    .first = CLI_W_IMAGE,
    .rest = CLI_W_IMAGE,
    .run = run,
};
