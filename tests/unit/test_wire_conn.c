/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_conn.c: the two ends of a link, joined by hand: handshake, streams, credit, bounds, misuse.
 */
#include <errno.h>
#include <stdlib.h>

#include "harness.h"
#include "wire/conn.h"

#define CH 5u

/* One end, and what its callbacks saw. */
struct peer {
    struct bx_conn *conn;
    bool hello;
    unsigned msgs, eofs, writables, resets;
    uint16_t last_msg;
    uint64_t received;
    uint32_t sum; /* of the received bytes, order matters */
    bool consume; /* at once */
    bool close_on_bytes;
    bool free_on_bytes;
    bool free_on_writable;
    int msg_result;
};

static uint32_t mix(uint32_t sum, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        sum = sum * 31 + p[i];
    }
    return sum;
}

static void on_hello(void *data)
{
    ((struct peer *)data)->hello = true;
}

static int on_msg(void *data, const struct bx_msg *msg)
{
    struct peer *p = data;
    p->msgs++;
    p->last_msg = msg->type;
    return p->msg_result;
}

static void on_bytes(void *data, uint32_t channel, const uint8_t *bytes, size_t len)
{
    struct peer *p = data;
    p->received += len;
    p->sum = mix(p->sum, bytes, len);
    if (p->close_on_bytes) {
        bx_conn_close(p->conn, channel);
    } else if (p->free_on_bytes) {
        bx_conn_free(p->conn);
        p->conn = NULL;
    } else if (p->consume) {
        ASSERT_EQ(bx_conn_consumed(p->conn, channel, len), 0);
    }
}

static void on_eof(void *data, uint32_t channel)
{
    ((struct peer *)data)->eofs++;
}

static void on_writable(void *data, uint32_t channel)
{
    struct peer *p = data;
    p->writables++;
    if (p->free_on_writable) {
        bx_conn_free(p->conn);
        p->conn = NULL;
    }
}

static void on_reset(void *data, uint32_t channel)
{
    ((struct peer *)data)->resets++;
}

static const struct bx_conn_ops ops = {on_hello, on_msg, on_bytes, on_eof, on_writable, on_reset};

static void open_peer(struct peer *p, enum bx_wire_role self, enum bx_wire_role other)
{
    *p = (struct peer){.consume = true};
    ASSERT_EQ(bx_conn_new(self, other, &ops, p, &p->conn), 0);
}

/* Gives what `from` has pending to `to`, in pieces. */
static int pass(struct peer *from, struct peer *to, size_t piece)
{
    size_t len;
    const uint8_t *data;
    while (from->conn && (data = bx_conn_pending(from->conn, &len), len > 0)) {
        len = len < piece ? len : piece;
        /* Exactly as long as it is, so that a read beyond is seen. */
        uint8_t *exact = malloc(len);
        memcpy(exact, data, len);
        int r = bx_conn_feed(to->conn, exact, len);
        free(exact);
        if (r < 0) {
            return r;
        }
        bx_conn_written(from->conn, len);
    }
    return 0;
}

static int settle(struct peer *a, struct peer *b)
{
    size_t la, lb;
    int r = 0;
    do {
        r = pass(a, b, SIZE_MAX);
        r = r < 0 ? r : pass(b, a, SIZE_MAX);
        (void)bx_conn_pending(a->conn, &la);
        (void)bx_conn_pending(b->conn, &lb);
    } while (r == 0 && la + lb > 0);
    return r;
}

static void open_pair(struct peer *a, struct peer *b)
{
    open_peer(a, BX_ROLE_SHIM, BX_ROLE_AGENT);
    open_peer(b, BX_ROLE_AGENT, BX_ROLE_SHIM);
    ASSERT_EQ(settle(a, b), 0);
    ASSERT(a->hello && b->hello);
    ASSERT_EQ(bx_conn_open(a->conn, CH), 0);
    ASSERT_EQ(bx_conn_open(b->conn, CH), 0);
}

static void close_pair(struct peer *a, struct peer *b)
{
    bx_conn_free(a->conn);
    bx_conn_free(b->conn);
}

static int feed_frame(struct peer *p, uint8_t type, uint32_t channel, const void *data,
                      uint32_t len)
{
    struct bx_frame f = {.length = len, .channel = channel, .type = type};
    uint8_t head[BX_FRAME_HEADER];
    bx_frame_encode(&f, head);
    int r = bx_conn_feed(p->conn, head, sizeof(head));
    return r < 0 || len == 0 ? r : bx_conn_feed(p->conn, data, len);
}

