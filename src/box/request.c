/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c: requests and attachments of a connection to a shim. See client.h.
 *
 * A request's number is only used once. An attachment's number is used again, but not before the
 * shim has answered its DETACH: until then frames of the old one may still come.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "box/client_priv.h"
#include "wire/proto.h"

#define CODE_LAST ((uint64_t)-BOXLITE_E_AGAIN)
#define ERROR_TEXT_MAX 4096u
#define ATTACHMENTS_MAX (BX_CONN_CHANNELS_MAX / 3)

/* ---- Errors over the wire -------------------------------------------------------------------- */

static char *line_of(const struct bx_msg *msg, uint16_t tag)
{
    _cleanup_free_ char *text = NULL;
    if (bx_msg_get_str(msg, tag, &text) < 0 || *text == '\0') {
        return NULL;
    }
    return bx_escape(text, strlen(text), ERROR_TEXT_MAX);
}

int bx_client_msg_error(const struct bx_msg *msg, boxlite_error **err)
{
    _cleanup_free_ char *text = line_of(msg, BX_T_ERROR), *hint = line_of(msg, BX_T_HINT);
    uint64_t code = 0, errnum = 0;

    if (bx_msg_get_u64(msg, BX_T_CODE_NEG, CODE_LAST, &code) < 0 || code == 0) {
        code = text ? (uint64_t)-BOXLITE_E_INTERNAL : 0;
    }
    if (code == 0) {
        return 0; /* no error in it */
    }
    (void)bx_msg_get_u64(msg, BX_T_ERRNO, 4095, &errnum);
    return bx_fail_copy(err, -(int)code, (int)errnum, text ? text : "the box failed", hint);
}

static void kick(struct bx_client *c)
{
    if (c->io) {
        bx_conn_io_kick(c->io);
    }
}

/* ---- Requests -------------------------------------------------------------------------------- */

int bx_request_begin(struct bx_client *c, struct bx_buf *msg, uint16_t type, boxlite_error **err)
{
    int r = bx_msg_begin(msg, type);
    if (r == 0) {
        r = bx_msg_u64(msg, BX_T_REQUEST, c->requests + 1);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "asking box %s", c->id) : 0;
}

int bx_request_send(struct bx_client *c, struct bx_buf *msg, bx_reply_fn fn, void *data,
                    uint64_t *ret_id, boxlite_error **err)
{
    struct bx_pending *p;
    int r;

    if (c->closed) {
        return bx_fail(err, BOXLITE_E_STATE, "box %s has stopped", c->id);
    }
    p = calloc(1, sizeof(*p));
    if (!p) {
        return bx_fail_oom(err);
    }
    r = bx_conn_msg(c->conn, msg);
    if (r < 0) {
        free(p);
        return r == -ENOBUFS
                   ? bx_fail(err, BOXLITE_E_BUSY, "box %s does not read its requests", c->id)
                   : bx_fail_errno(err, BOXLITE_E_IO, r, "asking box %s", c->id);
    }
    *p = (struct bx_pending){.id = ++c->requests, .fn = fn, .data = data, .next = c->pending};
    c->pending = p;
    if (ret_id) {
        *ret_id = p->id;
    }
    kick(c);
    return 0;
}

void bx_request_redirect(struct bx_client *c, uint64_t id, bx_reply_fn fn, void *data)
{
    for (struct bx_pending *p = c->pending; p && id; p = p->next) {
        if (p->id == id) {
            p->fn = fn;
            p->data = data;
            return;
        }
    }
}

void bx_request_forget(struct bx_client *c, uint64_t id)
{
    bx_request_redirect(c, id, NULL, NULL);
}

void bx_request_withdraw(struct bx_client *c, uint64_t id)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    bx_request_forget(c, id);
    if (id && bx_client_open(c) && bx_request_begin(c, &msg, BX_SH_CANCEL, NULL) == 0 &&
        bx_msg_u64(&msg, BX_T_WHICH, id) == 0) {
        (void)bx_request_send(c, &msg, NULL, NULL, NULL, NULL);
    }
}

void bx_request_tell(struct bx_client *c, uint16_t type, uint32_t exec, uint16_t tag,
                     uint64_t value)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    if (bx_request_begin(c, &msg, type, NULL) < 0 || bx_msg_u64(&msg, BX_T_EXEC, exec) < 0 ||
        (tag && bx_msg_u64(&msg, tag, value) < 0)) {
        return;
    }
    (void)bx_request_send(c, &msg, NULL, NULL, NULL, NULL);
}

static struct bx_pending *take_pending(struct bx_client *c, uint64_t id)
{
    for (struct bx_pending **p = &c->pending; *p; p = &(*p)->next) {
        if ((*p)->id == id) {
            struct bx_pending *found = *p;
            *p = found->next;
            return found;
        }
    }
    return NULL;
}

void bx_client_reply(struct bx_client *c, const struct bx_msg *msg)
{
    _cleanup_error_ boxlite_error *error = NULL;
    uint64_t id;

    if (bx_msg_get_u64(msg, BX_T_REQUEST, UINT64_MAX, &id) < 0) {
        return;
    }
    _cleanup_free_ struct bx_pending *p = take_pending(c, id);
    if (p && p->attachment) {
        c->slots[p->attachment - 1].used = false;
    }
    if (!p || !p->fn) {
        return;
    }
    if (msg->type == BX_SH_REPLY) {
        p->fn(p->data, msg, NULL);
        return;
    }
    if (bx_client_msg_error(msg, &error) == 0) {
        (void)bx_fail(&error, BOXLITE_E_INTERNAL, "box %s refused a request", c->id);
    }
    p->fn(p->data, NULL, error);
}

