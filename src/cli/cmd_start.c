/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_start.c: boxlite start: in the background, whatever it was created for, or with --attach as run does. */
#include "cli/boxrun.h"
#include "cli/commands.h"
#include "cli/signals.h"

static struct {
    bool attach, interactive;
} opt;

static const struct cli_option options[] = {
    {"attach", 'a', CLI_FLAG, &opt.attach, NULL,
     "join the command's output and signals; its exit status is ours"},
    {"interactive", 'i', CLI_FLAG, &opt.interactive, NULL, "with -a: give it our standard input"},
    {0},
};

static int start_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int status = cli_open_box(name, &box);

    if (status) {
        return status;
    }
    if (boxlite_box_set_detached(box, !opt.attach, &err) < 0) {
        if (boxlite_box_state(box, NULL) == BOXLITE_BOX_PAUSED) {
            return cli_error_hint("let it go on with: boxlite unpause BOX", "box %s is paused",
                                  name);
        }
        if (boxlite_error_code(err) == BOXLITE_E_STATE && !opt.attach) {
            puts(name); /* it runs already: Docker's habit is not to mind */
            return 0;
        }
        return cli_fail(&err, NULL);
    }
    status = cli_box_start(box);
    if (status) {
        return status;
    }
    if (!opt.attach) {
        puts(name);
        return 0;
    }
    status = cli_box_attach(box, opt.interactive, cli_box_has_terminal(box));
    cli_box_settle(box);
    return status;
}

static int run(const struct cli_list *operands)
{
    if (opt.attach && operands->count > 1) {
        return cli_error("start: --attach takes one box");
    }
    if (opt.attach && cli_signals_catch() < 0) {
        return cli_error("cannot catch signals");
    }
    return cli_each(operands, start_one);
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_start = {
    .name = "start",
    .args = "BOX...",
    .summary = "start boxes that are not running",
    .about =
        "Starts boxes that were created or have stopped; what they wrote before is still there. They run in the "
        "background, or with -a joined to this terminal.",
    .examples = "boxlite start work\n"
                "boxlite start -a build",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_BOX,
    .run = run,
};
