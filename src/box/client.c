/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c: life and state of a connection to a shim. See client.h.
 *
 * The end in detail. The connection's end closes it: requests and attachments fail at once. Then
 * the shim's process is waited for by its pidfd, because only its end frees the box' lock; one that
 * does not come to its end within END_MS is killed if the box is ours or was ending, else it is
 * left alone: it may serve others well and only have had no place for us. Last, how the box ended is read from exit.json
 * if the shim had no chance to say it here; a running box without one was lost.
 */
#include "box/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/timeutil.h"
#include "box/boxconfig.h"
#include "box/client_priv.h"
#include "box/shimfind.h"
#include "box/shimproc.h"
#include "wire/proto.h"

#define END_MS 5000
#define SHUTDOWN_MS 2000
#define ANSWER_MS 1000
#define FLUSH_MS 500

static void notify(struct bx_client *c)
{
    struct bx_watch *next;
    for (struct bx_watch *w = c->watches; w; w = next) {
        next = w->next; /* a watcher may take itself out */
        w->fn(w->data);
    }
}

/* ---- What the shim tells --------------------------------------------------------------------- */

static void take_text(const struct bx_msg *msg, uint16_t tag, char **field)
{
    char *text = NULL;
    if (bx_msg_get_str(msg, tag, &text) == 0) {
        free(*field);
        *field = text;
    }
}

static void take_state(struct bx_client *c, const struct bx_msg *msg)
{
    uint64_t state;
    if (bx_msg_get_u64(msg, BX_T_STATE, BOXLITE_BOX_STOPPED, &state) < 0) {
        return;
    }
    c->state = (int)state;
    take_text(msg, BX_T_ENGINE, &c->engine);
    take_text(msg, BX_T_RELEASE, &c->release);
    if (state == BOXLITE_BOX_STOPPED && !c->failure) {
        (void)bx_client_msg_error(msg, &c->failure);
    }
    if (c->pidfd < 0) {
        c->pidfd = bx_shim_pidfd(c->box_fd);
    }
    notify(c);
}

static void status_reply(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    if (reply) {
        take_state(data, reply);
    }
}

static int on_msg(void *data, const struct bx_msg *msg)
{
    struct bx_client *c = data;
    switch (msg->type) {
    case BX_SH_REPLY:
    case BX_SH_REPLY_ERROR:
        bx_client_reply(c, msg);
        return 0;
    case BX_SH_STATE:
        take_state(c, msg);
        return 0;
    case BX_SH_STARTED:
        bx_client_started(c, msg);
        return 0;
    default:
        return 0; /* an event of a newer shim */
    }
}

static void on_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    struct bx_client *c = data;
    struct bx_attachment *a = bx_client_slot(c, channel);
    if (a) {
        a->ops->bytes(a->data, BX_CHANNEL_STREAM(channel), p, len);
    } else {
        (void)bx_conn_consumed(c->conn, channel, len);
    }
}

static void on_eof(void *data, uint32_t channel)
{
    struct bx_attachment *a = bx_client_slot(data, channel);
    if (a) {
        a->ops->eof(a->data, BX_CHANNEL_STREAM(channel));
    }
}

static void on_writable(void *data, uint32_t channel)
{
    struct bx_attachment *a = bx_client_slot(data, channel);
    if (a) {
        a->ops->writable(a->data);
    }
}

static void on_reset(void *data, uint32_t channel)
{
    struct bx_attachment *a = bx_client_slot(data, channel);
    if (a) {
        a->ops->reset(a->data);
    }
}

static void on_hello(void *data)
{
}

static const struct bx_conn_ops conn_ops = {
    .hello = on_hello,
    .msg = on_msg,
    .bytes = on_bytes,
    .eof = on_eof,
    .writable = on_writable,
    .reset = on_reset,
};

/* ---- The end --------------------------------------------------------------------------------- */

