/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_wire_conn.c: any bytes from the peer, at the shim's end and at the agent's. The user behind
 * the link behaves in ways that the first byte of the input chooses: it consumes or not, sends, resets,
 * closes and reopens channels, or frees the conn in a callback. What must hold: never more received on a
 * channel than was granted, output within its bound, an error stays, a freed conn is not touched.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/conn.h"

#define CHANNELS 6u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    CONSUME = 1,
    SEND = 2,
    RESET = 4,
    CLOSE = 8,
    FREE = 16,
    ANSWER = 32,
    PIECES = 64,
    SHIM = 128
};

struct user {
    struct bx_conn *conn;
    unsigned how;
    uint64_t held[CHANNELS]; /* received and not consumed */
    bool open[CHANNELS];
    unsigned calls;
};

static void check(bool good)
{
    if (!good) {
        abort();
    }
}

static bool act(struct user *u, unsigned what, unsigned period)
{
    return (u->how & what) && ++u->calls % period == 0;
}

static int on_msg(void *data, const struct bx_msg *msg)
{
    struct user *u = data;
    struct bx_msg walk = *msg;
    struct bx_field f;
    while (bx_msg_next(&walk, &f) > 0) {
        check(f.len <= msg->left && f.data >= msg->p && f.data + f.len <= msg->p + msg->left);
    }
    if (u->how & ANSWER) {
        struct bx_buf b = BX_BUF_INIT(100);
        check(bx_msg_begin(&b, 1) == 0);
        int r = bx_conn_msg(u->conn, &b);
        check(r == 0 || r == -ENOBUFS);
        bx_buf_done(&b);
    }
    return 0;
}

static void on_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    static volatile uint8_t sink;
    struct user *u = data;
    check(channel < CHANNELS && u->open[channel] && len > 0);
    for (size_t i = 0; i < len; i++) {
        sink = p[i]; /* a sanitizer sees whether they are there */
    }
    (void)sink;
    u->held[channel] += len;
    check(u->held[channel] <= BX_WIRE_WINDOW);
    if (u->how & CONSUME) {
        check(bx_conn_consumed(u->conn, channel, len) <= 0);
        u->held[channel] -= len;
    }
    if (act(u, RESET, 3)) {
        (void)bx_conn_send_reset(u->conn, channel);
    }
    if (act(u, CLOSE, 5)) {
        bx_conn_close(u->conn, channel);
        u->held[channel] = 0;
        check(bx_conn_open(u->conn, channel) == 0);
    }
    if (act(u, FREE, 7)) {
        bx_conn_free(u->conn);
        u->conn = NULL;
    }
}

static void on_eof(void *data, uint32_t channel)
{
    struct user *u = data;
    check(u->open[channel]);
    if (act(u, CLOSE, 2)) {
        bx_conn_close(u->conn, channel);
        u->open[channel] = false;
    }
}

static void on_writable(void *data, uint32_t channel)
{
    static const uint8_t bytes[5000];
    struct user *u = data;
    if (act(u, SEND, 1) && bx_conn_is_open(u->conn, channel)) {
        check(bx_conn_send(u->conn, channel, bytes, sizeof(bytes)) <= (ssize_t)sizeof(bytes));
    }
}

static void on_reset(void *data, uint32_t channel)
{
    struct user *u = data;
    if (act(u, FREE, 2)) {
        bx_conn_free(u->conn);
        u->conn = NULL;
    }
}

static const struct bx_conn_ops ops = {
    .msg = on_msg, .bytes = on_bytes, .eof = on_eof, .writable = on_writable, .reset = on_reset};

static void start(struct user *u)
{
    static const uint8_t bytes[70000];
    enum bx_wire_role self = u->how & SHIM ? BX_ROLE_SHIM : BX_ROLE_AGENT;
    enum bx_wire_role peer = u->how & SHIM ? BX_ROLE_AGENT : BX_ROLE_SHIM;
    if (bx_conn_new(self, peer, &ops, u, &u->conn) < 0) {
        abort();
    }
    for (uint32_t ch = 1; ch < CHANNELS; ch++) {
        check(bx_conn_open(u->conn, ch) == 0);
        u->open[ch] = true;
        if (u->how & SEND) {
            (void)bx_conn_send(u->conn, ch, bytes, sizeof(bytes));
        }
    }
}

static void finish(struct user *u, int error)
{
    size_t len;
    (void)bx_conn_pending(u->conn, &len);
    check(len <= BX_CONN_OUT_SOFT + 4u * BX_FRAME_MSG_MAX);
    if (error < 0) {
        check(bx_conn_feed(u->conn, (const uint8_t *)"x", 1) == error);
    }
    while (u->conn && len > 0) {
        bx_conn_written(u->conn, len < 3000 ? len : 3000);
        if (u->conn) {
            (void)bx_conn_pending(u->conn, &len);
        }
        u->how &= ~(unsigned)SEND; /* or it would never end */
    }
    bx_conn_free(u->conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct user u = {.how = size ? data[0] : 0};
    int r = 0;
    size_t piece = u.how & PIECES ? 5 : SIZE_MAX;
    start(&u);
    for (size_t at = 1; r == 0 && at < size;) {
        size_t n = size - at < piece ? size - at : piece;
        r = bx_conn_feed(u.conn, data + at, n);
        check(r <= 0 && (r == -ECANCELED) == !u.conn);
        at += n;
        piece = piece < SIZE_MAX ? piece % 31 + 1 : piece;
    }
    if (u.conn) {
        finish(&u, r);
    }
    return 0;
}