static int feed_hello(struct peer *p, uint32_t magic, uint32_t version, uint32_t role)
{
    uint8_t hello[12];
    bx_put_le32(hello, magic);
    bx_put_le32(hello + 4, version);
    bx_put_le32(hello + 8, role);
    return feed_frame(p, BX_FRAME_HELLO, 0, hello, sizeof(hello));
}

static int feed_u32(struct peer *p, uint8_t type, uint32_t channel, uint32_t v)
{
    uint8_t b[4];
    bx_put_le32(b, v);
    return feed_frame(p, type, channel, b, sizeof(b));
}

static void open_greeted(struct peer *p)
{
    open_peer(p, BX_ROLE_SHIM, BX_ROLE_AGENT);
    ASSERT_EQ(feed_hello(p, BX_WIRE_MAGIC, BX_WIRE_VERSION, BX_ROLE_AGENT), 0);
    ASSERT_EQ(bx_conn_open(p->conn, CH), 0);
}

/* ---- handshake ------------------------------------------------------------------------------- */

TEST(another_version_ends_the_link_and_is_told)
{
    struct peer p;
    open_peer(&p, BX_ROLE_SHIM, BX_ROLE_AGENT);
    ASSERT_EQ(feed_hello(&p, BX_WIRE_MAGIC, 77, BX_ROLE_AGENT), -EPROTONOSUPPORT);
    ASSERT_EQ(bx_conn_peer_version(p.conn), 77);
    ASSERT(!p.hello);
    ASSERT_EQ(feed_hello(&p, BX_WIRE_MAGIC, BX_WIRE_VERSION, BX_ROLE_AGENT), -EPROTONOSUPPORT);
    bx_conn_free(p.conn);
}

TEST(wrong_magic_and_wrong_role_end_the_link)
{
    struct peer p;
    open_peer(&p, BX_ROLE_SHIM, BX_ROLE_AGENT);
    ASSERT_EQ(feed_hello(&p, 0x12345678, BX_WIRE_VERSION, BX_ROLE_AGENT), -EPROTO);
    bx_conn_free(p.conn);
    open_peer(&p, BX_ROLE_SHIM, BX_ROLE_AGENT);
    ASSERT_EQ(feed_hello(&p, BX_WIRE_MAGIC, BX_WIRE_VERSION, BX_ROLE_CLIENT), -EPROTO);
    bx_conn_free(p.conn);
}

TEST(hello_comes_first_and_once)
{
    struct peer p;
    open_peer(&p, BX_ROLE_SHIM, BX_ROLE_AGENT);
    ASSERT_EQ(feed_frame(&p, BX_FRAME_MSG, 0, "\1\0", 2), -EPROTO);
    ASSERT_EQ(p.msgs, 0);
    bx_conn_free(p.conn);
    open_greeted(&p);
    ASSERT_EQ(feed_hello(&p, BX_WIRE_MAGIC, BX_WIRE_VERSION, BX_ROLE_AGENT), -EPROTO);
    bx_conn_free(p.conn);
}

TEST(an_error_is_sticky)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(100);
    struct peer p;
    open_greeted(&p);
    ASSERT_EQ(feed_frame(&p, 99, 0, NULL, 0), -EPROTO);
    ASSERT_EQ(feed_frame(&p, BX_FRAME_EOF, CH, NULL, 0), -EPROTO);
    ASSERT_EQ(p.eofs, 0);
    ASSERT_EQ(bx_conn_send(p.conn, CH, "x", 1), -EPROTO);
    ASSERT_EQ(bx_msg_begin(&b, 1), 0);
    ASSERT_EQ(bx_conn_msg(p.conn, &b), -EPROTO);
    ASSERT_EQ(bx_conn_room(p.conn, CH), 0);
    bx_conn_free(p.conn);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void fill(uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        p[i] = (uint8_t)(i * 7 + i / 256);
    }
}

