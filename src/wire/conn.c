/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c: one end of a link. See conn.h for the contract.
 *
 * Receiving: the bytes of a DATA frame go to the user straight from what was fed, in as many pieces as
 * they come in; only the small frames and messages that arrive in parts are put together in `in`. All
 * checks of a DATA frame (credit, end of stream) are made on its header, before its first byte is shown.
 * Sending: every frame is appended to `out`, one contiguous queue in order.
 *
 * A callback may do anything to the conn, freeing included: `depth` counts the calls under way, a free
 * inside one is put off until the outermost returns, and after each callback `stopped()` is asked before
 * anything else is touched. A channel is looked up again for every piece, never kept across a callback.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/channel.h"
#include "wire/conn.h"

#define CREDIT_BATCH (BX_WIRE_WINDOW / 4)
/* Messages and control frames may go over the soft bound, up to here: more means that the peer has
 * stopped reading for good. */
#define OUT_HARD (BX_CONN_OUT_SOFT + 4u * BX_FRAME_MSG_MAX)
/* An assembled message that was bigger than this does not stay in memory. */
#define IN_KEEP (64u * 1024u)
/* Nor does an output queue that was bigger than DATA alone makes it. */
#define OUT_KEEP (2u * (BX_CONN_OUT_SOFT + BX_FRAME_DATA_MAX))

struct bx_conn {
    enum bx_wire_role peer;
    struct bx_conn_ops ops;
    void *data;
    int error; /* sticky */
    unsigned depth;
    bool freed;
    bool greeted; /* the peer's HELLO was good */
    uint32_t peer_version;

    uint8_t head[BX_FRAME_HEADER];
    size_t nhead;
    struct bx_frame frame; /* valid when nhead == BX_FRAME_HEADER */
    size_t left;           /* of its payload */
    bool drop;             /* the rest of this DATA frame goes nowhere */
    struct bx_buf in;

    struct bx_buf out;
    struct bx_channels channels;
    struct bx_channel_queue starved;
};

static void destroy(struct bx_conn *c)
{
    bx_channels_done(&c->channels);
    bx_buf_done(&c->in);
    bx_buf_done(&c->out);
    free(c);
}

/* Leaves the outermost call: the last chance of a conn that was freed inside. */
static int leave(struct bx_conn *c)
{
    int r = c->freed ? -ECANCELED : c->error;
    if (--c->depth == 0 && c->freed) {
        destroy(c);
    }
    return r;
}

static bool stopped(const struct bx_conn *c)
{
    return c->freed || c->error < 0;
}

static int fail(struct bx_conn *c, int error)
{
    if (c->error == 0) {
        c->error = error;
    }
    return c->error;
}

/* ---- output -------------------------------------------------------------------------------- */

/* Queues a frame, all of it or nothing. */
static int put_frame(struct bx_conn *c, uint8_t type, uint32_t channel, const void *payload,
                     size_t len)
{
    if (c->error < 0) {
        return c->error;
    }
    struct bx_frame f = {.length = (uint32_t)len, .channel = channel, .type = type};
    uint8_t *p = bx_buf_reserve(&c->out, BX_FRAME_HEADER + len);
    if (!p) {
        return -errno;
    }
    bx_frame_encode(&f, p);
    if (len > 0) {
        memcpy(p + BX_FRAME_HEADER, payload, len);
    }
    bx_buf_commit(&c->out, BX_FRAME_HEADER + len);
    return 0;
}

static int put_hello(struct bx_conn *c, enum bx_wire_role self)
{
    uint8_t hello[12];
    bx_put_le32(hello, BX_WIRE_MAGIC);
    bx_put_le32(hello + 4, BX_WIRE_VERSION);
    bx_put_le32(hello + 8, self);
    return put_frame(c, BX_FRAME_HELLO, 0, hello, sizeof(hello));
}

static size_t out_room(const struct bx_conn *c)
{
    size_t taken = c->out.len + BX_FRAME_HEADER;
    return taken < BX_CONN_OUT_SOFT ? BX_CONN_OUT_SOFT - taken : 0;
}

/* ---- input: one function per type of frame, run when its payload is whole (but DATA) ---------- */

static int on_hello(struct bx_conn *c, const uint8_t *p)
{
    uint32_t version = bx_get_le32(p + 4);
    if (bx_get_le32(p) != BX_WIRE_MAGIC || c->greeted) {
        return -EPROTO;
    }
    c->peer_version = version;
    if (version != BX_WIRE_VERSION) {
        return -EPROTONOSUPPORT;
    }
    if (bx_get_le32(p + 8) != (uint32_t)c->peer) {
        return -EPROTO;
    }
    c->greeted = true;
    if (c->ops.hello) {
        c->ops.hello(c->data);
    }
    return 0;
}

