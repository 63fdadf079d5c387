/* SPDX-License-Identifier: Apache-2.0 */
/* boxrun.c: see boxrun.h. */
#include "cli/boxrun.h"

#include <signal.h>
#include <string.h>

#include "cli/boxspec.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/stream.h"

#define TICK_MS 1000
#define SETTLE_MS 10000

static struct {
    bool on;
    uint64_t last, first;
} trace;

void cli_trace_start(bool on)
{
    trace.on = on;
    trace.first = trace.last = cli_now_us();
}

void cli_trace(const char *step)
{
    uint64_t now = cli_now_us();

    if (trace.on && step) {
        fprintf(stderr, "trace: %-8s %8.1f ms\n", step, (double)(now - trace.last) / 1000.0);
    } else if (trace.on) {
        fprintf(stderr, "trace: %-8s %8.1f ms\n", "total", (double)(now - trace.first) / 1000.0);
    }
    trace.last = now;
}

int cli_box_make(const struct cli_list *operands, bool detached, boxlite_box_options **ret)
{
    const char *name = operands->items[0];
    int status =
        cli_box_spec(operands, detached, ret); /* mistakes are told before anything is fetched */

    status = status ? status : cli_open();
    status = status ? status : cli_box_image(operands);
    if (!status &&
        operands->items[0] != name) { /* fetched: under its full name it is found for certain */
        boxlite_box_options_free(*ret);
        *ret = NULL;
        status = cli_box_spec(operands, detached, ret);
    }
    return status;
}

int cli_box_create(const boxlite_box_options *o, boxlite_box **ret)
{
    _cleanup_error_ boxlite_error *err = NULL;

    if (boxlite_box_create(cli.rt, o, ret, &err) < 0) {
        const char *hint =
            boxlite_error_code(err) == BOXLITE_E_NOT_FOUND
                ? "fetch an image with 'boxlite pull', or bring one with 'boxlite image load' or 'boxlite image import'"
                : NULL;
        return cli_fail_hint(&err, NULL, hint);
    }
    return 0;
}

/* The answer to a start. Not on the stack: after a signal the library may still give it, later. */
static struct started {
    bool done, unwanted;
    int status;
} started;

static void on_started(void *data, int result, const boxlite_error *error)
{
    struct started *s = data;

    s->done = true;
    if (result < 0 && !s->unwanted) {
        s->status =
            cli_error_hint(error ? boxlite_error_hint(error) : NULL, "%s",
                           error ? boxlite_error_message(error) : boxlite_error_name(result));
    }
}

int cli_box_start(boxlite_box *box)
{
    _cleanup_error_ boxlite_error *err = NULL;
    uint64_t since = cli_now_us();

    started = (struct started){0};
    if (boxlite_box_start_async(box, on_started, &started, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_signals_wake(cli.rt);
    while (!started.done && !cli_signals_fatal()) {
        int tick = cli_progress_shown_here() ? TICK_MS : -1;

        if (boxlite_runtime_dispatch(cli.rt, tick, &err) < 0) {
            started.status = cli_fail(&err, NULL);
            break;
        }
        if (!started.done) {
            cli_progress_waiting("starting the box", since);
        }
    }
    cli_signals_wake(NULL);
    cli_progress_clear();
    if (!started.done && cli_signals_fatal()) {
        started.unwanted = true;
        return CLI_EXIT_SIGNAL(cli_signals_fatal());
    }
    return started.status;
}

void cli_box_settle(boxlite_box *box)
{
    _cleanup_error_ boxlite_error *err = NULL;

    cli_signals_wake(cli.rt);
    /* a box that --rm has removed meanwhile, or one that takes long to stop, is no failure of the command */
    (void)boxlite_box_wait(box, SETTLE_MS, &err);
    cli_signals_wake(NULL);
}

int cli_box_attach(boxlite_box *box, bool input, bool tty)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_exec_ boxlite_exec *exec = NULL;

    if (boxlite_box_main(box, &exec, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    struct cli_stream stream = {.box = box, .exec = exec, .input = input, .tty = tty};

    return cli_stream_run(&stream);
}

static bool config_has(boxlite_box *box, const char *key)
{
    _cleanup_error_ boxlite_error *err = NULL;
    const char *json;

    return boxlite_box_json(box, &json, &err) == 0 && cli_json_true(json, key);
}

uint64_t cli_box_memory(boxlite_box *box)
{
    _cleanup_error_ boxlite_error *err = NULL;
    const char *json;

    return boxlite_box_json(box, &json, &err) == 0 ? cli_json_number(json, "memory") : 0;
}

bool cli_box_has_terminal(boxlite_box *box)
{
    return config_has(box, "rows");
}

bool cli_box_has_input(boxlite_box *box)
{
    return config_has(box, "stdin_open");
}

void cli_box_discard(boxlite_box *box)
{
    _cleanup_error_ boxlite_error *err = NULL;

    if (boxlite_box_remove(box, 1, &err) < 0 && boxlite_error_code(err) != BOXLITE_E_NOT_FOUND) {
        (void)cli_fail(&err, "removing the box");
    }
}