/* Everything arrives in order, however the bytes of the link are cut. */
static void stream_in_pieces(size_t piece)
{
    enum { SIZE = 300000 };
    struct peer a, b;
    uint8_t *data = malloc(SIZE);
    fill(data, SIZE);
    open_pair(&a, &b);
    ASSERT_EQ(bx_conn_send(a.conn, CH, data, SIZE), SIZE);
    ASSERT_EQ(bx_conn_send_eof(a.conn, CH), 0);
    ASSERT_EQ(pass(&a, &b, piece), 0);
    ASSERT_EQ(b.received, SIZE);
    ASSERT_EQ(b.sum, mix(0, data, SIZE));
    ASSERT_EQ(b.eofs, 1);
    free(data);
    close_pair(&a, &b);
}

TEST(a_stream_arrives_whole_in_big_pieces)
{
    stream_in_pieces(1 << 20);
}

TEST(a_stream_arrives_whole_in_odd_pieces)
{
    stream_in_pieces(4099);
    stream_in_pieces(13);
}

TEST(a_stream_arrives_whole_byte_by_byte)
{
    stream_in_pieces(1);
}

TEST(messages_arrive_in_pieces_too)
{
    _cleanup_buf_ struct bx_buf m = BX_BUF_INIT(BX_FRAME_MSG_MAX);
    struct peer a, b;
    open_pair(&a, &b);
    ASSERT_EQ(bx_msg_begin(&m, 42), 0);
    ASSERT_NOT_NULL(bx_buf_reserve(&m, 200000));
    memset(bx_buf_data(&m) + m.len, 0, 200000);
    bx_buf_commit(&m, 200000);
    for (size_t piece = 1; piece < 100000; piece = piece * 5 + 2) {
        ASSERT_EQ(bx_conn_msg(a.conn, &m), 0);
        ASSERT_EQ(pass(&a, &b, piece), 0);
        ASSERT_EQ(b.last_msg, 42);
        b.last_msg = 0;
    }
    close_pair(&a, &b);
}

TEST(a_message_too_long_or_without_a_type_is_not_sent)
{
    _cleanup_buf_ struct bx_buf m = BX_BUF_INIT(BX_FRAME_MSG_MAX + 100);
    struct peer a;
    open_greeted(&a);
    ASSERT_EQ(bx_conn_msg(a.conn, &m), -EMSGSIZE);
    ASSERT_NOT_NULL(bx_buf_reserve(&m, BX_FRAME_MSG_MAX + 1));
    memset(bx_buf_data(&m), 0, BX_FRAME_MSG_MAX + 1);
    bx_buf_commit(&m, BX_FRAME_MSG_MAX + 1);
    ASSERT_EQ(bx_conn_msg(a.conn, &m), -EMSGSIZE);
    bx_conn_free(a.conn);
}

TEST(the_error_of_a_message_handler_ends_the_link)
{
    struct peer p;
    open_greeted(&p);
    p.msg_result = -EBADMSG;
    ASSERT_EQ(feed_frame(&p, BX_FRAME_MSG, 0, "\1\0", 2), -EBADMSG);
    bx_conn_free(p.conn);
}

/* ---- credit ---------------------------------------------------------------------------------- */

TEST(a_sender_stops_at_the_window_and_goes_on_with_credit)
{
    enum { SIZE = 3 * BX_WIRE_WINDOW };
    struct peer a, b;
    uint8_t *data = calloc(1, SIZE);
    size_t sent = 0;
    open_pair(&a, &b);
    b.consume = false;
    while (sent < SIZE) {
        ssize_t n = bx_conn_send(a.conn, CH, data, SIZE - sent);
        ASSERT_GE(n, 0);
        sent += (size_t)n;
        ASSERT_EQ(pass(&a, &b, SIZE_MAX), 0);
        if (n == 0 && bx_conn_room(a.conn, CH) == 0) {
            break;
        }
    }
    ASSERT_EQ(sent, BX_WIRE_WINDOW);
    ASSERT_EQ(b.received, BX_WIRE_WINDOW);
    /* Less than a batch is not told; a batch is, and wakes the sender once. */
    a.writables = 0;
    ASSERT_EQ(bx_conn_consumed(b.conn, CH, BX_WIRE_WINDOW / 4 - 1), 0);
    ASSERT_EQ(settle(&a, &b), 0);
    ASSERT_EQ(bx_conn_room(a.conn, CH), 0);
    ASSERT_EQ(bx_conn_consumed(b.conn, CH, 1), 0);
    ASSERT_EQ(settle(&a, &b), 0);
    ASSERT_EQ(bx_conn_room(a.conn, CH), BX_WIRE_WINDOW / 4);
    ASSERT_EQ(a.writables, 1);
    ASSERT_EQ(bx_conn_send(a.conn, CH, data, SIZE), BX_WIRE_WINDOW / 4);
    free(data);
    close_pair(&a, &b);
}

