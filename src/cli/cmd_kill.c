/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kill.c: boxlite kill: a signal to the main command; KILL ends the whole box, which also idle boxes have. */
#include <signal.h>

#include "cli/commands.h"
#include "cli/values.h"

static const char *signal_name = "KILL";
static int signo;

static const struct cli_option options[] = {
    {"signal", 's', CLI_TEXT, &signal_name, "SIGNAL", "name or number (default: KILL)"},
    {0},
};

static int signal_box(boxlite_box *box, boxlite_error **err)
{
    _cleanup_exec_ boxlite_exec *exec = NULL;
    int r;

    if (signo == SIGKILL) {
        return boxlite_box_stop(box, 0, err);
    }
    r = boxlite_box_main(box, &exec, err);
    return r < 0 ? r : boxlite_exec_signal(exec, signo, err);
}

static int kill_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int state, status = cli_open_box(name, &box);

    if (status) {
        return status;
    }
    state = boxlite_box_state(box, &err);
    if (state < 0) {
        return cli_fail(&err, NULL);
    }
    if (state == BOXLITE_BOX_CREATED || state == BOXLITE_BOX_STOPPED) {
        return cli_error("box %s is not running", name);
    }
    if (signal_box(box, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    puts(name);
    return 0;
}

static int run(const struct cli_list *operands)
{
    signo = cli_parse_signal(signal_name);
    if (signo < 0) {
        return cli_error_hint("use a name like TERM or a number from 1 to 64",
                              "kill: unknown signal '%s'", signal_name);
    }
    return cli_each(operands, kill_one);
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_kill = {
    .name = "kill",
    .args = "BOX...",
    .summary = "send a signal to the main command of running boxes",
    .about = "Sends a signal to the main command. KILL, the default, ends the box at once.",
    .examples = "boxlite kill work\n"
                "boxlite kill -s HUP work",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_BOX,
    .run = run,
};
