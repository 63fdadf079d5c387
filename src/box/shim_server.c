/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_server.c: link 2: the socket where clients connect, their connections, and the answers they
 * wait for.
 *
 * Only the same user (or root) is served, whatever the modes of the folders above say. A client
 * that breaks the protocol, or does not read what it asked for, loses its connection and what
 * belongs to it, nothing else. The starter's connection is one like the others; of an attached box
 * it is the owner's: the box dies with it.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/timeutil.h"
#include "box/shim.h"
#include "box/shimproc.h"

#define CLOSE_MS 5000

struct bx_shim_pending {
    struct bx_shim_client *client;
    uint64_t request, key;
    enum bx_pending_kind kind;
    struct bx_shim_pending *next;
};

/* ---- answers */

static void send_msg(struct bx_shim_client *c)
{
    if (c->dead) {
        return;
    }
    if (bx_conn_msg(c->conn, &c->shim->msg) < 0) {
        bx_shim_client_drop(c);
        return;
    }
    bx_conn_io_kick(c->io);
}

void bx_shim_reply_begin(struct bx_shim_client *c, uint64_t request)
{
    (void)bx_msg_begin(&c->shim->msg, BX_SH_REPLY);
    (void)bx_msg_u64(&c->shim->msg, BX_T_REQUEST, request);
}

void bx_shim_reply_send(struct bx_shim_client *c)
{
    send_msg(c);
}

static void put_error(struct bx_buf *msg, const boxlite_error *err)
{
    (void)bx_msg_u64(msg, BX_T_CODE_NEG, (uint64_t)-boxlite_error_code(err));
    (void)bx_msg_u64(msg, BX_T_ERRNO, (uint64_t)boxlite_error_errno(err));
    (void)bx_msg_str(msg, BX_T_ERROR, boxlite_error_message(err));
    (void)bx_msg_str(msg, BX_T_HINT, boxlite_error_hint(err));
}

void bx_shim_reply_error(struct bx_shim_client *c, uint64_t request, const boxlite_error *err)
{
    (void)bx_msg_begin(&c->shim->msg, BX_SH_REPLY_ERROR);
    (void)bx_msg_u64(&c->shim->msg, BX_T_REQUEST, request);
    put_error(&c->shim->msg, err);
    send_msg(c);
}

int bx_shim_pend(struct bx_shim_client *c, uint64_t request, enum bx_pending_kind kind,
                 uint64_t key, boxlite_error **err)
{
    struct bx_shim_pending *p = calloc(1, sizeof(*p));
    if (!p) {
        return bx_fail_oom(err);
    }
    if (c->npending >= BX_SHIM_PENDING_MAX) {
        free(p);
        return bx_fail(err, BOXLITE_E_BUSY, "%u unanswered requests on one connection",
                       BX_SHIM_PENDING_MAX);
    }
    *p = (struct bx_shim_pending){
        .client = c, .request = request, .key = key, .kind = kind, .next = c->shim->pending};
    c->shim->pending = p;
    c->npending++;
    return 0;
}

/* Takes those that match out of the list first: fn may add new ones. */
void bx_shim_settle(struct bx_shim *s, enum bx_pending_kind kind, uint64_t key,
                    void (*fn)(struct bx_shim_client *c, uint64_t request, void *data), void *data)
{
    struct bx_shim_pending *hit = NULL, **p = &s->pending;
    while (*p) {
        struct bx_shim_pending *q = *p;
        if (q->kind != kind || q->key != key) {
            p = &q->next;
            continue;
        }
        *p = q->next;
        q->next = hit;
        hit = q;
    }
    while (hit) {
        struct bx_shim_pending *q = hit;
        hit = q->next;
        q->client->npending--;
        if (!q->client->dead) {
            fn(q->client, q->request, data);
        }
        free(q);
    }
}

void bx_shim_withdraw(struct bx_shim_client *c, enum bx_pending_kind kind, uint64_t request,
                      const boxlite_error *err)
{
    for (struct bx_shim_pending **p = &c->shim->pending; *p; p = &(*p)->next) {
        struct bx_shim_pending *q = *p;
        if (q->client == c && q->kind == kind && q->request == request) {
            *p = q->next;
            c->npending--;
            free(q);
            bx_shim_reply_error(c, request, err);
            return;
        }
    }
}

static void answer_error(struct bx_shim_client *c, uint64_t request, void *data)
{
    bx_shim_reply_error(c, request, data);
}

void bx_shim_settle_error(struct bx_shim *s, enum bx_pending_kind kind, uint64_t key,
                          const boxlite_error *err)
{
    bx_shim_settle(s, kind, key, answer_error, (void *)err);
}

void bx_shim_answer_empty(struct bx_shim_client *c, uint64_t request, void *data)
{
    bx_shim_reply_begin(c, request);
    bx_shim_reply_send(c);
}

