/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h: one end of a link: frames in and out of a byte stream, channels with credit.
 *
 * No I/O of its own: the user feeds what was read and writes out what is pending, so it runs over a
 * socket, a virtio port or a fuzzer's buffer alike (conn_io.h joins it to a loop). Invariants:
 *  - a sender never has more than the granted credit under way on a channel (window
 *    BX_WIRE_WINDOW at the start); a receiver that sees more ends the link with -EPROTO;
 *  - the receiver's credit is returned only by bx_conn_consumed(), when the bytes have found a home;
 *  - the queue of pending output has a bound; DATA is not accepted over it, small control frames are.
 *  - credit comes back only for what was sent: a grant that would lift it over the window ends the link;
 *  - after RESET a sender's bytes are swallowed, and its receiver sees only the EOF;
 *  - a channel exists from bx_conn_open() on both sides; DATA for a channel that is not open (it was
 *    closed a moment ago) is dropped silently; its memory is bounded by BX_CONN_CHANNELS_MAX.
 * Needs libc and base/buf only.
 */
#ifndef BX_WIRE_CONN_H
#define BX_WIRE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "wire/frame.h"
#include "wire/msg.h"

#define BX_CONN_CHANNELS_MAX 16384u
#define BX_CONN_OUT_SOFT (512u * 1024u) /* no more DATA is accepted over it */

struct bx_conn;

struct bx_conn_ops {
    /* The peer's HELLO was good. */
    void (*hello)(void *data);
    /* A message; payload borrowed during the call. Negative return ends the link with that error. */
    int (*msg)(void *data, const struct bx_msg *msg);
    /* Bytes of a stream, borrowed during the call. The receiver owes a bx_conn_consumed(). */
    void (*bytes)(void *data, uint32_t channel, const uint8_t *p, size_t len);
    void (*eof)(void *data, uint32_t channel);
    /* The channel has room again after bx_conn_send() took less than all, or was reset. */
    void (*writable)(void *data, uint32_t channel);
    /* The peer wants no more of the channel (RESET). May be NULL. */
    void (*reset)(void *data, uint32_t channel);
};

/* Queues this side's HELLO at once. peer: the role that is expected at the other end. */
int bx_conn_new(enum bx_wire_role self, enum bx_wire_role peer, const struct bx_conn_ops *ops,
                void *data, struct bx_conn **ret); /* 0 or -errno */
void bx_conn_free(struct bx_conn *c); /* allowed in a callback: takes effect when feed returns */

/* What came from the peer. 0, or the error that ended the link (-EPROTO …; sticky). -EPROTONOSUPPORT: the
 * peer speaks another version, see bx_conn_peer_version(). -ECANCELED: freed in a callback, c is gone.
 * Not to be called from a callback. */
int bx_conn_feed(struct bx_conn *c, const uint8_t *data, size_t len);
uint32_t bx_conn_peer_version(const struct bx_conn *c);
/* What is to be written; *len 0: nothing. Valid until the next call. After writing n bytes of it: */
const uint8_t *bx_conn_pending(struct bx_conn *c, size_t *len);
void bx_conn_written(struct bx_conn *c, size_t n);

/* Queues a message made with msg.h. 0, -ENOBUFS (peer does not read), -ENOMEM, or the sticky error. */
int bx_conn_msg(struct bx_conn *c, const struct bx_buf *msg);

int bx_conn_open(struct bx_conn *c, uint32_t channel);   /* 0, -EEXIST, -EMFILE, -ENOMEM */
void bx_conn_close(struct bx_conn *c, uint32_t channel); /* forgets it; no frame is sent */
bool bx_conn_is_open(const struct bx_conn *c, uint32_t channel);
/* Bytes that bx_conn_send() would take now. Who asks first and gets 0 orders a writable() by
 * bx_conn_want(). */
size_t bx_conn_room(const struct bx_conn *c, uint32_t channel);
void bx_conn_want(struct bx_conn *c, uint32_t channel);
/* Queues bytes: the number taken (may be 0: wait for writable()), or -errno: -ENOENT not open, -EPIPE
 * after its EOF, the sticky error. */
ssize_t bx_conn_send(struct bx_conn *c, uint32_t channel, const void *data, size_t len);
/* The same without a copy: room for at most BX_FRAME_DATA_MAX bytes, to be filled (read into) and
 * committed, or forgotten by any other call. NULL: none now; writable() comes, as for a send. */
void *bx_conn_reserve(struct bx_conn *c, uint32_t channel, size_t *len);
void bx_conn_commit(struct bx_conn *c, uint32_t channel, size_t n);
/* Takes its place behind what was sent. -EPIPE the second time. */
int bx_conn_send_eof(struct bx_conn *c, uint32_t channel);
/* The receiver has dealt with n bytes: credit goes back (batched until a quarter window). -EINVAL: more
 * than it received. */
int bx_conn_consumed(struct bx_conn *c, uint32_t channel, size_t n);
int bx_conn_send_reset(struct bx_conn *c, uint32_t channel);

#endif
