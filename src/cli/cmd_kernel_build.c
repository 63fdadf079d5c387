/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel_build.c: boxlite kernel build: the helper script compiles, this imports what it made. */
#include <errno.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/libexec.h"

static const char *name, *output, *source;

static const struct cli_option options[] = {
    {"name", 0, CLI_TEXT, &name, "NAME", "name to keep it under (default: default)"},
    {"source", 0, CLI_TEXT, &source, "DIR|TAR", "kernel source (default: the distribution's package)", .words = CLI_W_FILE},
    {"output", 0, CLI_TEXT, &output, "FILE", "also leave the vmlinux here", .words = CLI_W_FILE},
    {0},
};