/* How the box ended, where the shim did not say it on this connection. */
static void learn_failure(struct bx_client *c, const siginfo_t *status)
{
    struct bx_box_exit end = {0};
    if (c->failure || c->refused || c->state == BOXLITE_BOX_STOPPED) {
        return;
    }
    if (bx_box_exit_read(c->box_fd, &end, NULL) == 0) {
        if (end.code < 0) {
            (void)bx_fail_copy(&c->failure, end.code, 0, end.error ? end.error : "the box failed",
                               end.hint);
        }
        bx_box_exit_done(&end);
        return;
    }
    if (status && status->si_pid && status->si_code != CLD_EXITED) {
        (void)bx_fail(&c->failure, BOXLITE_E_ENGINE, "%s was killed by signal %d (%s)",
                      BX_SHIM_PROGRAM, status->si_status, strsignal(status->si_status));
    } else if (status && status->si_pid) {
        (void)bx_fail(&c->failure, BOXLITE_E_ENGINE, "%s ended with exit code %d", BX_SHIM_PROGRAM,
                      status->si_status);
    } else {
        (void)bx_fail(&c->failure, BOXLITE_E_ENGINE, "%s ended unexpectedly", BX_SHIM_PROGRAM);
    }
    bx_hint(&c->failure, "see shim.log and console.log in the folder boxes/%s of the home", c->id);
}

static void let_go(void *data)
{
    struct bx_client *c = data;
    c->let_go = NULL;
    if (c->auto_remove) {
        bx_sweep_box(c->rt, c->id);
    }
    c->owned = false;
    bx_client_unref(c);
}

static void set_gone(struct bx_client *c, const siginfo_t *status)
{
    if (c->gone) {
        return;
    }
    c->gone = true;
    bx_source_free(steal_ptr(&c->end));
    bx_source_free(steal_ptr(&c->timer));
    learn_failure(c, status);
    c->state = c->refused ? c->state : BOXLITE_BOX_STOPPED;
    notify(c);
    if (c->owned && bx_loop_add_defer(c->rt->loop, let_go, c, &c->let_go) < 0) {
        c->let_go = NULL; /* no memory: it stays until the runtime ends */
    }
}

static void on_child(void *data, const siginfo_t *status)
{
    struct bx_client *c = data;
    c->child = false; /* reaped */
    set_gone(c, status);
}

static void on_process(void *data, uint32_t events)
{
    set_gone(data, NULL);
}

static void fail_busy(const struct bx_client *c, boxlite_error **err)
{
    (void)bx_fail(err, BOXLITE_E_BUSY, "box %s takes no more connections", c->id);
    bx_hint(err, "try again when some of its commands have ended");
}

/* The box runs on without us. */
static void set_refused(struct bx_client *c)
{
    c->refused = true;
    if (!c->failure) {
        fail_busy(c, &c->failure);
    }
    set_gone(c, NULL);
}

static void on_overdue(void *data)
{
    struct bx_client *c = data;
    if (c->owned || c->state == BOXLITE_BOX_STOPPING) {
        bx_client_kill(c);
    } else {
        set_refused(c);
    }
}

void bx_client_kill(struct bx_client *c)
{
    if (c->pidfd < 0) {
        c->pidfd = bx_shim_pidfd(c->box_fd);
    }
    if (c->pidfd >= 0 && !c->gone) {
        (void)bx_pidfd_signal(c->pidfd, SIGKILL);
    }
}

static void on_closed(void *data, int error)
{
    struct bx_client *c = data;
    _cleanup_error_ boxlite_error *why = NULL;
    /* It has a shim that never said a word to us. */
    bool refused = !error && c->state < 0 && !c->owned && bx_shim_running(c->box_fd) == 1;
    int r;

    c->closed = true;
    if (error == -EPROTONOSUPPORT) {
        (void)bx_fail(&why, BOXLITE_E_UNSUPPORTED,
                      "box %s was started by a BoxLite of another version (protocol %u)", c->id,
                      bx_conn_peer_version(c->conn));
        bx_hint(&why, "stop it with the version that started it, or remove it with force");
    } else if (c->state == BOXLITE_BOX_STOPPED || c->state == BOXLITE_BOX_STOPPING) {
        (void)bx_fail(&why, BOXLITE_E_STATE, "box %s has stopped", c->id);
    } else if (error < 0) {
        (void)bx_fail_errno(&why, BOXLITE_E_IO, error, "the connection to box %s broke", c->id);
    } else if (refused) {
        fail_busy(c, &why);
    } else {
        (void)bx_fail(&why, BOXLITE_E_ENGINE, "box %s was lost: its %s ended", c->id,
                      BX_SHIM_PROGRAM);
    }
    bx_client_fail_all(c, why);
    if (error < 0 && c->state < 0) {
        c->failure =
            steal_ptr(&why); /* it never came to talk: a running box is not judged by that */
    }
    if (refused) {
        set_refused(c);
        return;
    }
    if (c->pidfd < 0) {
        c->pidfd = bx_shim_pidfd(c->box_fd);
    }
    r = c->pidfd < 0 ? -ESRCH
        : c->child   ? bx_loop_add_child(c->rt->loop, c->pidfd, on_child, c, &c->end)
                     : bx_loop_add_fd(c->rt->loop, c->pidfd, EPOLLIN, on_process, c, &c->end);
    if (r < 0 || error == -EPROTONOSUPPORT) {
        set_gone(c, NULL);
        return;
    }
    if (c->state != BOXLITE_BOX_STOPPED) {
        (void)bx_loop_add_timer(c->rt->loop, bx_deadline_ms(END_MS), on_overdue, c, &c->timer);
    }
    notify(c);
}