void bx_shim_settle_stopped(struct bx_shim *s)
{
    _cleanup_error_ boxlite_error *err = NULL;
    bx_fail(&err, BOXLITE_E_STATE, "the box has stopped");
    while (s->pending) {
        bx_shim_settle_error(s, s->pending->kind, s->pending->key, err);
    }
}

/* ---- events */

static void state_msg(struct bx_shim *s)
{
    struct bx_buf *msg = &s->msg;
    (void)bx_msg_begin(msg, BX_SH_STATE);
    (void)bx_msg_u64(msg, BX_T_STATE, (uint64_t)bx_shim_state(s));
    (void)bx_msg_str(msg, BX_T_ENGINE, s->engine ? s->engine->name : NULL);
    (void)bx_msg_str(msg, BX_T_RELEASE, s->release);
    if (s->failure && bx_shim_state(s) == BOXLITE_BOX_STOPPED) {
        put_error(msg, s->failure);
    }
}

void bx_shim_tell_state(struct bx_shim *s, struct bx_shim_client *only)
{
    for (struct bx_shim_client *c = s->clients; c; c = c->next) {
        if (!only || c == only) {
            state_msg(s);
            send_msg(c);
            c->told_state = bx_shim_state(s);
        }
    }
}

void bx_shim_tell_started(struct bx_shim_exec *e, const struct bx_shim_client *only)
{
    for (struct bx_shim_reader *r = e->readers; r; r = r->next_of_exec) {
        if (only && r->client != only) {
            continue;
        }
        struct bx_buf *msg = &e->shim->msg;
        (void)bx_msg_begin(msg, BX_SH_STARTED);
        (void)bx_msg_u64(msg, BX_T_EXEC, e->number);
        (void)bx_msg_u64(msg, BX_T_PID, e->pid);
        send_msg(r->client);
    }
}

/* ---- one connection */

static void on_hello(void *data)
{
    struct bx_shim_client *c = data;
    if (c->told_state != bx_shim_state(c->shim)) {
        bx_shim_tell_state(c->shim, c);
    }
}

static int on_msg(void *data, const struct bx_msg *m)
{
    struct bx_shim_client *c = data;
    return c->dead ? -ECANCELED : bx_shim_request(c, m);
}

static struct bx_shim_reader *writer_of(struct bx_shim_client *c, uint32_t channel)
{
    struct bx_shim_reader *r = bx_shim_reader_find(c, BX_CHANNEL_NUMBER(channel));
    bool in = BX_CHANNEL_STREAM(channel) == BX_STREAM_IN;
    return r && !c->dead && in && r->exec->writer == r ? r : NULL;
}

static void on_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    struct bx_shim_reader *r = writer_of(data, channel);
    if (r) {
        bx_shim_exec_input(r->exec, p, len);
    }
}

static void on_eof(void *data, uint32_t channel)
{
    struct bx_shim_reader *r = writer_of(data, channel);
    if (r) {
        bx_shim_exec_input_eof(r->exec);
    }
}

static void on_writable(void *data, uint32_t channel)
{
    struct bx_shim_client *c = data;
    struct bx_shim_reader *r = bx_shim_reader_find(c, BX_CHANNEL_NUMBER(channel));
    uint32_t stream = BX_CHANNEL_STREAM(channel);
    if (r && !c->dead && (stream == BX_STREAM_OUT || stream == BX_STREAM_ERR)) {
        bx_shim_reader_pump(r, (int)stream - BX_STREAM_OUT);
    }
}

static void on_reset(void *data, uint32_t channel)
{
    struct bx_shim_client *c = data;
    struct bx_shim_reader *r = bx_shim_reader_find(c, BX_CHANNEL_NUMBER(channel));
    uint32_t stream = BX_CHANNEL_STREAM(channel);
    if (r && (stream == BX_STREAM_OUT || stream == BX_STREAM_ERR)) {
        r->at[stream - BX_STREAM_OUT].done = true;
        bx_shim_exec_readers_moved(r->exec);
        bx_shim_check_drained(c->shim);
    }
}

static void on_closed(void *data, int error)
{
    struct bx_shim_client *c = data;
    if (error < 0 && error != -ECANCELED) {
        bx_info(&c->shim->log, "client", "a connection ended: %s", strerror(-error));
    }
    bx_shim_client_drop(c);
}

static const struct bx_conn_ops client_ops = {
    .hello = on_hello,
    .msg = on_msg,
    .bytes = on_bytes,
    .eof = on_eof,
    .writable = on_writable,
    .reset = on_reset,
};

