/* SPDX-License-Identifier: Apache-2.0 */
/*
 * applyif.c: see applyif.h. The box is started without a main command, since that would take the machine down before
 * the check; the command and the check are two commands of it, both in the workspace unless --workdir says otherwise.
 */
#include "cli/applyif.h"

#include <string.h>

#include "cli/boxspec.h"
#include "cli/changes.h"
#include "cli/cli.h"
#include "cli/stream.h"
#include "cli/terminal.h"

static const char *check;

const struct cli_option cli_apply_if_options[] = {
    {"apply-if", 0, CLI_TEXT, &check, "CHECK",
     "after the command run this shell line in the same box, and apply its changes if both succeed"},
    {"allow", 0, CLI_LIST, &cli_changes.allow, "RULE|PATH|all",
     "with --apply-if: let changes through that this rule holds back, or this one"},
    {"merge", 0, CLI_FLAG, &cli_changes.merge, NULL,
     "with --apply-if: merge text files that both sides changed (with git)"},
    {0},
};

const char *cli_apply_if(void)
{
    return check;
}

int cli_apply_if_check(const struct cli_list *operands)
{
    if (cli_box.workspaces.count != 1) {
        return cli_error_hint("add --workspace DIR", "--apply-if needs one workspace");
    }
    if (operands->count < 2 || cli_box.idle) {
        return cli_error_hint("write the command behind the image",
                              "--apply-if needs a command of its own");
    }
    if (!*check) {
        return cli_error_hint("give a shell line, like --apply-if 'make test'",
                              "--apply-if: the check is empty");
    }
    cli_box.idle = true;
    return 0;
}

/* Where the workspace is in the box, for the commands' working directory. Caller frees. */
static char *guest_path(const char *spec)
{
    const char *colon = strrchr(spec, ':');

    if (colon && colon[1] == '/') {
        return cli_copy(colon + 1, strlen(colon + 1));
    }
    char *path = realpath(spec, NULL);
    return path ? path : cli_copy("/", 1);
}

static int set_up(boxlite_exec_options *o, bool command, boxlite_error **err)
{
    _cleanup_free_ char *dir = cli_process.workdir
                                   ? cli_copy(cli_process.workdir, strlen(cli_process.workdir))
                                   : guest_path(cli_box.workspaces.items[0]);
    uint16_t rows, cols;
    int r = boxlite_exec_options_set_workdir(o, dir, err);

    r = r < 0 || !command ? r : boxlite_exec_options_set_stdin(o, cli_process.interactive, err);
    r = r < 0 ? r : boxlite_exec_options_set_timeout(o, cli_process.timeout_ms, err);
    if (r == 0 && command && cli_process.tty) {
        cli_terminal_size(&rows, &cols);
        r = boxlite_exec_options_set_tty(o, rows, cols, err);
    }
    return r;
}

static int run_one(boxlite_box *box, const char *const *argv, size_t argc, bool command)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_exec_options_ boxlite_exec_options *o = NULL;
    _cleanup_exec_ boxlite_exec *exec = NULL;

    if (boxlite_exec_options_new(argv, argc, &o, &err) < 0 || set_up(o, command, &err) < 0 ||
        boxlite_box_exec(box, o, &exec, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    struct cli_stream stream = {.exec = exec,
                                .input = command && cli_process.interactive,
                                .tty = command && cli_process.tty};
    return cli_stream_run(&stream);
}

int cli_apply_if_run(boxlite_box *box, const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_change_options_ boxlite_change_options *o = NULL;
    _cleanup_changes_ boxlite_changes *c = NULL;
    const char *const shell[] = {"/bin/sh", "-c", check};
    int status = run_one(box, operands->items + 1, operands->count - 1, true);

    if (status) {
        fprintf(stderr, "boxlite: the command ended with %d: nothing was applied\n", status);
        return status;
    }
    status = run_one(box, shell, CLI_COUNT(shell), false);
    if (status) {
        fprintf(stderr, "boxlite: the check ended with %d: nothing was applied\n", status);
        return CLI_EXIT_CHECK_FAILED;
    }
    status = cli_changes_options(NULL, 0, &o);
    if (status) {
        return status;
    }
    if (boxlite_box_apply(box, o, &c, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    return cli_changes_outcome(c, "applied");
}