static int on_msg(struct bx_conn *c, const uint8_t *p)
{
    struct bx_msg msg;
    int r = bx_msg_parse(p, c->frame.length, &msg);
    return r < 0 ? r : c->ops.msg(c->data, &msg);
}

static int on_eof(struct bx_conn *c, const uint8_t *p)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, c->frame.channel);
    if (!ch) {
        return 0;
    }
    if (ch->eof_seen) {
        return -EPROTO;
    }
    ch->eof_seen = true;
    if (c->ops.eof) {
        c->ops.eof(c->data, c->frame.channel);
    }
    return 0;
}

static int on_credit(struct bx_conn *c, const uint8_t *p)
{
    uint32_t n = bx_get_le32(p);
    struct bx_channel *ch = bx_channels_find(&c->channels, c->frame.channel);
    if (!ch) {
        return 0;
    }
    /* Credit only comes back for what was sent: never more than the window. */
    if (n == 0 || n > BX_WIRE_WINDOW - ch->send_credit) {
        return -EPROTO;
    }
    ch->send_credit += n;
    if (ch->short_credit && !ch->starved) {
        ch->short_credit = false;
        if (c->ops.writable) {
            c->ops.writable(c->data, c->frame.channel);
        }
    }
    return 0;
}

static int on_reset(struct bx_conn *c, const uint8_t *p)
{
    uint32_t id = c->frame.channel;
    struct bx_channel *ch = bx_channels_find(&c->channels, id);
    if (!ch || ch->reset_seen) {
        return 0;
    }
    bool waiting = ch->starved || ch->short_credit;
    bx_channel_dequeue(&c->starved, ch);
    ch->short_credit = false;
    ch->reset_seen = true;
    if (c->ops.reset) {
        c->ops.reset(c->data, id);
    }
    if (waiting && !stopped(c) && bx_channels_find(&c->channels, id) && c->ops.writable) {
        c->ops.writable(c->data, id);
    }
    return 0;
}

typedef int (*frame_fn)(struct bx_conn *c, const uint8_t *payload);

static const frame_fn frame_fns[] = {
    [BX_FRAME_HELLO] = on_hello,   [BX_FRAME_MSG] = on_msg,     [BX_FRAME_EOF] = on_eof,
    [BX_FRAME_CREDIT] = on_credit, [BX_FRAME_RESET] = on_reset,
};

/* The header of a DATA frame: may the peer send this? */
static int begin_data(struct bx_conn *c)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, c->frame.channel);
    c->drop = !ch || ch->reset_sent;
    if (!ch) {
        return 0;
    }
    if (ch->eof_seen) {
        return -EPROTO;
    }
    if (c->drop) {
        return 0;
    }
    if (c->frame.length > ch->recv_credit) {
        return -EPROTO;
    }
    ch->recv_credit -= c->frame.length;
    ch->unconsumed += c->frame.length;
    return 0;
}

static int begin_frame(struct bx_conn *c)
{
    int r = bx_frame_decode(c->head, &c->frame);
    if (r < 0) {
        return r;
    }
    if (!c->greeted && c->frame.type != BX_FRAME_HELLO) {
        return -EPROTO;
    }
    c->left = c->frame.length;
    return c->frame.type == BX_FRAME_DATA ? begin_data(c) : 0;
}

/* Empties a buffer; its memory stays unless it is unusually much. */
static void empty(struct bx_buf *b, size_t keep)
{
    if (b->cap > keep) {
        bx_buf_done(b); /* max stays */
    } else {
        bx_buf_clear(b);
    }
}

static void end_frame(struct bx_conn *c)
{
    c->nhead = 0;
    empty(&c->in, IN_KEEP);
}

static size_t feed_header(struct bx_conn *c, const uint8_t *p, size_t len)
{
    size_t n = BX_FRAME_HEADER - c->nhead;
    n = n < len ? n : len;
    memcpy(c->head + c->nhead, p, n);
    c->nhead += n;
    if (c->nhead == BX_FRAME_HEADER) {
        int r = begin_frame(c);
        if (r < 0) {
            fail(c, r);
        }
    }
    return n;
}

static size_t feed_data(struct bx_conn *c, const uint8_t *p, size_t len)
{
    size_t n = c->left < len ? c->left : len;
    c->left -= n;
    if (n > 0 && !c->drop) {
        c->ops.bytes(c->data, c->frame.channel, p, n);
    }
    return n;
}