TEST(more_than_was_granted_ends_the_link)
{
    static uint8_t data[BX_FRAME_DATA_MAX];
    struct peer p;
    open_greeted(&p);
    p.consume = false;
    for (uint32_t left = BX_WIRE_WINDOW; left > 0; left -= sizeof(data)) {
        ASSERT_EQ(feed_frame(&p, BX_FRAME_DATA, CH, data, sizeof(data)), 0);
    }
    ASSERT_EQ(feed_frame(&p, BX_FRAME_DATA, CH, data, 1), -EPROTO);
    ASSERT_EQ(p.received, BX_WIRE_WINDOW);
    bx_conn_free(p.conn);
}

TEST(a_grant_of_more_than_was_sent_ends_the_link)
{
    struct peer p;
    open_greeted(&p);
    ASSERT_EQ(bx_conn_send(p.conn, CH, "abc", 3), 3);
    ASSERT_EQ(feed_u32(&p, BX_FRAME_CREDIT, CH, 3), 0);
    ASSERT_EQ(feed_u32(&p, BX_FRAME_CREDIT, CH, 1), -EPROTO);
    bx_conn_free(p.conn);
    open_greeted(&p);
    ASSERT_EQ(feed_u32(&p, BX_FRAME_CREDIT, CH, 0), -EPROTO);
    bx_conn_free(p.conn);
}

TEST(consuming_what_was_not_received_is_refused)
{
    struct peer p;
    open_greeted(&p);
    p.consume = false;
    ASSERT_EQ(feed_frame(&p, BX_FRAME_DATA, CH, "abc", 3), 0);
    ASSERT_EQ(bx_conn_consumed(p.conn, CH, 4), -EINVAL);
    ASSERT_EQ(bx_conn_consumed(p.conn, CH, 3), 0);
    ASSERT_EQ(bx_conn_consumed(p.conn, CH, 1), -EINVAL);
    ASSERT_EQ(bx_conn_consumed(p.conn, CH + 1, 1), -ENOENT);
    bx_conn_free(p.conn);
}

TEST(a_slow_channel_does_not_hold_back_another)
{
    struct peer a, b;
    uint8_t *data = calloc(1, BX_WIRE_WINDOW);
    open_pair(&a, &b);
    ASSERT_EQ(bx_conn_open(a.conn, 9), 0);
    ASSERT_EQ(bx_conn_open(b.conn, 9), 0);
    b.consume = false;
    while (bx_conn_send(a.conn, CH, data, BX_WIRE_WINDOW) > 0) {
        ASSERT_EQ(pass(&a, &b, SIZE_MAX), 0);
    }
    ASSERT_EQ(bx_conn_send(a.conn, 9, "abc", 3), 3);
    b.received = 0;
    ASSERT_EQ(pass(&a, &b, SIZE_MAX), 0);
    ASSERT_EQ(b.received, 3);
    free(data);
    close_pair(&a, &b);
}

TEST(bytes_written_in_place_arrive_and_count)
{
    struct peer a, b;
    size_t len, total = 0;
    void *p;
    open_pair(&a, &b);
    b.consume = false;
    ASSERT_NOT_NULL(bx_conn_reserve(a.conn, CH, &len)); /* forgotten */
    ASSERT_EQ(bx_conn_send(a.conn, CH, "xy", 2), 2);
    while ((p = bx_conn_reserve(a.conn, CH, &len))) {
        ASSERT_LE(len, BX_FRAME_DATA_MAX);
        memset(p, 'x', len);
        bx_conn_commit(a.conn, CH, len);
        total += len;
        ASSERT_EQ(pass(&a, &b, 70000), 0);
    }
    ASSERT_EQ(b.received, BX_WIRE_WINDOW);
    ASSERT_EQ(total + 2, BX_WIRE_WINDOW);
    ASSERT_EQ(bx_conn_consumed(b.conn, CH, BX_WIRE_WINDOW), 0);
    ASSERT_EQ(settle(&a, &b), 0);
    ASSERT_EQ(a.writables, 1);
    bx_conn_commit(a.conn, CH, 0);
    ASSERT_NULL(bx_conn_reserve(a.conn, CH + 1, &len));
    bx_conn_commit(a.conn, CH + 1, 5);
    close_pair(&a, &b);
}

