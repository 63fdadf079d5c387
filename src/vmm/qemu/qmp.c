/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qmp.c: a QMP client.
 *
 * States go one way: greeting awaited, negotiating, ready, closed. Commands are a few dozen bytes
 * and at most PENDING_MAX are under way, so a write that does not fit into the socket's buffer
 * means that QEMU hangs: it is an error, not something to wait for.
 *
 * The user may free the client in any callback. So after each of them the client is looked at only
 * if `gone`, a flag on the stack of the function that called, says that it still is there.
 */
#include "vmm/qemu/qmp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"

#define PENDING_MAX 16
#define READ_SIZE 4096

enum state { GREETING, NEGOTIATING, READY, CLOSED };

struct pending {
    uint64_t id; /* 0: free */
    bx_qmp_reply_fn reply;
};

struct bx_qmp {
    int fd;
    enum state state;
    struct bx_source *source;
    struct bx_qmp_reader reader;
    struct pending pending[PENDING_MAX];
    uint64_t last_id;
    const struct bx_qmp_events *events;
    void *data;
    bool *gone;
};

void bx_qmp_free(struct bx_qmp *q)
{
    if (!q) {
        return;
    }
    if (q->gone) {
        *q->gone = true;
    }
    bx_source_free(q->source);
    bx_close(&q->fd);
    bx_qmp_reader_done(&q->reader);
    free(q);
}

/* Ends the reading; the user is told last. */
static void fail(struct bx_qmp *q, const boxlite_error *error)
{
    q->state = CLOSED;
    bx_source_free(steal_ptr(&q->source));
    q->events->closed(q->data, error);
}

static int send_command(struct bx_qmp *q, const char *name, bx_qmp_reply_fn reply,
                        boxlite_error **err)
{
    char line[128];
    size_t i = 0;

    while (i < PENDING_MAX && q->pending[i].id != 0) {
        i++;
    }
    if (i == PENDING_MAX) {
        return bx_fail(err, BOXLITE_E_BUSY, "QMP: too many commands under way");
    }
    int n = snprintf(line, sizeof(line), "{\"execute\":\"%s\",\"id\":%" PRIu64 "}\n", name,
                     q->last_id + 1);
    if (n < 0 || (size_t)n >= sizeof(line)) {
        return bx_fail(err, BOXLITE_E_INTERNAL, "QMP: the command is too long");
    }
    ssize_t sent = send(q->fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    /* A QEMU that has just ended: the reader comes upon the end by itself, and its exit tells why. */
    bool peer_gone = sent < 0 && (errno == EPIPE || errno == ECONNRESET);
    if (sent != n && !peer_gone) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, sent < 0 ? errno : EAGAIN, "QMP: sending %s",
                             name);
    }
    q->pending[i] = (struct pending){.id = ++q->last_id, .reply = reply};
    return 0;
}

int bx_qmp_command(struct bx_qmp *q, const char *name, bx_qmp_reply_fn reply, boxlite_error **err)
{
    if (q->state != READY) {
        return bx_fail(err, BOXLITE_E_STATE, "QMP: the engine is not ready");
    }
    return send_command(q, name, reply, err);
}

/* A reply ends its command. An error without id answers something that QEMU could not read. */
static int on_reply(struct bx_qmp *q, const struct bx_qmp_msg *msg, boxlite_error **err)
{
    _cleanup_error_ boxlite_error *error = NULL;
    size_t i = 0;

    while (i < PENDING_MAX && (msg->id == 0 || q->pending[i].id != msg->id)) {
        i++;
    }
    if (i == PENDING_MAX) {
        return bx_fail(err, BOXLITE_E_ENGINE, "QMP: a reply to no command");
    }
    struct pending done = q->pending[i];
    q->pending[i] = (struct pending){0};
    if (msg->kind == BX_QMP_ERROR) {
        (void)bx_fail(&error, BOXLITE_E_ENGINE, "QMP: %s", msg->desc);
    }
    if (q->state == NEGOTIATING) {
        if (error) {
            return bx_fail(err, BOXLITE_E_ENGINE, "%s", boxlite_error_message(error));
        }
        q->state = READY;
        q->events->ready(q->data);
    } else if (done.reply) {
        done.reply(q->data, error);
    }
    return 0;
}

static int on_message(struct bx_qmp *q, const struct bx_qmp_msg *msg, boxlite_error **err)
{
    switch (msg->kind) {
    case BX_QMP_GREETING:
        if (q->state != GREETING) {
            return bx_fail(err, BOXLITE_E_ENGINE, "QMP: greeted twice");
        }
        q->state = NEGOTIATING;
        return send_command(q, "qmp_capabilities", NULL, err);
    case BX_QMP_EVENT:
        q->events->event(q->data, msg->event, msg->value);
        return 0;
    case BX_QMP_RETURN:
    case BX_QMP_ERROR:
        return on_reply(q, msg, err);
    }
    return 0;
}

/* All complete messages. 0 or the failure; *gone tells whether q still is. */
static int handle_messages(struct bx_qmp *q, const bool *gone, boxlite_error **err)
{
    int r = 0;

    while (r == 0 && !*gone) {
        struct bx_qmp_msg msg = {0};

        r = bx_qmp_reader_next(&q->reader, &msg, err);
        if (r <= 0) {
            break;
        }
        r = on_message(q, &msg, err);
        bx_qmp_msg_done(&msg);
    }
    return r;
}

/* Reads once. True if there may be more. */
static bool read_some(struct bx_qmp *q, const bool *gone)
{
    _cleanup_error_ boxlite_error *err = NULL;
    size_t room = bx_qmp_reader_room(&q->reader);
    uint8_t chunk[READ_SIZE];
    ssize_t n = recv(q->fd, chunk, room < READ_SIZE ? room : READ_SIZE, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n == 0 || (n < 0 && errno == ECONNRESET)) {
        fail(q, NULL);
        return false;
    }
    int r = n < 0 ? bx_fail_errno(&err, BOXLITE_E_ENGINE, errno, "QMP: reading")
                  : bx_qmp_reader_push(&q->reader, chunk, (size_t)n, &err);
    if (r == 0) {
        r = handle_messages(q, gone, &err);
    }
    if (r < 0 && !*gone) {
        fail(q, err);
        return false;
    }
    return !*gone;
}

static void read_all(struct bx_qmp *q, bool once)
{
    bool gone = false;
    bool *outer = q->gone;

    q->gone = &gone;
    while (!gone && q->state != CLOSED && read_some(q, &gone) && !once) {
    }
    if (!gone) {
        q->gone = outer;
    } else if (outer) {
        *outer = true;
    }
}

static void on_readable(void *data, uint32_t events)
{
    read_all(data, true);
}

void bx_qmp_drain(struct bx_qmp *q)
{
    read_all(q, false);
}

int bx_qmp_new(struct bx_loop *loop, int take_fd, const struct bx_qmp_events *events, void *data,
               struct bx_qmp **ret, boxlite_error **err)
{
    _cleanup_close_ int fd = take_fd;
    struct bx_qmp *q = calloc(1, sizeof(*q));

    if (!q) {
        return bx_fail_oom(err);
    }
    *q = (struct bx_qmp){
        .fd = steal_fd(&fd), .reader = BX_QMP_READER_INIT, .events = events, .data = data};
    int r = bx_loop_add_fd(loop, q->fd, EPOLLIN, on_readable, q, &q->source);
    if (r < 0) {
        bx_qmp_free(q);
        return bx_fail_errno(err, BOXLITE_E_IO, r, "QMP: watching the socket");
    }
    *ret = q;
    return 0;
}