/* A frame that is handled as a whole: from the fed bytes if it is all there, else by way of `in`. */
static size_t feed_whole(struct bx_conn *c, const uint8_t *p, size_t len)
{
    size_t n = c->left < len ? c->left : len;
    if (c->in.len > 0 || n < c->left) {
        int r = bx_buf_append(&c->in, p, n);
        if (r < 0) {
            fail(c, r);
            return n;
        }
        p = bx_buf_data(&c->in);
    }
    c->left -= n;
    if (c->left == 0) {
        int r = frame_fns[c->frame.type](c, p);
        if (r < 0 && !c->freed) {
            fail(c, r);
        }
    }
    return n;
}

/* ---- the interface ---------------------------------------------------------------------------- */

int bx_conn_new(enum bx_wire_role self, enum bx_wire_role peer, const struct bx_conn_ops *ops,
                void *data, struct bx_conn **ret)
{
    struct bx_conn *c = calloc(1, sizeof(*c));
    if (!c) {
        return -ENOMEM;
    }
    c->peer = peer;
    c->ops = *ops;
    c->data = data;
    c->in = (struct bx_buf)BX_BUF_INIT(BX_FRAME_MSG_MAX);
    c->out = (struct bx_buf)BX_BUF_INIT(OUT_HARD);
    int r = put_hello(c, self);
    if (r < 0) {
        destroy(c);
        return r;
    }
    *ret = c;
    return 0;
}

void bx_conn_free(struct bx_conn *c)
{
    if (!c) {
        return;
    }
    c->freed = true;
    if (c->depth == 0) {
        destroy(c);
    }
}

int bx_conn_feed(struct bx_conn *c, const uint8_t *data, size_t len)
{
    c->depth++;
    while (!stopped(c) && len > 0) {
        size_t n = 0;
        if (c->nhead < BX_FRAME_HEADER) {
            n = feed_header(c, data, len);
            data += n;
            len -= n;
        }
        /* Not `else`: a frame without payload is complete with its header. */
        if (!stopped(c) && c->nhead == BX_FRAME_HEADER) {
            n = c->frame.type == BX_FRAME_DATA ? feed_data(c, data, len) : feed_whole(c, data, len);
            data += n;
            len -= n;
            if (!c->freed && c->left == 0) {
                end_frame(c);
            }
        }
    }
    return leave(c);
}

uint32_t bx_conn_peer_version(const struct bx_conn *c)
{
    return c->peer_version;
}

const uint8_t *bx_conn_pending(struct bx_conn *c, size_t *len)
{
    *len = c->out.len;
    return bx_buf_data(&c->out);
}

void bx_conn_written(struct bx_conn *c, size_t n)
{
    if (n < c->out.len) {
        bx_buf_consume(&c->out, n);
    } else {
        empty(&c->out, OUT_KEEP);
    }
    if (c->out.len > BX_CONN_OUT_SOFT / 2 || !c->starved.first) {
        return;
    }
    /* Those who wait now get one turn each; who starves again waits for the next drain. */
    struct bx_channel *last = c->starved.last;
    uint32_t last_id = last->id;
    c->depth++;
    while (!stopped(c) && c->starved.first && out_room(c) > 0) {
        struct bx_channel *ch = c->starved.first;
        uint32_t id = ch->id;
        bx_channel_dequeue(&c->starved, ch);
        if (ch->send_credit == 0 && !ch->reset_seen) {
            ch->short_credit = true;
        } else if (c->ops.writable) {
            c->ops.writable(c->data, id);
        }
        if (id == last_id) {
            break;
        }
    }
    leave(c);
}

int bx_conn_msg(struct bx_conn *c, const struct bx_buf *msg)
{
    if (msg->len < 2 || msg->len > BX_FRAME_MSG_MAX) {
        return -EMSGSIZE;
    }
    return put_frame(c, BX_FRAME_MSG, 0, bx_buf_data(msg), msg->len);
}

int bx_conn_open(struct bx_conn *c, uint32_t channel)
{
    struct bx_channel *ch;
    return channel == 0 ? -EINVAL : bx_channels_add(&c->channels, channel, &ch);
}

void bx_conn_close(struct bx_conn *c, uint32_t channel)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, channel);
    if (!ch) {
        return;
    }
    bx_channel_dequeue(&c->starved, ch);
    bx_channels_remove(&c->channels, ch);
    /* The rest of a frame under way must not reach a new channel of the same number. */
    if (c->nhead == BX_FRAME_HEADER && c->frame.channel == channel) {
        c->drop = true;
    }
}

bool bx_conn_is_open(const struct bx_conn *c, uint32_t channel)
{
    return bx_channels_find(&c->channels, channel) != NULL;
}

static size_t room_of(const struct bx_conn *c, const struct bx_channel *ch)
{
    if (!ch || ch->eof_sent || c->error < 0) {
        return 0;
    }
    if (ch->reset_seen) {
        return BX_WIRE_WINDOW;
    }
    size_t room = out_room(c);
    return room < ch->send_credit ? room : ch->send_credit;
}

