/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_io.c: a link over a socket pair and a loop.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "harness.h"
#include "wire/conn_io.h"

#define CH 6u

struct end {
    struct bx_conn *conn;
    struct bx_conn_io *io;
    uint64_t to_send, received;
    unsigned eofs, msgs;
    bool closed;
    int error;
    bool free_on_msg;
    bool free_on_close;
};

static void pump(struct end *e)
{
    static const uint8_t data[65536];
    while (e->to_send > 0) {
        size_t n = e->to_send < sizeof(data) ? (size_t)e->to_send : sizeof(data);
        ssize_t taken = bx_conn_send(e->conn, CH, data, n);
        ASSERT_GE(taken, 0);
        if (taken == 0) {
            return;
        }
        e->to_send -= (uint64_t)taken;
    }
    ASSERT_EQ(bx_conn_send_eof(e->conn, CH), 0);
}

static void release(struct end *e)
{
    bx_conn_io_free(e->io);
    bx_conn_free(e->conn);
    e->io = NULL;
    e->conn = NULL;
}

static int on_msg(void *data, const struct bx_msg *msg)
{
    struct end *e = data;
    e->msgs++;
    if (e->free_on_msg) {
        release(e);
    }
    return 0;
}

static void on_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    struct end *e = data;
    e->received += len;
    ASSERT_EQ(bx_conn_consumed(e->conn, channel, len), 0);
}

static void on_eof(void *data, uint32_t channel)
{
    ((struct end *)data)->eofs++;
}

static void on_writable(void *data, uint32_t channel)
{
    pump(data);
}

static void on_closed(void *data, int error)
{
    struct end *e = data;
    ASSERT(!e->closed);
    e->closed = true;
    e->error = error;
    if (e->free_on_close) {
        release(e);
    }
}

static const struct bx_conn_ops ops = {
    .msg = on_msg, .bytes = on_bytes, .eof = on_eof, .writable = on_writable};

static void open_end(struct bx_loop *loop, struct end *e, int fd, enum bx_wire_role self,
                     enum bx_wire_role peer)
{
    *e = (struct end){0};
    ASSERT_EQ(bx_conn_new(self, peer, &ops, e, &e->conn), 0);
    ASSERT_EQ(bx_conn_open(e->conn, CH), 0);
    ASSERT_EQ(bx_conn_io_new(loop, fd, e->conn, on_closed, e, &e->io), 0);
}

static void open_both(struct bx_loop *loop, struct end *a, struct end *b)
{
    int fds[2];
    ASSERT_EQ(bx_socketpair(SOCK_STREAM, fds), 0);
    open_end(loop, a, fds[0], BX_ROLE_CLIENT, BX_ROLE_SHIM);
    open_end(loop, b, fds[1], BX_ROLE_SHIM, BX_ROLE_CLIENT);
}

#define UNTIL(loop, cond)                                                                          \
    do {                                                                                           \
        while (!(cond)) {                                                                          \
            ASSERT_GT(bx_loop_dispatch(loop, 10000), 0);                                           \
        }                                                                                          \
    } while (0)

static void send_msg(struct end *e, uint16_t type)
{
    _cleanup_buf_ struct bx_buf m = BX_BUF_INIT(100);
    ASSERT_EQ(bx_msg_begin(&m, type), 0);
    ASSERT_EQ(bx_conn_msg(e->conn, &m), 0);
    bx_conn_io_kick(e->io);
}

TEST(much_flows_both_ways_at_once)
{
    _cleanup_loop_ struct bx_loop *loop = NULL;
    struct end a, b;
    ASSERT_EQ(bx_loop_new(&loop), 0);
    open_both(loop, &a, &b);
    a.to_send = 20u << 20;
    b.to_send = 10u << 20;
    pump(&a);
    pump(&b);
    UNTIL(loop, a.eofs && b.eofs);
    ASSERT_EQ(b.received, 20u << 20);
    ASSERT_EQ(a.received, 10u << 20);
    release(&a);
    UNTIL(loop, b.closed);
    ASSERT_EQ(b.error, 0);
    release(&b);
}

