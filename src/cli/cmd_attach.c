/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_attach.c: boxlite attach: joins the main command of a running box. */
#include "cli/boxrun.h"
#include "cli/commands.h"
#include "cli/signals.h"

static bool no_input;

static const struct cli_option options[] = {
    {"no-stdin", 0, CLI_FLAG, &no_input, NULL, "do not give it our standard input"},
    {0},
};

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int state, status = cli_open();

    if (status || (status = cli_open_box(operands->items[0], &box)) != 0) {
        return status;
    }
    state = boxlite_box_state(box, &err);
    if (state < 0) {
        return cli_fail(&err, NULL);
    }
    if (state != BOXLITE_BOX_RUNNING && state != BOXLITE_BOX_PAUSED) {
        _cleanup_free_ char *hint =
            cli_text("start it with: boxlite start -a %s", operands->items[0]);

        return cli_error_hint(hint, "box %s is %s", operands->items[0],
                              boxlite_box_state_name(state));
    }
    return cli_box_attach(box, !no_input && cli_box_has_input(box), cli_box_has_terminal(box));
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_attach = {
    .name = "attach",
    .args = "BOX",
    .summary = "join the main command of a running box",
    .about =
        "Shows the output of the box's main command from the beginning of what is kept, and goes on with it; input "
        "and signals go to it. Ends with its exit status.",
    .examples = "boxlite attach work",
    .sets = sets,
    .min = 1,
    .max = 1,
    .first = CLI_W_BOX,
    .run = run,
};
