/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_link.c: where a command's streams and result come from.
 *
 * Live: EXEC is answered by the command's number, then ATTACH opens the channels and WAIT is
 * answered when it has ended. A connection that ends before that is not the end of the data: what
 * the shim wrote into the box' folder is read from there, from the byte on that would have come
 * next, and the result likewise. Only where there is nothing the command counts as lost with its
 * box.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "box/exec_priv.h"
#include "box/shimproc.h"
#include "wire/frame.h"
#include "wire/proto.h"

#define LOST_SIGNAL SIGKILL

static const uint32_t stream_events[2] = {BOXLITE_EXEC_STDOUT, BOXLITE_EXEC_STDERR};

/* ---- Ends ------------------------------------------------------------------------------------ */

static void end_streams(boxlite_exec *exec)
{
    for (int i = 0; i < 2; i++) {
        exec->out[i].eof = true;
    }
    exec->in_broken = true;
}

void bx_exec_fail(boxlite_exec *exec, const boxlite_error *error)
{
    if (exec->exited) {
        return;
    }
    exec->exited = true;
    end_streams(exec);
    (void)bx_fail_again(&exec->error, error);
    bx_exec_fire(exec, BOXLITE_EXEC_STDOUT | BOXLITE_EXEC_STDERR | BOXLITE_EXEC_EXITED |
                           BOXLITE_EXEC_STDIN);
}

static void take_result(boxlite_exec *exec, struct bx_exec_exit *take)
{
    if (exec->exited) {
        bx_exec_exit_done(take);
        return;
    }
    exec->exit = *take;
    *take = (struct bx_exec_exit){0};
    exec->exited = true;
    exec->in_broken = true;
    exec->started = exec->started || !(exec->exit.flags & BOXLITE_EXIT_NOT_STARTED);
    bx_exec_fire(exec, BOXLITE_EXEC_EXITED | BOXLITE_EXEC_STDIN |
                           (exec->started ? BOXLITE_EXEC_STARTED : 0u));
}

static void use_stored_stream(boxlite_exec *exec, int dir, int i)
{
    struct bx_exec_stream *s = &exec->out[i];
    if (s->eof || s->stored) {
        return;
    }
    bx_spool_init(&s->spool, BX_SPOOL_MAX);
    if (dir < 0 || bx_spool_open(&s->spool, dir, i == 0 ? "stdout" : "stderr") < 0) {
        s->eof = true;
    } else {
        s->stored = true;
        if (s->next < s->spool.head) {
            s->start += s->spool.head - s->next;
            s->next = s->spool.head;
        }
    }
    bx_exec_fire(exec, stream_events[i]);
}

