/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_wait.c: boxlite wait: prints the exit status of the main command; an idle box has none and prints 0. */
#include "cli/commands.h"

static int main_status(boxlite_box *box, int *ret, boxlite_error **err)
{
    _cleanup_exec_ boxlite_exec *exec = NULL;
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    int r = boxlite_box_main(box, &exec, err);

    if (r == BOXLITE_E_NOT_FOUND) {
        boxlite_error_free(*err);
        *err = NULL;
        *ret = 0;
        return 0;
    }
    r = r < 0 ? r : boxlite_exec_wait(exec, -1, &result, err);
    if (r == 0) {
        *ret = result.exit_code;
    }
    return r;
}

static int wait_one(const char *name)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    int code = 0, status = cli_open_box(name, &box);

    if (status) {
        return status;
    }
    if (boxlite_box_wait(box, -1, &err) < 0 || main_status(box, &code, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    printf("%d\n", code);
    return 0;
}

static int run(const struct cli_list *operands)
{
    return cli_each(operands, wait_one);
}

const struct cli_command cli_cmd_wait = {
    .name = "wait",
    .args = "BOX...",
    .summary = "wait until boxes stop, print their exit statuses",
    .about = "Waits until each box has stopped and prints the exit status of its main command.",
    .examples = "boxlite wait build",
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_BOX,
    .run = run,
};
