/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_agent.c: link 1, to the agent in the guest.
 *
 * The peer is hostile: the connection checks frames and credit, here every message is checked
 * against what the shim itself has asked for. A message that makes no sense ends the link, and
 * with it the box; one that names a command which has ended already is what crossing messages look
 * like, and is ignored.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "base/fd.h"
#include "box/shim.h"
#include "box/shim_share.h"

#define ERROR_TEXT_MAX 500u

static struct bx_shim_exec *exec_of(struct bx_shim *s, const struct bx_msg *m, int *ret_error)
{
    uint64_t number = 0;
    *ret_error = bx_msg_get_u64(m, BX_T_EXEC, BX_EXEC_MAX, &number);
    if (*ret_error < 0) {
        *ret_error = -EPROTO;
        return NULL;
    }
    struct bx_shim_exec *e = bx_shim_exec_find(s, (uint32_t)number);
    return e && e->state != BX_EXEC_PLANNED && e->state != BX_EXEC_ENDED ? e : NULL;
}

/* ---- messages */

static int on_ready(struct bx_shim *s, const struct bx_msg *m)
{
    _cleanup_free_ char *release = NULL;
    uint64_t us = 0;
    if (s->agent_ready) {
        return -EPROTO;
    }
    (void)bx_msg_get_u64(m, BX_T_BOOT_US, UINT64_MAX, &us);
    if (bx_msg_get_str(m, BX_T_RELEASE, &release) == 0) {
        s->release = bx_escape(release, strlen(release), 100);
    }
    bx_info(&s->log, "agent", "ready %" PRIu64 " ms after the guest's start", us / 1000);
    s->agent_ready = true;
    bx_shim_agent_ready(s);
    return 0;
}

static int on_failed(struct bx_shim *s, const struct bx_msg *m)
{
    _cleanup_free_ char *raw = NULL;
    (void)bx_msg_get_str(m, BX_T_ERROR, &raw);
    _cleanup_free_ char *text = raw ? bx_escape(raw, strlen(raw), ERROR_TEXT_MAX) : NULL;
    _cleanup_error_ boxlite_error *err = NULL;
    bx_fail(&err, BOXLITE_E_GUEST, "setting the guest up: %s", text ? text : "unknown failure");
    bx_shim_fail(s, &err);
    return 0;
}

static int on_started(struct bx_shim *s, const struct bx_msg *m)
{
    int r;
    uint64_t pid = 0;
    struct bx_shim_exec *e = exec_of(s, m, &r);
    if (e) {
        (void)bx_msg_get_u64(m, BX_T_PID, INT32_MAX, &pid);
        bx_shim_exec_started(e, pid);
    }
    return r;
}

static int on_exited(struct bx_shim *s, const struct bx_msg *m)
{
    int r;
    struct bx_exec_exit how = {0};
    struct bx_shim_exec *e = exec_of(s, m, &r);
    if (e && (r = bx_exec_exit_from_msg(m, &how)) == 0) {
        bx_shim_exec_exited(e, &how);
    }
    bx_exec_exit_done(&how);
    return r;
}

static void answer_stats(struct bx_shim_client *c, uint64_t request, void *data)
{
    static const uint16_t tags[] = {BX_T_MEM_TOTAL, BX_T_MEM_FREE, BX_T_CPU_US, BX_T_PIDS};
    const struct bx_msg *m = data;
    bx_shim_reply_begin(c, request);
    for (size_t i = 0; i < BX_ARRAY_SIZE(tags); i++) {
        uint64_t v = 0;
        if (bx_msg_get_u64(m, tags[i], UINT64_MAX, &v) == 0) {
            (void)bx_msg_u64(&c->shim->msg, tags[i], v);
        }
    }
    bx_shim_reply_send(c);
}

static int on_stats(struct bx_shim *s, const struct bx_msg *m)
{
    uint64_t query = 0;
    struct bx_msg copy = *m;
    if (bx_msg_get_u64(m, BX_T_REQUEST, UINT64_MAX, &query) < 0) {
        return -EPROTO;
    }
    bx_shim_settle(s, BX_PENDING_STATS, query, answer_stats, &copy);
    return 0;
}

static int on_log(struct bx_shim *s, const struct bx_msg *m)
{
    _cleanup_free_ char *raw = NULL;
    uint64_t level = BOXLITE_LOG_INFO;
    (void)bx_msg_get_u64(m, BX_T_LEVEL, BOXLITE_LOG_DEBUG, &level);
    if (bx_msg_get_str(m, BX_T_TEXT, &raw) == 0) {
        _cleanup_free_ char *text = bx_escape(raw, strlen(raw), ERROR_TEXT_MAX);
        bx_log(&s->log, (int)level, "guest", "%s", text ? text : "");
    }
    return 0;
}

static const struct {
    uint16_t type;
    bool before_ready;
    int (*fn)(struct bx_shim *s, const struct bx_msg *m);
} handlers[] = {
    {BX_AG_READY, true, on_ready},        {BX_AG_FAILED, true, on_failed},
    {BX_AG_STARTED, false, on_started},   {BX_AG_EXITED, false, on_exited},
    {BX_AG_STATS_REPLY, false, on_stats}, {BX_AG_LOG, true, on_log},
};

