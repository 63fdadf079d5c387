/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c: boxlite help [COMMAND]. */
#include <string.h>

#include "cli/commands.h"

static int run(const struct cli_list *operands)
{
    const struct cli_command *c;
    bool group;
    int words;

    if (operands->count == 0) {
        cli_help_all(stdout);
        return 0;
    }
    c = cli_command_find((int)operands->count, (char *const *)operands->items, &words, &group);
    if (c) {
        cli_help_command(stdout, c);
        return 0;
    }
    if (group && operands->count == 1) {
        cli_help_group(stdout, operands->items[0]);
        return 0;
    }
    return cli_error_hint("see all with: boxlite help", "help: unknown command '%s%s%s'",
                          operands->items[0], operands->count > 1 ? " " : "",
                          operands->count > 1 ? operands->items[1] : "");
}

const struct cli_command cli_cmd_help = {
    .name = "help",
    .args = "[COMMAND]",
    .summary = "show help about a command",
    .about = "Shows what a command does, its options with their units and defaults, and examples.",
    .examples = "boxlite help run\n"
                "boxlite help image import",
    .max = 2,
    .first = CLI_W_COMMAND,
    .rest = CLI_W_COMMAND,
    .run = run,
};