/* ---- Attachments ----------------------------------------------------------------------------- */

struct bx_attachment *bx_client_slot(struct bx_client *c, uint32_t channel)
{
    uint32_t n = BX_CHANNEL_NUMBER(channel);
    if (n == 0 || n > c->nslots || !c->slots[n - 1].ops) {
        return NULL;
    }
    return &c->slots[n - 1];
}

void bx_client_started(struct bx_client *c, const struct bx_msg *msg)
{
    uint64_t exec;
    if (bx_msg_get_u64(msg, BX_T_EXEC, BX_EXEC_MAX, &exec) < 0) {
        return;
    }
    for (size_t i = 0; i < c->nslots; i++) {
        if (c->slots[i].ops && c->slots[i].exec == exec) {
            c->slots[i].ops->started(c->slots[i].data);
        }
    }
}

void bx_client_fail_all(struct bx_client *c, const boxlite_error *error)
{
    struct bx_pending *list = steal_ptr(&c->pending);
    while (list) {
        _cleanup_free_ struct bx_pending *p = list;
        list = p->next;
        if (p->fn) {
            p->fn(p->data, NULL, error);
        }
    }
    for (size_t i = 0; i < c->nslots; i++) {
        if (c->slots[i].ops) {
            c->slots[i].ops->closed(c->slots[i].data);
        }
    }
}

/* The lowest free slot's index, or -errno. */
static int free_slot(struct bx_client *c)
{
    size_t n = c->nslots;
    for (size_t i = 0; i < n; i++) {
        if (!c->slots[i].used) {
            return (int)i;
        }
    }
    if (n >= ATTACHMENTS_MAX) {
        return -EMFILE;
    }
    size_t more = n ? 2 * n : 4;
    struct bx_attachment *slots = realloc(c->slots, more * sizeof(*slots));
    if (!slots) {
        return -ENOMEM;
    }
    memset(slots + n, 0, (more - n) * sizeof(*slots));
    c->slots = slots;
    c->nslots = more;
    return (int)n;
}

static void close_channels(struct bx_client *c, uint32_t attachment)
{
    for (unsigned stream = BX_STREAM_IN; stream <= BX_STREAM_ERR; stream++) {
        bx_conn_close(c->conn, BX_CHANNEL(attachment, stream));
    }
}

int bx_client_attach(struct bx_client *c, uint32_t exec, const struct bx_attach_ops *ops,
                     void *data, uint32_t *ret_attachment, boxlite_error **err)
{
    int slot = free_slot(c);
    int r = slot < 0 ? slot : 0;
    uint32_t attachment = (uint32_t)slot + 1;

    for (unsigned stream = BX_STREAM_IN; r == 0 && stream <= BX_STREAM_ERR; stream++) {
        r = bx_conn_open(c->conn, BX_CHANNEL(attachment, stream));
    }
    if (r == -EMFILE) {
        return bx_fail(err, BOXLITE_E_BUSY, "too many open commands in box %s", c->id);
    }
    if (r < 0) {
        if (slot >= 0) {
            close_channels(c, attachment);
        }
        return bx_fail_errno(err, BOXLITE_E_IO, r, "box %s: opening streams", c->id);
    }
    c->slots[slot] = (struct bx_attachment){.used = true, .exec = exec, .ops = ops, .data = data};
    *ret_attachment = attachment;
    return 0;
}

void bx_client_detach(struct bx_client *c, uint32_t attachment, bool told)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    uint64_t id;

    close_channels(c, attachment);
    c->slots[attachment - 1].ops = NULL;
    if (!told || c->closed) {
        c->slots[attachment - 1].used = false;
    } else if (bx_request_begin(c, &msg, BX_SH_DETACH, NULL) == 0 &&
               bx_msg_u64(&msg, BX_T_ATTACHMENT, attachment) == 0 &&
               bx_request_send(c, &msg, NULL, NULL, &id, NULL) == 0) {
        c->pending->attachment = attachment; /* the newest is first */
    }
}

ssize_t bx_client_write(struct bx_client *c, uint32_t attachment, const void *data, size_t len)
{
    ssize_t n = bx_conn_send(c->conn, BX_CHANNEL(attachment, BX_STREAM_IN), data, len);
    if (n > 0) {
        kick(c);
    }
    return n;
}

size_t bx_client_room(struct bx_client *c, uint32_t attachment)
{
    size_t room = bx_conn_room(c->conn, BX_CHANNEL(attachment, BX_STREAM_IN));
    if (room == 0) {
        bx_conn_want(c->conn, BX_CHANNEL(attachment, BX_STREAM_IN));
    }
    return room;
}

int bx_client_write_eof(struct bx_client *c, uint32_t attachment)
{
    int r = bx_conn_send_eof(c->conn, BX_CHANNEL(attachment, BX_STREAM_IN));
    kick(c);
    return r;
}

void bx_client_consumed(struct bx_client *c, uint32_t attachment, unsigned stream, size_t n)
{
    (void)bx_conn_consumed(c->conn, BX_CHANNEL(attachment, stream), n);
    kick(c);
}