/* ---- end, reset, close ------------------------------------------------------------------------- */

TEST(nothing_follows_an_end)
{
    struct peer p;
    open_greeted(&p);
    ASSERT_EQ(bx_conn_send_eof(p.conn, CH), 0);
    ASSERT_EQ(bx_conn_send_eof(p.conn, CH), -EPIPE);
    ASSERT_EQ(bx_conn_send(p.conn, CH, "x", 1), -EPIPE);
    ASSERT_EQ(feed_frame(&p, BX_FRAME_EOF, CH, NULL, 0), 0);
    ASSERT_EQ(p.eofs, 1);
    ASSERT_EQ(feed_frame(&p, BX_FRAME_DATA, CH, "x", 1), -EPROTO);
    bx_conn_free(p.conn);
    open_greeted(&p);
    ASSERT_EQ(feed_frame(&p, BX_FRAME_EOF, CH, NULL, 0), 0);
    ASSERT_EQ(feed_frame(&p, BX_FRAME_EOF, CH, NULL, 0), -EPROTO);
    bx_conn_free(p.conn);
}

TEST(a_reset_swallows_what_is_sent_and_wakes_the_sender)
{
    struct peer a, b;
    uint8_t *data = calloc(1, 2 * BX_WIRE_WINDOW);
    open_pair(&a, &b);
    b.consume = false;
    while (bx_conn_send(a.conn, CH, data, BX_WIRE_WINDOW) > 0) {
        ASSERT_EQ(pass(&a, &b, SIZE_MAX), 0);
    }
    a.writables = 0;
    ASSERT_EQ(bx_conn_send_reset(b.conn, CH), 0);
    ASSERT_EQ(bx_conn_send_reset(b.conn, CH), 0);
    ASSERT_EQ(settle(&a, &b), 0);
    ASSERT_EQ(a.resets, 1);
    ASSERT_EQ(a.writables, 1);
    b.received = 0;
    ASSERT_EQ(bx_conn_send(a.conn, CH, data, 2 * BX_WIRE_WINDOW), 2 * BX_WIRE_WINDOW);
    ASSERT_EQ(bx_conn_send_eof(a.conn, CH), 0);
    ASSERT_EQ(settle(&a, &b), 0);
    ASSERT_EQ(b.received, 0);
    ASSERT_EQ(b.eofs, 1);
    free(data);
    close_pair(&a, &b);
}

TEST(data_under_way_when_a_reset_is_sent_is_dropped_without_limit)
{
    static uint8_t data[BX_FRAME_DATA_MAX];
    struct peer p;
    open_greeted(&p);
    ASSERT_EQ(bx_conn_send_reset(p.conn, CH), 0);
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(feed_frame(&p, BX_FRAME_DATA, CH, data, sizeof(data)), 0);
    }
    ASSERT_EQ(p.received, 0);
    bx_conn_free(p.conn);
}

TEST(frames_for_closed_channels_are_ignored)
{
    struct peer p;
    open_greeted(&p);
    bx_conn_close(p.conn, CH);
    bx_conn_close(p.conn, CH);
    ASSERT(!bx_conn_is_open(p.conn, CH));
    ASSERT_EQ(feed_frame(&p, BX_FRAME_DATA, CH, "abc", 3), 0);
    ASSERT_EQ(feed_frame(&p, BX_FRAME_EOF, CH, NULL, 0), 0);
    ASSERT_EQ(feed_frame(&p, BX_FRAME_RESET, CH, NULL, 0), 0);
    ASSERT_EQ(feed_u32(&p, BX_FRAME_CREDIT, CH, UINT32_MAX), 0);
    ASSERT_EQ(p.received + p.eofs + p.resets, 0);
    ASSERT_EQ(bx_conn_send(p.conn, CH, "x", 1), -ENOENT);
    ASSERT_EQ(bx_conn_send_eof(p.conn, CH), -ENOENT);
    ASSERT_EQ(bx_conn_send_reset(p.conn, CH), -ENOENT);
    ASSERT_EQ(bx_conn_room(p.conn, CH), 0);
    bx_conn_want(p.conn, CH);
    bx_conn_free(p.conn);
}

