/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_logs.c: boxlite logs: the kept output of a box's main command, or of another by number. For --tail the output is
 * read twice: once to find where the last lines begin, once to show them from there.
 */
#include <signal.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/signals.h"
#include "cli/stream.h"
#include "cli/values.h"

#define CHUNK (64u * 1024u)
#define LINES_MAX 1000000u

static struct {
    bool follow, only_out, only_errors;
    const char *tail;
    uint64_t exec;
} opt = {.tail = "all"};

static const struct cli_option options[] = {
    {"follow", 'f', CLI_FLAG, &opt.follow, NULL, "go on until the command ends"},
    {"tail", 'n', CLI_TEXT, &opt.tail, "N", "only the last N lines of each stream (default: all)"},
    {"stdout", 0, CLI_FLAG, &opt.only_out, NULL, "only its standard output"},
    {"stderr", 0, CLI_FLAG, &opt.only_errors, NULL, "only its standard error"},
    {"exec", 0, CLI_NUMBER, &opt.exec, "NUMBER", "of the command that exec -d gave this number",
     .min = 1, .max = 0x0fffffff},
    {0},
};

/* Finds the last lines of a stream: the offsets where lines begin, the last `room` of them. */
struct tail {
    uint64_t *starts;
    uint64_t room, lines, offset;
    bool in_line, end;
};

static void tail_feed(struct tail *t, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++, t->offset++) {
        if (!t->in_line && t->room > 0) {
            t->starts[t->lines++ % t->room] = t->offset;
        }
        t->in_line = data[i] != '\n';
    }
}

static uint64_t tail_skip(const struct tail *t)
{
    if (t->room == 0) {
        return t->offset;
    }
    return t->lines <= t->room ? 0 : t->starts[t->lines % t->room];
}

/* Reads what is there; 0, or a negative code. */
static int tail_read(boxlite_exec *exec, int stream, struct tail *t, boxlite_error **err)
{
    char data[CHUNK];

    while (!t->end) {
        ssize_t n = boxlite_exec_read(exec, stream, data, sizeof(data), err);

        if (n == BOXLITE_E_AGAIN) {
            boxlite_error_free(*err);
            *err = NULL;
            return 0;
        }
        if (n < 0) {
            return (int)n;
        }
        t->end = n == 0;
        tail_feed(t, data, (size_t)n);
    }
    return 0;
}

static int measure(boxlite_exec *exec, struct tail *out, struct tail *errors, boxlite_error **err)
{
    int r = 0;

    while (r >= 0 && !(out->end && errors->end)) {
        uint32_t events =
            (out->end ? 0 : BOXLITE_EXEC_STDOUT) | (errors->end ? 0 : BOXLITE_EXEC_STDERR);

        r = boxlite_exec_poll(exec, events, -1, err);
        r = r < 0 ? r : tail_read(exec, BOXLITE_STDOUT, out, err);
        r = r < 0 ? r : tail_read(exec, BOXLITE_STDERR, errors, err);
    }
    return r < 0 ? r : 0;
}

static int skip_to_tail(boxlite_box *box, uint64_t lines, struct cli_stream *stream,
                        boxlite_error **err)
{
    _cleanup_exec_ boxlite_exec *exec = NULL;
    struct tail out = {.room = lines, .starts = cli_alloc(lines * sizeof(uint64_t))};
    struct tail errors = {.room = lines, .starts = cli_alloc(lines * sizeof(uint64_t))};
    int r = boxlite_box_output(box, (uint32_t)opt.exec, &exec, err);

    r = r < 0 ? r : measure(exec, &out, &errors, err);
    stream->skip_output = tail_skip(&out);
    stream->skip_errors = tail_skip(&errors);
    free(out.starts);
    free(errors.starts);
    return r;
}

static int open_output(boxlite_box *box, boxlite_exec **ret, boxlite_error **err)
{
    if (!opt.follow) {
        return boxlite_box_output(box, (uint32_t)opt.exec, ret, err);
    }
    return opt.exec ? boxlite_box_attach(box, (uint32_t)opt.exec, ret, err)
                    : boxlite_box_main(box, ret, err);
}

static int show(boxlite_box *box, bool all, uint64_t lines)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_exec_ boxlite_exec *exec = NULL;
    struct cli_stream stream = {
        .box = box, .output_only = true, .no_output = opt.only_errors, .no_errors = opt.only_out};

    if (!all && skip_to_tail(box, lines, &stream, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    if (open_output(box, &exec, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    if (boxlite_exec_dropped(exec, BOXLITE_STDOUT) || boxlite_exec_dropped(exec, BOXLITE_STDERR)) {
        cli_warn("the oldest output was not kept");
    }
    stream.exec = exec;
    return cli_stream_run(&stream);
}

static int run(const struct cli_list *operands)
{
    _cleanup_box_ boxlite_box *box = NULL;
    uint64_t lines = 0;
    bool all = strcmp(opt.tail, "all") == 0;
    int status;

    if (!all && (cli_parse_number(opt.tail, &lines) < 0 || lines > LINES_MAX)) {
        return cli_error("logs: --tail: '%s' is neither \"all\" nor a number up to %u", opt.tail,
                         LINES_MAX);
    }
    if (opt.only_out && opt.only_errors) {
        opt.only_out = opt.only_errors = false; /* both are wanted */
    }
    status = cli_open();
    if (!status) {
        status = cli_open_box(operands->items[0], &box);
    }
    return status ? status : show(box, all, lines);
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_logs = {
    .name = "logs",
    .args = "BOX",
    .summary = "show what the main command of a box has written",
    .about =
        "Shows the kept output of the main command (the last 64 MiB of each stream), also of a box that has "
        "stopped. Standard output and standard error go where they belong.",
    .examples = "boxlite logs -f work\n"
                "boxlite logs --tail 20 --stderr work",
    .sets = sets,
    .min = 1,
    .max = 1,
    .first = CLI_W_BOX,
    .run = run,
};