/* ---- Making and ending ----------------------------------------------------------------------- */

static void client_free(struct bx_client *c)
{
    if (c->rt) {
        struct bx_client **p = &c->rt->clients;
        while (*p && *p != c) {
            p = &(*p)->next;
        }
        if (*p) {
            *p = c->next;
        }
        bx_source_free(c->end);
        bx_source_free(c->timer);
        bx_source_free(c->let_go);
    }
    if (c->io && !c->closed) {
        (void)bx_conn_io_flush(c->io, bx_deadline_ms(FLUSH_MS));
    }
    bx_conn_io_free(c->io);
    bx_conn_free(c->conn);
    while (c->pending) {
        struct bx_pending *p = c->pending;
        c->pending = p->next;
        free(p);
    }
    free(c->slots);
    free(c->id);
    free(c->engine);
    free(c->release);
    boxlite_error_free(c->failure);
    bx_close(&c->box_fd);
    bx_close(&c->pidfd);
    free(c);
}

struct bx_client *bx_client_ref(struct bx_client *c)
{
    c->refs++;
    return c;
}

void bx_client_unref(struct bx_client *c)
{
    if (c && --c->refs == 0) {
        client_free(c);
    }
}

struct bx_client *bx_client_lookup(boxlite_runtime *rt, const char *id)
{
    for (struct bx_client *c = rt->clients; c; c = c->next) {
        if (!c->closed && !bx_client_over(c) && bx_streq(c->id, id)) {
            return c;
        }
    }
    return NULL;
}

static int ask_status(struct bx_client *c, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    int r = bx_request_begin(c, &msg, BX_SH_STATUS, err);
    return r < 0 ? r : bx_request_send(c, &msg, status_reply, c, NULL, err);
}

int bx_client_new(boxlite_runtime *rt, const char *id, int box_fd, int take_fd, int take_pidfd,
                  struct bx_client **ret, boxlite_error **err)
{
    _cleanup_close_ int fd = take_fd;
    _cleanup_client_ struct bx_client *c = calloc(1, sizeof(*c));
    int r;

    if (!c) {
        bx_cleanup_close(&take_pidfd);
        return bx_fail_oom(err);
    }
    *c = (struct bx_client){.rt = rt, .refs = 1, .box_fd = -1, .pidfd = take_pidfd, .state = -1};
    c->child = take_pidfd >= 0;
    c->answer_by = bx_deadline_ms(ANSWER_MS);
    c->id = strdup(id);
    c->box_fd = fcntl(box_fd, F_DUPFD_CLOEXEC, 3);
    if (!c->id || c->box_fd < 0) {
        /* cppcheck-suppress memleak ; it is freed where its scope ends */
        return c->id ? bx_fail_errno(err, BOXLITE_E_IO, errno, "box %s", id) : bx_fail_oom(err);
    }
    r = bx_conn_new(BX_ROLE_CLIENT, BX_ROLE_SHIM, &conn_ops, c, &c->conn);
    if (r == 0) {
        r = bx_conn_io_new(rt->loop, steal_fd(&fd), c->conn, on_closed, c, &c->io);
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "connecting to box %s", id);
    }
    c->next = rt->clients;
    rt->clients = c;
    r = ask_status(c, err);
    if (r < 0) {
        return r;
    }
    *ret = steal_ptr(&c);
    return 0;
}