TEST(the_last_words_of_a_peer_are_heard_after_it_closed)
{
    _cleanup_loop_ struct bx_loop *loop = NULL;
    struct end a, b;
    ASSERT_EQ(bx_loop_new(&loop), 0);
    open_both(loop, &a, &b);
    UNTIL(loop, bx_conn_peer_version(a.conn) && bx_conn_peer_version(b.conn));
    send_msg(&a, 7);
    ASSERT_EQ(bx_conn_io_flush(a.io, bx_deadline_ms(5000)), 0);
    release(&a);
    send_msg(&b, 8); /* fails to be written, before the message is read */
    UNTIL(loop, b.closed);
    ASSERT_EQ(b.msgs, 1);
    ASSERT_EQ(b.error, 0);
    release(&b);
}

TEST(both_may_be_freed_in_any_callback)
{
    _cleanup_loop_ struct bx_loop *loop = NULL;
    struct end a, b;
    ASSERT_EQ(bx_loop_new(&loop), 0);
    open_both(loop, &a, &b);
    b.free_on_msg = true;
    a.free_on_close = true;
    send_msg(&a, 1);
    send_msg(&a, 2);
    UNTIL(loop, a.closed);
    ASSERT_EQ(b.msgs, 1);
    ASSERT(!b.closed);
    ASSERT_NULL(a.conn);
}

TEST(garbage_ends_the_link_with_an_error)
{
    _cleanup_loop_ struct bx_loop *loop = NULL;
    _cleanup_close_ int raw = -1;
    int fds[2];
    struct end a;
    ASSERT_EQ(bx_loop_new(&loop), 0);
    ASSERT_EQ(bx_socketpair(SOCK_STREAM, fds), 0);
    raw = fds[1];
    open_end(loop, &a, fds[0], BX_ROLE_CLIENT, BX_ROLE_SHIM);
    ASSERT_EQ(send(raw, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    UNTIL(loop, a.closed);
    ASSERT_EQ(a.error, -EPROTO);
    release(&a);
}

TEST(a_paused_link_reads_nothing_and_then_goes_on)
{
    _cleanup_loop_ struct bx_loop *loop = NULL;
    struct end a, b;
    ASSERT_EQ(bx_loop_new(&loop), 0);
    open_both(loop, &a, &b);
    bx_conn_io_pause(b.io, true);
    send_msg(&a, 1);
    ASSERT_EQ(bx_conn_io_flush(a.io, bx_deadline_ms(5000)), 0);
    release(&a); /* a hang-up does not make the loop spin either */
    while (bx_loop_dispatch(loop, 0) > 0) {
    }
    ASSERT_EQ(b.msgs, 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 20), 0);
    bx_conn_io_pause(b.io, false);
    UNTIL(loop, b.closed);
    ASSERT_EQ(b.msgs, 1);
    release(&b);
}

TEST(a_flush_gives_up_at_its_deadline)
{
    _cleanup_loop_ struct bx_loop *loop = NULL;
    _cleanup_buf_ struct bx_buf m = BX_BUF_INIT(BX_FRAME_MSG_MAX);
    _cleanup_close_ int raw = -1;
    int fds[2];
    struct end a;
    ASSERT_EQ(bx_loop_new(&loop), 0);
    ASSERT_EQ(bx_socketpair(SOCK_STREAM, fds), 0);
    raw = fds[1];
    open_end(loop, &a, fds[0], BX_ROLE_CLIENT, BX_ROLE_SHIM);
    ASSERT_EQ(bx_msg_begin(&m, 1), 0);
    ASSERT_NOT_NULL(bx_buf_reserve(&m, 3 << 20));
    memset(bx_buf_data(&m) + m.len, 0, 3 << 20);
    bx_buf_commit(&m, 3 << 20);
    ASSERT_EQ(bx_conn_msg(a.conn, &m), 0);
    ASSERT_EQ(bx_conn_io_flush(a.io, bx_deadline_ms(20)), -ETIMEDOUT);
    release(&a);
}