void bx_exec_use_stored(boxlite_exec *exec, int box_fd)
{
    struct bx_exec_exit end = {0};
    char name[32];

    (void)snprintf(name, sizeof(name), "execs/%u", exec->number);
    _cleanup_close_ int dir = openat(box_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    use_stored_stream(exec, dir, 0);
    use_stored_stream(exec, dir, 1);
    if (exec->exited) {
        return;
    }
    if (dir < 0 || bx_exec_exit_read(dir, "result.json", &end, NULL) < 0) {
        end = (struct bx_exec_exit){
            .code = 128 + LOST_SIGNAL, .signal = LOST_SIGNAL, .flags = BOXLITE_EXIT_BOX_LOST};
    }
    take_result(exec, &end);
}

/* ---- Channels -------------------------------------------------------------------------------- */

static void on_bytes(void *data, unsigned stream, const uint8_t *p, size_t len)
{
    boxlite_exec *exec = data;
    if (stream != BX_STREAM_OUT && stream != BX_STREAM_ERR) {
        bx_client_consumed(exec->client, exec->attachment, stream, len);
        return;
    }
    struct bx_exec_stream *s = &exec->out[stream - BX_STREAM_OUT];
    s->next += len;
    exec->started = true;
    if (s->broken || bx_buf_append(&s->buf, p, len) < 0) {
        s->broken = true; /* never silently: the reader is told */
        bx_client_consumed(exec->client, exec->attachment, stream, len);
    }
    bx_exec_fire(exec, stream_events[stream - BX_STREAM_OUT]);
}

static void on_eof(void *data, unsigned stream)
{
    boxlite_exec *exec = data;
    if (stream == BX_STREAM_OUT || stream == BX_STREAM_ERR) {
        exec->out[stream - BX_STREAM_OUT].eof = true;
        bx_exec_fire(exec, stream_events[stream - BX_STREAM_OUT]);
    }
}

static void on_writable(void *data)
{
    bx_exec_fire(data, BOXLITE_EXEC_STDIN);
}

static void on_reset(void *data)
{
    boxlite_exec *exec = data;
    exec->in_broken = true;
    bx_exec_fire(exec, BOXLITE_EXEC_STDIN);
}

static void on_started(void *data)
{
    boxlite_exec *exec = data;
    exec->started = true;
    bx_exec_fire(exec, BOXLITE_EXEC_STARTED);
}

static void on_closed(void *data)
{
    boxlite_exec *exec = data;
    bx_exec_use_stored(exec, bx_client_box_fd(exec->client));
    exec->in_broken = true;
}

static const struct bx_attach_ops attach_ops = {
    .bytes = on_bytes,
    .eof = on_eof,
    .writable = on_writable,
    .reset = on_reset,
    .started = on_started,
    .closed = on_closed,
};

/* ---- Requests -------------------------------------------------------------------------------- */

/* What was asked before the number was known. */
static void send_waiting(boxlite_exec *exec)
{
    for (int signo = 1; exec->signals; signo++, exec->signals >>= 1) {
        if (exec->signals & 1) {
            bx_request_tell(exec->client, BX_SH_SIGNAL, exec->number, BX_T_SIGNO, (uint64_t)signo);
        }
    }
    if (exec->rows) {
        (void)bx_exec_resize(exec, exec->rows, exec->cols, NULL);
    }
}

static int ask_attach(boxlite_exec *exec, boxlite_error **err);

static void attach_reply(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    boxlite_exec *exec = data;
    static const uint16_t tags[2] = {BX_T_START_OUT, BX_T_START_ERR};

    exec->ask_attach = 0;
    if (error && !bx_client_open(exec->client)) {
        return; /* on_closed() knows better */
    }
    if (error && boxlite_error_code(error) == BOXLITE_E_BUSY && exec->how.is_main &&
        exec->how.input) {
        exec->how.input = false; /* another one writes its input: the output is for all */
        if (ask_attach(exec, NULL) == 0) {
            return;
        }
    }
    if (error) {
        bx_exec_fail(exec, error);
        return;
    }
    for (int i = 0; i < 2; i++) {
        uint64_t start;
        if (bx_msg_get_u64(reply, tags[i], UINT64_MAX, &start) == 0) {
            exec->out[i].next += start - exec->out[i].start; /* bytes may have come before */
            exec->out[i].start = start;
        }
    }
    exec->attached = true;
    if (exec->in_close) {
        (void)bx_exec_close_stdin(exec, NULL);
    }
    bx_exec_fire(exec, BOXLITE_EXEC_STDIN);
}

static void wait_reply(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    boxlite_exec *exec = data;
    struct bx_exec_exit end = {0};
    _cleanup_error_ boxlite_error *damaged = NULL;

    exec->ask_wait = 0;
    if (error) {
        if (bx_client_open(exec->client)) {
            bx_exec_fail(exec, error);
        }
        return;
    }
    if (bx_exec_exit_from_msg(reply, &end) < 0) {
        (void)bx_fail(&damaged, BOXLITE_E_INTERNAL, "the result of command %u is damaged",
                      exec->number);
        bx_exec_fail(exec, damaged);
        return;
    }
    take_result(exec, &end);
}

static int ask_attach(boxlite_exec *exec, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    int r = bx_request_begin(exec->client, &msg, BX_SH_ATTACH, err);

    if (r < 0) {
        return r;
    }
    if (bx_msg_u64(&msg, BX_T_EXEC, exec->number) < 0 ||
        bx_msg_u64(&msg, BX_T_ATTACHMENT, exec->attachment) < 0 ||
        bx_msg_u64(&msg, BX_T_FOLLOW, exec->how.follow) < 0 ||
        bx_msg_u64(&msg, BX_T_STDIN, exec->how.input) < 0) {
        return bx_fail_oom(err);
    }
    return bx_request_send(exec->client, &msg, attach_reply, exec, &exec->ask_attach, err);
}

static int ask_wait(boxlite_exec *exec, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    int r = bx_request_begin(exec->client, &msg, BX_SH_WAIT, err);

    if (r < 0) {
        return r;
    }
    if (bx_msg_u64(&msg, BX_T_EXEC, exec->number) < 0) {
        return bx_fail_oom(err);
    }
    return bx_request_send(exec->client, &msg, wait_reply, exec, &exec->ask_wait, err);
}

int bx_exec_link(boxlite_exec *exec, boxlite_error **err)
{
    int r = bx_client_attach(exec->client, exec->number, &attach_ops, exec, &exec->attachment, err);
    if (r == 0) {
        r = ask_attach(exec, err);
    }
    if (r == 0 && exec->how.follow) {
        r = ask_wait(exec, err);
    }
    if (r == 0) {
        send_waiting(exec);
    }
    return r;
}

static void exec_reply(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    boxlite_exec *exec = data;
    _cleanup_error_ boxlite_error *mine = NULL;
    uint64_t number;

    exec->ask_exec = 0;
    if (error) {
        bx_exec_fail(exec, error);
        return;
    }
    if (bx_msg_get_u64(reply, BX_T_EXEC, BX_EXEC_MAX, &number) < 0 || number == 0) {
        (void)bx_fail(&mine, BOXLITE_E_INTERNAL, "box %s gave a command no number",
                      bx_client_id(exec->client));
        bx_exec_fail(exec, mine);
        return;
    }
    exec->number = (uint32_t)number;
    if (bx_exec_link(exec, &mine) < 0) {
        bx_exec_fail(exec, mine);
    }
}

int bx_exec_start(boxlite_box *box, const struct bx_exec_spec *spec, boxlite_exec **ret,
                  boxlite_error **err)
{
    _cleanup_exec_ boxlite_exec *exec = NULL;
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(BX_FRAME_MSG_MAX);
    const struct bx_exec_how how = {.follow = true,
                                    .input = (spec->flags & BX_EXEC_STDIN) != 0,
                                    .kill_on_free = !spec->detached};
    int r = bx_box_need_client(box, err);

    if (r == 0) {
        r = bx_exec_new(box, &how, 0, &exec, err);
    }
    if (r < 0) {
        return r;
    }
    exec->client = bx_client_ref(box->client);
    r = bx_request_begin(exec->client, &msg, BX_SH_EXEC, err);
    if (r < 0) {
        return r;
    }
    r = bx_exec_spec_to_msg(spec, &msg);
    if (r == -ENOBUFS) {
        return bx_fail(err, BOXLITE_E_INVALID,
                       "the command's arguments and environment are over %u MiB",
                       BX_FRAME_MSG_MAX >> 20);
    }
    if (r < 0) {
        return bx_fail_oom(err);
    }
    r = bx_request_send(exec->client, &msg, exec_reply, exec, &exec->ask_exec, err);
    if (r == 0) {
        *ret = steal_ptr(&exec);
    }
    return r;
}

/* The number of a command whose handle was freed before it was told. */
static void kill_unwanted(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    uint64_t number;
    if (reply && bx_msg_get_u64(reply, BX_T_EXEC, BX_EXEC_MAX, &number) == 0 && number) {
        bx_request_tell(data, BX_SH_KILL, (uint32_t)number, 0, 0);
    }
}

void bx_exec_unlink(boxlite_exec *exec)
{
    struct bx_client *c = exec->client;
    bool kill = exec->how.kill_on_free && !exec->exited;

    if (!c) {
        return;
    }
    if (exec->ask_exec && kill) {
        bx_request_redirect(c, exec->ask_exec, kill_unwanted, c);
    } else {
        bx_request_forget(c, exec->ask_exec);
    }
    bx_request_forget(c, exec->ask_attach);
    bx_request_withdraw(c, exec->ask_wait);
    if (kill && exec->number && bx_client_open(c)) {
        bx_request_tell(c, BX_SH_KILL, exec->number, 0, 0);
    }
    if (exec->attachment) {
        bx_client_detach(c, exec->attachment, true);
    }
    bx_client_unref(steal_ptr(&exec->client));
}