int bx_client_connect(boxlite_runtime *rt, const char *id, int box_fd, struct bx_client **ret,
                      boxlite_error **err)
{
    struct bx_client *c = bx_client_lookup(rt, id);
    int fd;

    if (c) {
        *ret = bx_client_ref(c);
        return 0;
    }
    fd = bx_unix_connect(box_fd, BX_CONTROL_SOCKET);
    if (fd == -ENOENT || fd == -ECONNREFUSED) {
        return bx_fail(err, BOXLITE_E_STATE, "the box is not running");
    }
    if (fd < 0) {
        return bx_fail_errno(err, fd == -EAGAIN ? BOXLITE_E_BUSY : BOXLITE_E_IO, fd,
                             "connecting to box %s", id);
    }
    return bx_client_new(rt, id, box_fd, fd, -1, ret, err);
}

void bx_client_own(struct bx_client *c, bool auto_remove)
{
    if (!c->owned) {
        c->owned = true;
        bx_client_ref(c);
    }
    c->auto_remove = auto_remove;
}

/* ---- The runtime's end ----------------------------------------------------------------------- */

/* Waits for the end of a process by its pidfd; what is not ours to reap is left alone. */
static void await(struct bx_client *c, uint64_t deadline)
{
    struct pollfd p = {.fd = c->pidfd, .events = POLLIN};
    siginfo_t status;
    int r;

    do {
        r = poll(&p, 1, bx_deadline_left_ms(deadline));
    } while (r < 0 && errno == EINTR);
    if (r == 0) {
        (void)bx_pidfd_signal(c->pidfd, SIGKILL);
    }
    while (c->child && waitid((idtype_t)P_PIDFD, (id_t)c->pidfd, &status, WEXITED) < 0 &&
           errno == EINTR) {
    }
    c->child = false;
}

void bx_clients_shutdown(boxlite_runtime *rt)
{
    struct bx_client *next;
    uint64_t deadline = bx_deadline_ms(SHUTDOWN_MS);

    for (struct bx_client *c = rt->clients; c; c = c->next) {
        bx_source_free(steal_ptr(&c->end));
        bx_source_free(steal_ptr(&c->timer));
        bx_source_free(steal_ptr(&c->let_go));
        if (!c->closed) {
            (void)bx_conn_io_flush(c->io, bx_deadline_ms(FLUSH_MS));
            c->closed = true;
        }
        bx_conn_io_free(steal_ptr(&c->io)); /* what the owner's shim waits for */
    }
    for (struct bx_client *c = rt->clients; c; c = c->next) {
        if (c->owned && c->pidfd >= 0 && !c->gone) {
            await(c, deadline);
        }
        if (c->owned && c->auto_remove) {
            bx_sweep_box(rt, c->id);
        }
    }
    for (struct bx_client *c = steal_ptr(&rt->clients); c; c = next) {
        next = c->next;
        c->rt = NULL; /* a handle that was not freed keeps it */
        c->gone = true;
        if (c->owned) {
            c->owned = false;
            bx_client_unref(c);
        }
    }
}

/* ---- Getters and watchers -------------------------------------------------------------------- */

const char *bx_client_id(const struct bx_client *c)
{
    return c->id;
}

int bx_client_box_fd(const struct bx_client *c)
{
    return c->box_fd;
}

int bx_client_state(const struct bx_client *c)
{
    return c->state;
}

const char *bx_client_engine(const struct bx_client *c)
{
    return c->engine;
}

const char *bx_client_release(const struct bx_client *c)
{
    return c->release;
}

const boxlite_error *bx_client_failure(const struct bx_client *c)
{
    return c->failure;
}

uint64_t bx_client_answer_by(const struct bx_client *c)
{
    return c->answer_by;
}

bool bx_client_open(const struct bx_client *c)
{
    return !c->closed;
}

bool bx_client_gone(const struct bx_client *c)
{
    return c->gone;
}

bool bx_client_refused(const struct bx_client *c)
{
    return c->refused;
}

bool bx_client_over(const struct bx_client *c)
{
    return c->gone || c->state == BOXLITE_BOX_STOPPED;
}

void bx_client_watch(struct bx_client *c, struct bx_watch *w, void (*fn)(void *data), void *data)
{
    *w = (struct bx_watch){.fn = fn, .data = data, .next = c->watches, .client = c};
    c->watches = w;
}

void bx_client_unwatch(struct bx_watch *w)
{
    if (!w->client) {
        return;
    }
    for (struct bx_watch **p = &w->client->watches; *p; p = &(*p)->next) {
        if (*p == w) {
            *p = w->next;
            break;
        }
    }
    w->client = NULL;
}
