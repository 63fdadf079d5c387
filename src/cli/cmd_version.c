/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_version.c: boxlite version: of this program and of the library that it found. */
#include <sys/utsname.h>

#include "cli/commands.h"
#include "cli/output.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define HEADER_VERSION                                                                             \
    TEXT(BOXLITE_VERSION_MAJOR) "." TEXT(BOXLITE_VERSION_MINOR) "." TEXT(BOXLITE_VERSION_PATCH)

static const struct cli_column columns[] = {
    {"boxlite", "version"},
    {"libboxlite", "library"},
    {"platform", "platform"},
};

static int run(const struct cli_list *operands)
{
    struct utsname u = {0};
    struct cli_table t;
    int status;

    (void)uname(&u);
    _cleanup_free_ char *platform = cli_text("linux/%s", u.machine);
    cli_table_init(&t, columns, CLI_COUNT(columns));
    cli_cell_text(&t, HEADER_VERSION);
    cli_cell_text(&t, boxlite_version());
    cli_cell_text(&t, platform);
    status = cli_table_card(&t);
    cli_table_done(&t);
    return status;
}

static const struct cli_option *const sets[] = {cli_format_options, NULL};

const struct cli_command cli_cmd_version = {
    .name = "version",
    .args = "",
    .summary = "show the versions of program and library",
    .about =
        "Shows the version of this program, of the library that it runs with, and the platform.",
    .examples = "boxlite version --json",
    .sets = sets,
    .run = run,
};
