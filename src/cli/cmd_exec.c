/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_exec.c: boxlite exec: a further command in a running box. */
#include <string.h>

#include "cli/boxspec.h"
#include "cli/commands.h"
#include "cli/stream.h"
#include "cli/terminal.h"

static bool detach;

static const struct cli_option options[] = {
    {"detach", 'd', CLI_FLAG, &detach, NULL,
     "leave the command running, print its number (for logs --exec)"},
    {0},
};

static int add_env(void *to, const char *name, const char *value, boxlite_error **err)
{
    return boxlite_exec_options_add_env(to, name, value, err);
}

static int set_terminal(boxlite_exec_options *o, boxlite_error **err)
{
    uint16_t rows, cols;
    int r;

    cli_terminal_size(&rows, &cols);
    r = boxlite_exec_options_set_tty(o, rows, cols, err);
    return r < 0 ? r : boxlite_exec_options_add_env(o, "TERM", cli_terminal_type(), err);
}

static int set_all(boxlite_exec_options *o, boxlite_error **err)
{
    int r = boxlite_exec_options_set_stdin(o, cli_process.interactive && !detach, err);

    r = r < 0 ? r : boxlite_exec_options_set_timeout(o, cli_process.timeout_ms, err);
    r = r < 0 ? r : boxlite_exec_options_set_detached(o, detach, err);
    if (r == 0 && cli_process.tty) {
        r = set_terminal(o, err);
    }
    if (r == 0 && cli_process.user) {
        r = boxlite_exec_options_set_user(o, cli_process.user, err);
    }
    if (r == 0 && cli_process.workdir) {
        r = boxlite_exec_options_set_workdir(o, cli_process.workdir, err);
    }
    return r;
}

/* Waits until the command runs or has failed to, so that a mistyped name is noticed. */
static int leave_running(boxlite_box *box, boxlite_exec *exec)
{
    _cleanup_error_ boxlite_error *err = NULL;
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    int due = boxlite_exec_poll(exec, BOXLITE_EXEC_STARTED | BOXLITE_EXEC_EXITED, -1, &err);

    if (due < 0) {
        return cli_fail(&err, NULL);
    }
    if (due & BOXLITE_EXEC_EXITED) {
        if (boxlite_exec_wait(exec, -1, &result, &err) < 0) {
            return cli_fail(&err, NULL);
        }
        if (result.flags & BOXLITE_EXIT_NOT_STARTED) {
            return cli_stream_status(box, exec, &result);
        }
    }
    printf("%u\n", boxlite_exec_number(exec));
    return 0;
}

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_exec_options_ boxlite_exec_options *o = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    _cleanup_exec_ boxlite_exec *exec = NULL;
    int status;

    if (boxlite_exec_options_new(operands->items + 1, operands->count - 1, &o, &err) < 0 ||
        set_all(o, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    status = cli_each_env(&cli_process, add_env, o);
    if (status || (status = cli_open()) != 0 ||
        (status = cli_open_box(operands->items[0], &box)) != 0) {
        return status;
    }
    if (boxlite_box_exec(box, o, &exec, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    if (detach) {
        return leave_running(box, exec);
    }
    struct cli_stream stream = {
        .box = box, .exec = exec, .input = cli_process.interactive, .tty = cli_process.tty};

    return cli_stream_run(&stream);
}

static const struct cli_option *const sets[] = {options, cli_process_options, NULL};

const struct cli_command cli_cmd_exec = {
    .name = "exec",
    .args = "BOX COMMAND [ARG...]",
    .summary = "run a command in a running box",
    .about =
        "Runs a further command in a box. Its output, exit status and signals are joined to ours as with run; if "
        "boxlite ends, so does the command, unless it was left with -d. Options after BOX belong to the command.",
    .examples = "boxlite exec work ls -l /\n"
                "boxlite exec -i work sh -c 'cat > /tmp/data' < data\n"
                "boxlite exec -it work bash",
    .sets = sets,
    .min = 2,
    .max = CLI_ANY,
    .verbatim = true,
    .first = CLI_W_BOX,
    .run = run,
};
