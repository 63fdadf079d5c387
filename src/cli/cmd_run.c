/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_run.c: boxlite run. Attached (the default), the box belongs to this process and ends with it, whatever ends it.
 */
#include <string.h>

#include "cli/applyif.h"
#include "cli/boxrun.h"
#include "cli/boxspec.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/transfer.h"

static struct {
    bool detach, quiet, trace;
} opt;

static const struct cli_option options[] = {
    {"detach", 'd', CLI_FLAG, &opt.detach, NULL, "leave the box running, print its id"},
    {"quiet", 'q', CLI_FLAG, &opt.quiet, NULL, "show no progress"},
    {"trace", 0, CLI_FLAG, &opt.trace, NULL, "tell on standard error where the time went"},
    {0},
};

static int run_attached(boxlite_box *box, const struct cli_list *operands)
{
    int status;

    if (cli_box.idle && !cli_apply_if()) {
        return cli_error_hint("add -d, or give a command",
                              "--idle needs --detach: nothing would end the box");
    }
    if (cli_signals_catch() < 0) {
        return cli_error("cannot catch signals");
    }
    status = cli_box_start(box);
    cli_trace("start");
    if (status) {
        return status;
    }
    status = cli_apply_if() ? cli_apply_if_run(box, operands)
                            : cli_box_attach(box, cli_process.interactive, cli_process.tty);
    cli_trace("command");
    return status;
}

static int run_detached(boxlite_box *box)
{
    int status = cli_box_start(box);

    cli_trace("start");
    if (!status) {
        puts(boxlite_box_id(box));
    }
    return status;
}

static bool ended_by_itself(int status)
{
    return !cli_signals_fatal() && status != CLI_EXIT_SIGNAL(13);
}

/* The command is not the box' main one then: it is run when the box is up. */
static int check_apply_if(const struct cli_list *operands)
{
    if (opt.detach) {
        return cli_error_hint("leave one of them out",
                              "--apply-if and --detach exclude each other");
    }
    return cli_apply_if_check(operands);
}

static int run(const struct cli_list *operands)
{
    _cleanup_box_options_ boxlite_box_options *o = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    struct cli_list image_only = {operands->items, 1};
    int status;

    if (opt.detach && cli_process.tty && cli_process.interactive) {
        cli_warn("-d leaves nobody at the terminal; join it later with: boxlite attach");
    }
    if (opt.quiet) {
        cli_progress_disable();
        cli_transfer.show = CLI_SHOW_NOTHING;
    }
    cli_trace_start(opt.trace);
    status = cli_apply_if() ? check_apply_if(operands) : 0;
    status = status ? status
                    : cli_box_make(cli_apply_if() ? &image_only : operands, opt.detach, &o);
    if (status) {
        return status;
    }
    cli_trace("open");
    status = cli_box_create(o, &box);
    cli_trace("create");
    if (status) {
        return status;
    }
    status = opt.detach ? run_detached(box) : run_attached(box, operands);
    if (!opt.detach && !cli_box.remove && !cli_apply_if() && ended_by_itself(status)) {
        cli_box_settle(box);
    }
    if (cli_box.remove && (!opt.detach || status)) {
        cli_box_discard(box);
    }
    cli_trace("stop");
    cli_trace(NULL);
    return status;
}

static const struct cli_option *const sets[] = {options, cli_apply_if_options, cli_process_options,
                                                cli_box_options, NULL};

const struct cli_command cli_cmd_run = {
    .name = "run",
    .args = "IMAGE [COMMAND [ARG...]]",
    .summary = "create a box and run a command in it",
    .about =
        "Creates a box from an image, starts it and runs the command (or the image's own) in it. Without -d the "
        "command's output and exit status become boxlite's, signals go to the command, and the box stops with "
        "it; a second Ctrl-C within a second ends the box at once. Options after IMAGE belong to the command.",
    .examples =
        "boxlite run --rm boxlite/base:bookworm python3 -c 'print(6*7)'\n"
        "tar c . | boxlite run --rm -i boxlite/base:bookworm sh -c 'cd /tmp && tar x && ls'\n"
        "boxlite run -it --rm --memory 1G --network user boxlite/base:bookworm bash\n"
        "boxlite run -d --name work --idle boxlite/base:bookworm\n"
        "boxlite run --rm --workspace . --apply-if 'make test' boxlite/base:bookworm ./fix.sh",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .verbatim = true,
    .first = CLI_W_IMAGE,
    .run = run,
};
