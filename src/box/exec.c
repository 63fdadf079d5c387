/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c: what the user calls on a command: streams, events, callback, result. See exec_priv.h.
 *
 * Events are told by edges and read by level: the callback runs when something new has come, and
 * again without anything new only after it has taken or given bytes and there is more. So a
 * callback that leaves bytes alone does not spin, and one that reads a little at a time does not
 * stall.
 */
#include "box/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/timeutil.h"
#include "box/exec_priv.h"
#include "box/shimproc.h"
#include "wire/conn.h"
#include "wire/proto.h"

#define SIGNO_MAX 64

/* ---- Making and freeing ---------------------------------------------------------------------- */

int bx_exec_new(boxlite_box *box, const struct bx_exec_how *how, uint32_t number,
                boxlite_exec **ret, boxlite_error **err)
{
    boxlite_exec *exec = calloc(1, sizeof(*exec));
    if (!exec) {
        return bx_fail_oom(err);
    }
    exec->rt = box->rt;
    exec->how = *how;
    exec->number = number;
    for (int i = 0; i < 2; i++) {
        exec->out[i].buf = (struct bx_buf)BX_BUF_INIT(BX_WIRE_WINDOW);
        exec->out[i].spool = (struct bx_spool)BX_SPOOL_INIT;
    }
    *ret = exec;
    return 0;
}

void bx_exec_free(boxlite_exec *exec)
{
    if (!exec) {
        return;
    }
    if (exec->gone) {
        *exec->gone = true;
    }
    bx_source_free(exec->defer);
    bx_exec_unlink(exec);
    for (int i = 0; i < 2; i++) {
        bx_buf_done(&exec->out[i].buf);
        bx_spool_done(&exec->out[i].spool);
    }
    bx_exec_exit_done(&exec->exit);
    boxlite_error_free(exec->error);
    free(exec);
}

/* A handle on what the folder holds: the box is not running. */
static int open_stored(boxlite_box *box, const struct bx_exec_how *how, uint32_t number,
                       boxlite_exec **ret, boxlite_error **err)
{
    boxlite_exec *exec;
    char name[32];
    int r;

    (void)snprintf(name, sizeof(name), "execs/%u", number);
    if (faccessat(box->fd, name, F_OK, 0) < 0) {
        if (how->is_main && bx_box_state_at_rest(box->fd, NULL) == BOXLITE_BOX_CREATED) {
            r = bx_fail(err, BOXLITE_E_STATE, "box %s was never started", box->row.name);
            bx_hint(err, "start it with: boxlite start %s", box->row.name);
            return r;
        }
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "box %s has no output of command %u",
                       box->row.name, number);
    }
    r = bx_exec_new(box, how, number, &exec, err);
    if (r == 0) {
        bx_exec_use_stored(exec, box->fd);
        *ret = exec;
    }
    return r;
}

static int open_any(boxlite_box *box, const struct bx_exec_how *how, uint32_t number,
                    boxlite_exec **ret, boxlite_error **err)
{
    _cleanup_error_ boxlite_error *error = NULL;
    boxlite_exec *exec;
    int r = bx_box_need_client(box, &error);

    if (r == BOXLITE_E_STATE) {
        return open_stored(box, how, number, ret, err);
    }
    if (r < 0) {
        return bx_fail_again(err, error);
    }
    r = bx_exec_new(box, how, number, &exec, err);
    if (r < 0) {
        return r;
    }
    exec->client = bx_client_ref(box->client);
    r = bx_exec_link(exec, err);
    if (r < 0) {
        bx_exec_free(exec);
        return r;
    }
    *ret = exec;
    return 0;
}

static int no_main(boxlite_box *box, boxlite_error **err)
{
    int r = bx_fail(err, BOXLITE_E_NOT_FOUND, "box %s has no main command", box->row.name);
    bx_hint(err, "run a command in it with: boxlite exec %s COMMAND", box->row.name);
    return r;
}

int bx_exec_main(boxlite_box *box, boxlite_exec **ret, boxlite_error **err)
{
    int r = bx_box_need_config(box, err);
    if (r < 0) {
        return r;
    }
    if (!box->config.main) {
        return no_main(box, err);
    }
    const struct bx_exec_how how = {
        .follow = true, .input = box->config.stdin_open, .is_main = true};
    return open_any(box, &how, BX_MAIN_EXEC, ret, err);
}

int bx_exec_attach(boxlite_box *box, uint32_t number, bool follow, boxlite_exec **ret,
                   boxlite_error **err)
{
    struct bx_exec_how how = {.follow = follow};
    if (number == 0) {
        int r = bx_box_need_config(box, err);
        if (r < 0) {
            return r;
        }
        if (!box->config.main) {
            return no_main(box, err);
        }
        number = BX_MAIN_EXEC;
        how.is_main = true;
    }
    if (number > BX_EXEC_MAX) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "box %s has no command %u", box->row.name, number);
    }
    return open_any(box, &how, number, ret, err);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool stream_due(const struct bx_exec_stream *s)
{
    return s->buf.len > 0 || s->eof || s->stored || s->broken;
}