TEST(a_channel_closed_in_the_middle_of_a_frame_gets_no_more_of_it)
{
    struct bx_frame f = {.length = 10, .channel = CH, .type = BX_FRAME_DATA};
    uint8_t head[BX_FRAME_HEADER];
    struct peer p;
    open_greeted(&p);
    p.close_on_bytes = true;
    bx_frame_encode(&f, head);
    ASSERT_EQ(bx_conn_feed(p.conn, head, sizeof(head)), 0);
    ASSERT_EQ(bx_conn_feed(p.conn, (const uint8_t *)"12345", 5), 0);
    ASSERT_EQ(p.received, 5);
    ASSERT_EQ(bx_conn_open(p.conn, CH), 0); /* the same number again: still not its bytes */
    ASSERT_EQ(bx_conn_feed(p.conn, (const uint8_t *)"67890", 5), 0);
    ASSERT_EQ(p.received, 5);
    p.close_on_bytes = false;
    ASSERT_EQ(feed_frame(&p, BX_FRAME_DATA, CH, "x", 1), 0);
    ASSERT_EQ(p.received, 6);
    bx_conn_free(p.conn);
}

TEST(a_conn_may_be_freed_in_its_callback)
{
    struct peer a, b;
    open_pair(&a, &b);
    b.free_on_bytes = true;
    ASSERT_EQ(bx_conn_send(a.conn, CH, "abc", 3), 3);
    ASSERT_EQ(bx_conn_send(a.conn, CH, "def", 3), 3);
    ASSERT_EQ(pass(&a, &b, SIZE_MAX), -ECANCELED);
    ASSERT_EQ(b.received, 3);
    bx_conn_free(a.conn);
}