int bx_shim_client_new(struct bx_shim *s, int take_fd, struct bx_shim_client **ret)
{
    _cleanup_close_ int fd = take_fd;
    struct bx_shim_client *c = calloc(1, sizeof(*c));
    if (!c) {
        return -ENOMEM;
    }
    c->shim = s;
    c->told_state = -1;
    int r = bx_conn_new(BX_ROLE_SHIM, BX_ROLE_CLIENT, &client_ops, c, &c->conn);
    if (r == 0) {
        r = bx_conn_io_new(s->loop, steal_fd(&fd), c->conn, on_closed, c, &c->io);
    }
    if (r < 0) {
        bx_conn_free(c->conn);
        free(c);
        return r;
    }
    c->next = s->clients;
    s->clients = c;
    s->nclients++;
    *ret = c;
    return 0;
}

void bx_shim_client_drop(struct bx_shim_client *c)
{
    c->dead = true;
    bx_shim_reap_later(c->shim);
}

static void forget_pending(struct bx_shim_client *c)
{
    struct bx_shim_pending **p = &c->shim->pending;
    while (*p) {
        struct bx_shim_pending *q = *p;
        if (q->client == c) {
            *p = q->next;
            free(q);
        } else {
            p = &q->next;
        }
    }
}

static void client_free(struct bx_shim_client *c)
{
    struct bx_shim *s = c->shim;
    while (c->readers) {
        bx_shim_reader_free(c->readers);
    }
    forget_pending(c);
    bx_shim_exec_owner_gone(s, c);
    bx_conn_io_free(c->io);
    bx_conn_free(c->conn);
    s->nclients--;
    if (s->starter == c) {
        s->starter = NULL;
        if (s->have_config && !s->config.detached) {
            bx_shim_stop(s, BX_STOP_KILL, 0);
        }
    }
    free(c);
}

void bx_shim_clients_reap(struct bx_shim *s)
{
    struct bx_shim_client **p = &s->clients;
    while (*p) {
        struct bx_shim_client *c = *p;
        if (c->dead) {
            *p = c->next;
            client_free(c);
        } else {
            p = &c->next;
        }
    }
}

void bx_shim_drop_idle(struct bx_shim *s)
{
    for (struct bx_shim_client *c = s->clients; c; c = c->next) {
        uint64_t taken = 1;
        for (const struct bx_shim_reader *r = c->readers; r; r = r->next_of_client) {
            taken += r->at[0].pos + r->at[1].pos;
        }
        if (c->taken == taken && c != s->starter) {
            bx_shim_client_drop(c);
        }
        c->taken = taken;
    }
    bx_source_set_deadline(s->step, bx_deadline_ms(s->world.drain_ms));
}

void bx_shim_clients_close(struct bx_shim *s)
{
    /* Those who read need no waiting; then those who do not have a moment for the rest. */
    static const int waits_ms[] = {0, CLOSE_MS};
    for (size_t i = 0; i < BX_ARRAY_SIZE(waits_ms); i++) {
        for (struct bx_shim_client *c = s->clients; c; c = c->next) {
            c->dead |= bx_conn_io_flush(c->io, bx_deadline_ms(waits_ms[i])) != -ETIMEDOUT;
        }
        bx_shim_clients_reap(s);
    }
    for (struct bx_shim_client *c = s->clients; c; c = c->next) {
        c->dead = true;
    }
    bx_shim_clients_reap(s);
}

/* ---- the socket */

static void accept_one(struct bx_shim *s, int take_fd)
{
    _cleanup_close_ int fd = take_fd;
    uid_t uid;
    struct bx_shim_client *c;
    if (bx_peer_uid(fd, &uid) < 0 || (uid != geteuid() && uid != 0)) {
        bx_warn(&s->log, "client", "another user's connection is refused");
        return;
    }
    if (s->nclients >= BX_SHIM_CLIENTS_MAX) {
        bx_warn(&s->log, "client", "more than %u connections: one is refused", BX_SHIM_CLIENTS_MAX);
        return;
    }
    (void)bx_shim_client_new(s, steal_fd(&fd), &c);
}

static void on_connect(void *data, uint32_t events)
{
    struct bx_shim *s = data;
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        accept_one(s, fd);
    }
}

int bx_shim_listen(struct bx_shim *s, boxlite_error **err)
{
    if (unlinkat(s->args.box_fd, BX_CONTROL_SOCKET, 0) < 0 && errno != ENOENT) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "removing an old %s", BX_CONTROL_SOCKET);
    }
    s->listen_fd = bx_unix_listen(s->args.box_fd, BX_CONTROL_SOCKET, BX_SHIM_CLIENTS_MAX);
    if (s->listen_fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, s->listen_fd, "listening on %s", BX_CONTROL_SOCKET);
    }
    int r = bx_loop_add_fd(s->loop, s->listen_fd, EPOLLIN, on_connect, s, &s->listener);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "listening on %s", BX_CONTROL_SOCKET) : 0;
}

void bx_shim_unlisten(struct bx_shim *s)
{
    if (s->listen_fd < 0) {
        return;
    }
    bx_source_free(steal_ptr(&s->listener));
    bx_close(&s->listen_fd);
    (void)unlinkat(s->args.box_fd, BX_CONTROL_SOCKET, 0);
}