static bool input_due(const boxlite_exec *exec)
{
    if (!exec->how.input || exec->in_close) {
        return false;
    }
    return exec->in_broken ||
           (exec->attached && bx_client_room(exec->client, exec->attachment) > 0);
}

uint32_t bx_exec_events(const boxlite_exec *exec)
{
    return (stream_due(&exec->out[0]) ? BOXLITE_EXEC_STDOUT : 0u) |
           (stream_due(&exec->out[1]) ? BOXLITE_EXEC_STDERR : 0u) |
           (input_due(exec) ? BOXLITE_EXEC_STDIN : 0u) |
           (exec->started ? BOXLITE_EXEC_STARTED : 0u) | (exec->exited ? BOXLITE_EXEC_EXITED : 0u);
}

static void call_back(void *data)
{
    boxlite_exec *exec = data;
    uint32_t events = exec->fired & bx_exec_events(exec);
    bool gone = false;

    exec->defer = NULL; /* frees itself after this call */
    exec->fired = 0;
    if (!exec->fn || !events) {
        return;
    }
    exec->progress = false;
    exec->gone = &gone;
    exec->fn(exec->fn_data, exec, events);
    if (gone) {
        return;
    }
    exec->gone = NULL;
    if (exec->progress) {
        bx_exec_fire(exec, BOXLITE_EXEC_STDOUT | BOXLITE_EXEC_STDERR);
    }
}

void bx_exec_fire(boxlite_exec *exec, uint32_t events)
{
    exec->fired |= events;
    if (exec->fn && !exec->defer && (exec->fired & bx_exec_events(exec)) &&
        bx_loop_add_defer(exec->rt->loop, call_back, exec, &exec->defer) < 0) {
        exec->defer = NULL; /* no memory: told with the next event */
    }
}

void bx_exec_set_callback(boxlite_exec *exec, boxlite_exec_fn fn, void *data)
{
    exec->fn = fn;
    exec->fn_data = data;
    exec->progress = false;
    if (fn) {
        bx_exec_fire(exec, bx_exec_events(exec));
    }
}

struct poll_for {
    boxlite_exec *exec;
    uint32_t events;
};

static bool poll_done(void *data)
{
    const struct poll_for *p = data;
    return (bx_exec_events(p->exec) & p->events) != 0;
}

int bx_exec_poll(boxlite_exec *exec, uint32_t events, int timeout_ms, boxlite_error **err)
{
    struct poll_for p = {exec, events};
    int r = bx_runtime_wait(exec->rt, poll_done, &p, bx_deadline_ms(timeout_ms),
                            "waiting for the command", err);
    return r < 0 ? r : (int)(bx_exec_events(exec) & events);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static struct bx_exec_stream *stream_of(boxlite_exec *exec, int stream, boxlite_error **err)
{
    if (stream == BOXLITE_STDOUT || stream == BOXLITE_STDERR) {
        return &exec->out[stream - BOXLITE_STDOUT];
    }
    (void)bx_fail(err, BOXLITE_E_INVALID, "stream: %d is neither BOXLITE_STDOUT nor _STDERR",
                  stream);
    return NULL;
}

static ssize_t read_stored(struct bx_exec_stream *s, void *data, size_t size, boxlite_error **err)
{
    ssize_t n = bx_spool_read(&s->spool, s->next, data, size);
    if (n < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, (int)n, "reading kept output");
    }
    s->next += (uint64_t)n;
    return n;
}

ssize_t bx_exec_read(boxlite_exec *exec, int stream, void *data, size_t size, boxlite_error **err)
{
    struct bx_exec_stream *s = stream_of(exec, stream, err);
    if (!s) {
        return BOXLITE_E_INVALID;
    }
    size_t n = s->buf.len < size ? s->buf.len : size;
    if (n > 0) {
        memcpy(data, bx_buf_data(&s->buf), n);
        bx_buf_consume(&s->buf, n);
        exec->progress = true;
        if (exec->client && exec->attachment) {
            bx_client_consumed(exec->client, exec->attachment, (unsigned)stream, n);
        }
        return (ssize_t)n;
    }
    if (size == 0) {
        return 0;
    }
    if (s->broken) {
        return bx_fail(err, BOXLITE_E_NO_MEMORY, "output was lost for want of memory");
    }
    if (s->eof) {
        return 0;
    }
    if (s->stored) {
        ssize_t got = read_stored(s, data, size, err);
        exec->progress = exec->progress || got > 0;
        return got;
    }
    return bx_fail(err, BOXLITE_E_AGAIN, "no output there now");
}

uint64_t bx_exec_dropped(const boxlite_exec *exec, int stream)
{
    return stream == BOXLITE_STDOUT || stream == BOXLITE_STDERR
               ? exec->out[stream - BOXLITE_STDOUT].start
               : 0;
}