TEST(a_conn_may_be_freed_when_it_gets_writable)
{
    struct peer a, b;
    uint8_t *data = calloc(1, BX_WIRE_WINDOW);
    open_pair(&a, &b);
    ASSERT_LT(bx_conn_send(a.conn, CH, data, BX_WIRE_WINDOW), BX_WIRE_WINDOW);
    a.free_on_writable = true;
    ASSERT_EQ(pass(&a, &b, SIZE_MAX), 0);
    ASSERT_NULL(a.conn);
    free(data);
    bx_conn_free(b.conn);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

TEST(the_queue_takes_data_up_to_its_bound_and_control_over_it)
{
    struct peer a, b;
    uint8_t *data = calloc(1, BX_WIRE_WINDOW);
    size_t len, total;
    open_pair(&a, &b);
    ASSERT_EQ(bx_conn_open(a.conn, 9), 0);
    ASSERT_EQ(bx_conn_open(b.conn, 9), 0);
    ssize_t taken = bx_conn_send(a.conn, CH, data, BX_WIRE_WINDOW);
    ASSERT_GT(taken, 0);
    ASSERT_LT(taken, BX_WIRE_WINDOW);
    ASSERT_EQ(bx_conn_send(a.conn, 9, data, 1000), 0);
    (void)bx_conn_pending(a.conn, &total);
    ASSERT_LE(total, BX_CONN_OUT_SOFT);
    ASSERT_EQ(bx_conn_send_eof(a.conn, 9), 0);
    ASSERT_EQ(a.writables, 0);
    ASSERT_EQ(pass(&a, &b, SIZE_MAX), 0);
    (void)bx_conn_pending(a.conn, &len);
    ASSERT_EQ(len, 0);
    ASSERT_EQ(a.writables, 1); /* the one that has not ended */
    free(data);
    close_pair(&a, &b);
}

TEST(those_who_wait_for_room_are_served_in_turn)
{
    struct peer a, b;
    uint8_t *data = calloc(1, BX_WIRE_WINDOW);
    open_pair(&a, &b);
    for (uint32_t ch = 100; ch < 110; ch++) {
        ASSERT_EQ(bx_conn_open(a.conn, ch), 0);
        ASSERT_EQ(bx_conn_open(b.conn, ch), 0);
        ASSERT_LT(bx_conn_send(a.conn, ch, data, BX_WIRE_WINDOW), BX_WIRE_WINDOW);
    }
    bx_conn_close(a.conn, 100); /* first and middle leave the queue */
    bx_conn_close(a.conn, 105);
    ASSERT_EQ(pass(&a, &b, SIZE_MAX), 0);
    ASSERT_EQ(a.writables, 8);
    free(data);
    close_pair(&a, &b);
}

TEST(a_peer_that_never_reads_cannot_make_the_queue_grow_for_ever)
{
    _cleanup_buf_ struct bx_buf m = BX_BUF_INIT(BX_FRAME_MSG_MAX);
    struct peer a;
    int r = 0;
    size_t len;
    open_greeted(&a);
    ASSERT_EQ(bx_msg_begin(&m, 1), 0);
    ASSERT_NOT_NULL(bx_buf_reserve(&m, 1 << 20));
    memset(bx_buf_data(&m) + m.len, 0, 1 << 20);
    bx_buf_commit(&m, 1 << 20);
    for (int i = 0; i < 100 && r == 0; i++) {
        r = bx_conn_msg(a.conn, &m);
    }
    ASSERT_EQ(r, -ENOBUFS);
    (void)bx_conn_pending(a.conn, &len);
    ASSERT_LE(len, BX_CONN_OUT_SOFT + 4 * BX_FRAME_MSG_MAX);
    bx_conn_free(a.conn);
}

TEST(channels_are_opened_once_and_bounded)
{
    struct peer p;
    open_greeted(&p);
    ASSERT_EQ(bx_conn_open(p.conn, CH), -EEXIST);
    ASSERT_EQ(bx_conn_open(p.conn, 0), -EINVAL);
    for (uint32_t i = 1; i < BX_CONN_CHANNELS_MAX; i++) {
        ASSERT_EQ(bx_conn_open(p.conn, 1000 + i * 4), 0);
    }
    ASSERT_EQ(bx_conn_open(p.conn, 7), -EMFILE);
    /* Every second one goes; the others are still found. */
    for (uint32_t i = 1; i < BX_CONN_CHANNELS_MAX; i += 2) {
        bx_conn_close(p.conn, 1000 + i * 4);
    }
    for (uint32_t i = 1; i < BX_CONN_CHANNELS_MAX; i++) {
        ASSERT_EQ(bx_conn_is_open(p.conn, 1000 + i * 4), i % 2 == 0);
    }
    ASSERT_EQ(bx_conn_open(p.conn, 7), 0);
    bx_conn_free(p.conn);
}

TEST(a_truncated_frame_waits_for_its_rest)
{
    struct bx_frame f = {.length = 12, .type = BX_FRAME_HELLO};
    uint8_t head[BX_FRAME_HEADER];
    struct peer p;
    open_peer(&p, BX_ROLE_SHIM, BX_ROLE_AGENT);
    bx_frame_encode(&f, head);
    for (size_t i = 0; i < sizeof(head); i++) {
        ASSERT_EQ(bx_conn_feed(p.conn, head + i, 1), 0);
    }
    ASSERT_EQ(bx_conn_feed(p.conn, head, 0), 0);
    ASSERT(!p.hello);
    bx_conn_free(p.conn);
}

TEST(a_whole_exchange_survives_failing_allocations)
{
    TORTURE
    {
        _cleanup_buf_ struct bx_buf m = BX_BUF_INIT(1000);
        struct peer a = {.consume = true}, b = {.consume = true};
        bool good = bx_conn_new(BX_ROLE_SHIM, BX_ROLE_AGENT, &ops, &a, &a.conn) == 0 &&
                    bx_conn_new(BX_ROLE_AGENT, BX_ROLE_SHIM, &ops, &b, &b.conn) == 0 &&
                    bx_conn_open(a.conn, CH) == 0 && bx_conn_open(b.conn, CH) == 0 &&
                    bx_msg_begin(&m, 3) == 0 && bx_conn_msg(a.conn, &m) == 0 &&
                    bx_conn_send(a.conn, CH, "abc", 3) == 3;
        size_t len = 0;
        if (good) {
            const uint8_t *p = bx_conn_pending(a.conn, &len);
            good = bx_conn_feed(b.conn, p, 20) == 0 && bx_conn_feed(b.conn, p + 20, len - 20) == 0;
        }
        ASSERT_EQ(good, !allocation_failed());
        ASSERT_EQ(b.received, good ? 3 : 0);
        close_pair(&a, &b);
    }
}