size_t bx_conn_room(const struct bx_conn *c, uint32_t channel)
{
    return room_of(c, bx_channels_find(&c->channels, channel));
}

/* Waits for what is missing: credit, or else room in the queue. */
static void wait_writable(struct bx_conn *c, struct bx_channel *ch)
{
    if (ch->send_credit == 0) {
        ch->short_credit = true;
    } else {
        bx_channel_enqueue(&c->starved, ch);
    }
}

void bx_conn_want(struct bx_conn *c, uint32_t channel)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, channel);
    if (ch && !ch->eof_sent && !ch->reset_seen) {
        wait_writable(c, ch);
    }
}

/* Room for the payload of one DATA frame of at most max bytes. */
static uint8_t *reserve(struct bx_conn *c, struct bx_channel *ch, size_t max, size_t *len)
{
    size_t room = room_of(c, ch);
    room = room < max ? room : max;
    *len = room < BX_FRAME_DATA_MAX ? room : BX_FRAME_DATA_MAX;
    uint8_t *p = room > 0 ? bx_buf_reserve(&c->out, BX_FRAME_HEADER + *len) : NULL;
    if (!p && ch && !ch->eof_sent) {
        wait_writable(c, ch); /* memory may be there again when the queue has been written */
    }
    return p ? p + BX_FRAME_HEADER : NULL;
}

void *bx_conn_reserve(struct bx_conn *c, uint32_t channel, size_t *len)
{
    return reserve(c, bx_channels_find(&c->channels, channel), BX_FRAME_DATA_MAX, len);
}

static void commit(struct bx_conn *c, struct bx_channel *ch, size_t n)
{
    struct bx_frame f = {.length = (uint32_t)n, .channel = ch->id, .type = BX_FRAME_DATA};
    bx_frame_encode(&f, bx_buf_data(&c->out) + c->out.len);
    bx_buf_commit(&c->out, BX_FRAME_HEADER + n);
    ch->send_credit -= (uint32_t)n;
}

void bx_conn_commit(struct bx_conn *c, uint32_t channel, size_t n)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, channel);
    if (ch && n > 0 && !ch->reset_seen) { /* what is not committed was never queued */
        commit(c, ch, n);
    }
}

ssize_t bx_conn_send(struct bx_conn *c, uint32_t channel, const void *data, size_t len)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, channel);
    if (c->error < 0 || !ch || ch->eof_sent) {
        return c->error < 0 ? c->error : !ch ? -ENOENT : -EPIPE;
    }
    size_t sent = ch->reset_seen ? len : 0;
    while (sent < len) {
        size_t n;
        uint8_t *p = reserve(c, ch, len - sent, &n);
        if (!p) {
            break;
        }
        memcpy(p, (const uint8_t *)data + sent, n);
        commit(c, ch, n);
        sent += n;
    }
    return (ssize_t)sent;
}

int bx_conn_send_eof(struct bx_conn *c, uint32_t channel)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, channel);
    if (!ch || ch->eof_sent) {
        return !ch ? -ENOENT : -EPIPE;
    }
    int r = put_frame(c, BX_FRAME_EOF, channel, NULL, 0);
    if (r == 0) {
        ch->eof_sent = true;
        bx_channel_dequeue(&c->starved, ch);
        ch->short_credit = false;
    }
    return r;
}

int bx_conn_consumed(struct bx_conn *c, uint32_t channel, size_t n)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, channel);
    if (!ch) {
        return -ENOENT;
    }
    if (n > ch->unconsumed) {
        return -EINVAL;
    }
    ch->unconsumed -= (uint32_t)n;
    ch->owed += (uint32_t)n;
    if (ch->owed < CREDIT_BATCH || ch->eof_seen || ch->reset_sent) {
        return 0;
    }
    uint8_t credit[4];
    bx_put_le32(credit, ch->owed);
    int r = put_frame(c, BX_FRAME_CREDIT, channel, credit, sizeof(credit));
    if (r < 0) {
        return r == -ENOBUFS ? fail(c, r) : r; /* the peer sends for ever and reads nothing */
    }
    ch->recv_credit += ch->owed;
    ch->owed = 0;
    return 0;
}

int bx_conn_send_reset(struct bx_conn *c, uint32_t channel)
{
    struct bx_channel *ch = bx_channels_find(&c->channels, channel);
    if (!ch) {
        return -ENOENT;
    }
    if (ch->reset_sent || ch->eof_seen) {
        return 0;
    }
    int r = put_frame(c, BX_FRAME_RESET, channel, NULL, 0);
    if (r == 0) {
        ch->reset_sent = true;
        if (c->nhead == BX_FRAME_HEADER && c->frame.channel == channel) {
            c->drop = true;
        }
    }
    return r;
}
