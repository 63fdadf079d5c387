/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_kernel_build.c: boxlite kernel build: the helper script compiles (its output is passed through),
 * this imports what it made.
 */
#include <errno.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/libexec.h"
#include "cli/progress.h"

static struct {
    const char *name, *output, *source;
} opt;

static const struct cli_option options[] = {
    {"name", 0, CLI_TEXT, &opt.name, "NAME", "name to keep it under (default: default)"},
    {"source", 0, CLI_TEXT, &opt.source, "PATH",
     "kernel source, a folder or tar archive (default: the distribution's package)",
     .words = CLI_W_FILE},
    {"output", 'o', CLI_TEXT, &opt.output, "FILE", "also leave the vmlinux in this file",
     .words = CLI_W_FILE},
    {0},
};

static int build(const char *output)
{
    const char *argv[6] = {"kernel-build", "--output", output};
    int status;

    if (opt.source) {
        argv[3] = "--source";
        argv[4] = opt.source;
    }
    status = cli_libexec_run((char *const *)argv);
    return status ? cli_error("building the kernel failed (status %d)", status) : 0;
}

static int build_and_import(const char *output)
{
    _cleanup_error_ boxlite_error *err = NULL;
    int status = build(output);

    if (status) {
        return status;
    }
    if (boxlite_kernel_import(cli.rt, output, NULL, opt.name, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    puts(opt.name ? opt.name : "default");
    return 0;
}

static int run(const struct cli_list *operands)
{
    const char *tmp = getenv("TMPDIR");
    _cleanup_free_ char *folder = cli_text("%s/boxlite-kernel.XXXXXX", tmp ? tmp : "/tmp");
    int status = cli_open();

    if (status) {
        return status;
    }
    if (opt.output) {
        return build_and_import(opt.output);
    }
    if (!mkdtemp(folder)) {
        return cli_error("%s: %s", folder, strerror(errno));
    }
    _cleanup_free_ char *output = cli_text("%s/vmlinux", folder);

    status = build_and_import(output);
    (void)unlink(output);
    (void)rmdir(folder);
    return status;
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_kernel_build = {
    .name = "kernel build",
    .args = "",
    .summary = "compile a small kernel for the boxes",
    .about = "Compiles a kernel with just what a box needs, which starts about twice as fast as a "
             "distribution's, from the distribution's kernel source, and imports it. Takes some "
             "minutes, a compiler and 2.5 GB in $TMPDIR; says what is missing.",
    .examples = "boxlite kernel build\n"
                "boxlite kernel build --name small && boxlite run --kernel small IMAGE true",
    .sets = sets,
    .run = run,
};