static int on_msg(void *data, const struct bx_msg *m)
{
    struct bx_shim *s = data;
    bx_shim_alive(s);
    for (size_t i = 0; i < BX_ARRAY_SIZE(handlers); i++) {
        if (handlers[i].type == m->type) {
            return handlers[i].before_ready || s->agent_ready ? handlers[i].fn(s, m) : -EPROTO;
        }
    }
    return 0;
}

/* ---- streams */

static struct bx_shim_exec *stream_exec(struct bx_shim *s, uint32_t channel)
{
    return bx_shim_exec_find(s, BX_CHANNEL_NUMBER(channel));
}

static void on_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    if (channel == BX_CHANNEL_SHARE_REQUEST) {
        bx_shim_share_bytes(data, p, len);
        return;
    }
    struct bx_shim_exec *e = stream_exec(data, channel);
    uint32_t stream = BX_CHANNEL_STREAM(channel);
    /* Bytes on an input channel get no credit back: a guest can send one window of them, to
     * nowhere. */
    if (e && (stream == BX_STREAM_OUT || stream == BX_STREAM_ERR)) {
        bx_shim_exec_bytes(e, (int)stream - BX_STREAM_OUT, p, len);
    }
}

static void on_eof(void *data, uint32_t channel)
{
    struct bx_shim_exec *e = stream_exec(data, channel);
    uint32_t stream = BX_CHANNEL_STREAM(channel);
    if (e && (stream == BX_STREAM_OUT || stream == BX_STREAM_ERR)) {
        bx_shim_exec_out_ended(e, (int)stream - BX_STREAM_OUT);
    }
}

static void on_writable(void *data, uint32_t channel)
{
    if (channel == BX_CHANNEL_SHARE_ANSWER) {
        bx_shim_share_writable(data);
        return;
    }
    struct bx_shim_exec *e = stream_exec(data, channel);
    if (e && BX_CHANNEL_STREAM(channel) == BX_STREAM_IN) {
        bx_shim_exec_in_writable(e);
    }
}

static void on_reset(void *data, uint32_t channel)
{
    struct bx_shim_exec *e = stream_exec(data, channel);
    if (e && BX_CHANNEL_STREAM(channel) == BX_STREAM_IN) {
        bx_shim_exec_in_closed(e);
    }
}

/* ---- the link */

static void on_hello(void *data)
{
    struct bx_shim *s = data;
    bx_shim_alive(s);
    int r = bx_shim_configure_msg(s, &s->msg);
    r = r < 0 ? r : bx_shim_share_open(s);
    _cleanup_error_ boxlite_error *err = NULL;
    if (r < 0) {
        bx_fail_errno(&err, BOXLITE_E_INTERNAL, r, "writing the guest's configuration");
    } else {
        r = bx_shim_agent_send(s, &err);
    }
    if (r < 0) {
        bx_shim_fail(s, &err);
    }
}

static void on_closed(void *data, int error)
{
    bx_shim_agent_lost(data, error);
}

static const struct bx_conn_ops agent_ops = {
    .hello = on_hello,
    .msg = on_msg,
    .bytes = on_bytes,
    .eof = on_eof,
    .writable = on_writable,
    .reset = on_reset,
};

int bx_shim_agent_open(struct bx_shim *s, int take_fd, boxlite_error **err)
{
    _cleanup_close_ int fd = take_fd;
    int r = bx_conn_new(BX_ROLE_SHIM, BX_ROLE_AGENT, &agent_ops, s, &s->agent);
    if (r == 0) {
        r = bx_conn_io_new(s->loop, steal_fd(&fd), s->agent, on_closed, s, &s->agent_io);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "opening the agent's channel") : 0;
}

void bx_shim_agent_close(struct bx_shim *s)
{
    bx_conn_io_free(steal_ptr(&s->agent_io));
    bx_conn_free(steal_ptr(&s->agent));
    s->agent_ready = false;
}

int bx_shim_agent_send(struct bx_shim *s, boxlite_error **err)
{
    if (!s->agent) {
        return bx_fail(err, BOXLITE_E_GUEST, "the guest does not answer");
    }
    int r = bx_conn_msg(s->agent, &s->msg);
    if (r == -ENOBUFS) {
        return bx_fail(err, BOXLITE_E_GUEST, "the guest takes no more messages: it is overloaded");
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_GUEST, r, "the guest does not answer");
    }
    bx_conn_io_kick(s->agent_io);
    return 0;
}

int bx_shim_agent_tell(struct bx_shim *s, uint16_t type, uint16_t tag1, uint64_t v1, uint16_t tag2,
                       uint64_t v2, boxlite_error **err)
{
    int r = bx_msg_begin(&s->msg, type);
    if (r == 0 && tag1) {
        r = bx_msg_u64(&s->msg, tag1, v1);
    }
    if (r == 0 && tag2) {
        r = bx_msg_u64(&s->msg, tag2, v2);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_INTERNAL, r, "writing a message")
                 : bx_shim_agent_send(s, err);
}