static int input_broken(boxlite_error **err)
{
    return bx_fail_errno(err, BOXLITE_E_STATE, EPIPE, "the command takes no more input");
}

ssize_t bx_exec_write(boxlite_exec *exec, const void *data, size_t size, boxlite_error **err)
{
    ssize_t n;
    if (!exec->how.input) {
        return bx_fail(err, BOXLITE_E_INVALID, "the command was started without a standard input");
    }
    if (exec->in_close) {
        return bx_fail(err, BOXLITE_E_STATE, "the command's standard input was closed");
    }
    if (exec->in_broken) {
        return input_broken(err);
    }
    if (size == 0) {
        return 0;
    }
    if (!exec->attached) {
        return bx_fail(err, BOXLITE_E_AGAIN, "the command is not up yet");
    }
    n = bx_client_write(exec->client, exec->attachment, data, size);
    if (n == 0) {
        return bx_fail(err, BOXLITE_E_AGAIN, "the command does not read its input now");
    }
    if (n < 0) {
        exec->in_broken = true;
        return input_broken(err);
    }
    exec->progress = true;
    return n;
}

int bx_exec_close_stdin(boxlite_exec *exec, boxlite_error **err)
{
    if (!exec->how.input) {
        return bx_fail(err, BOXLITE_E_INVALID, "the command was started without a standard input");
    }
    exec->in_close = true;
    if (exec->attached && !exec->in_closed && !exec->in_broken) {
        exec->in_closed = true;
        (void)bx_client_write_eof(exec->client, exec->attachment);
    }
    return 0;
}

/* ---- Control and result ---------------------------------------------------------------------- */

static int need_alive(const boxlite_exec *exec, boxlite_error **err)
{
    return exec->exited ? bx_fail(err, BOXLITE_E_STATE, "the command has ended") : 0;
}

int bx_exec_signal(boxlite_exec *exec, int signo, boxlite_error **err)
{
    int r = need_alive(exec, err);
    if (r < 0) {
        return r;
    }
    if (signo < 1 || signo > SIGNO_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "signo: there is no signal %d", signo);
    }
    if (exec->number == 0) {
        exec->signals |= UINT64_C(1) << (signo - 1);
        return 0;
    }
    bx_request_tell(exec->client, BX_SH_SIGNAL, exec->number, BX_T_SIGNO, (uint64_t)signo);
    return 0;
}

int bx_exec_resize(boxlite_exec *exec, uint16_t rows, uint16_t cols, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    int r = need_alive(exec, err);

    if (r < 0) {
        return r;
    }
    if (rows == 0 || cols == 0) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: 0", rows ? "cols" : "rows");
    }
    if (exec->number == 0) {
        exec->rows = rows;
        exec->cols = cols;
        return 0;
    }
    r = bx_request_begin(exec->client, &msg, BX_SH_RESIZE, err);
    if (r < 0) {
        return r;
    }
    if (bx_msg_u64(&msg, BX_T_EXEC, exec->number) < 0 || bx_msg_u64(&msg, BX_T_ROWS, rows) < 0 ||
        bx_msg_u64(&msg, BX_T_COLS, cols) < 0) {
        return bx_fail_oom(err);
    }
    return bx_request_send(exec->client, &msg, NULL, NULL, NULL, err);
}

static void fill_result(const struct bx_exec_exit *end, boxlite_exec_result *ret)
{
    size_t size = ret->struct_size < sizeof(*ret) ? ret->struct_size : sizeof(*ret);
    boxlite_exec_result full = {
        .struct_size = ret->struct_size,
        .exit_code = end->flags & BOXLITE_EXIT_TIMED_OUT ? 124
                     : end->signal                       ? 128 + end->signal
                                                         : end->code,
        .signal = end->signal,
        .flags = end->flags,
        .wall_us = end->wall_us,
        .user_us = end->user_us,
        .system_us = end->system_us,
        .max_rss = end->max_rss,
    };
    memcpy(ret, &full, size);
}

static bool has_exited(void *data)
{
    return ((boxlite_exec *)data)->exited;
}

int bx_exec_wait(boxlite_exec *exec, int timeout_ms, boxlite_exec_result *ret, boxlite_error **err)
{
    if (!exec->exited && !exec->how.follow) {
        return bx_fail(err, BOXLITE_E_STATE, "this handle only shows the output that is kept");
    }
    if (!exec->exited) {
        int r = bx_runtime_wait(exec->rt, has_exited, exec, bx_deadline_ms(timeout_ms),
                                "waiting for the command", err);
        if (r < 0) {
            return r;
        }
    }
    if (exec->error) {
        return bx_fail_again(err, exec->error);
    }
    if (ret) {
        fill_result(&exec->exit, ret);
    }
    return 0;
}

const char *bx_exec_failure(const boxlite_exec *exec)
{
    return exec->exit.failure;
}

uint32_t bx_exec_number(const boxlite_exec *exec)
{
    return exec->number;
}
