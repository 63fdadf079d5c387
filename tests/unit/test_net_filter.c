/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may leave a guest, and that the relay lets nothing else through.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/timeutil.h"
#include "frames.h"
#include "harness.h"
#include "net/addresses.h"
#include "net/relay.h"

#define OWN 0xc0000205u     /* 192.0.2.5 */
#define OUTSIDE 0xcb007107u /* 203.0.113.7 */

static const struct bx_net_filter filter = {
    .guest = FRAME_GUEST, .own = {OWN, FRAME_ROUTER}, .nown = 2};

static bool allows_to(uint32_t addr)
{
    uint8_t f[64];
    size_t len = make_syn(f, FRAME_GUEST, addr, 80);

    return bx_net_filter_allows(&filter, f, len);
}

TEST(outside_resolver_and_arp_are_allowed)
{
    uint8_t f[64];

    ASSERT(allows_to(OUTSIDE));
    ASSERT(allows_to(0x0a000203)); /* the resolver */
    ASSERT(allows_to(0xc0a80101)); /* 192.168.1.1 */
    ASSERT(bx_net_filter_allows(&filter, f, make_arp(f)));
}

TEST(host_is_refused)
{
    ASSERT(!allows_to(0x7f000001));
    ASSERT(!allows_to(0x7fffffff));
    ASSERT(!allows_to(0x00000000));
    ASSERT(!allows_to(0x00123456));
    ASSERT(!allows_to(OWN));
    ASSERT(!allows_to(FRAME_ROUTER));
}

TEST(link_local_and_groups_are_refused)
{
    ASSERT(!allows_to(0xa9fea9fe)); /* 169.254.169.254 */
    ASSERT(!allows_to(0xe0000001));
    ASSERT(!allows_to(0xf0000001));
    ASSERT(!allows_to(0xffffffff));
}

TEST(foreign_source_is_refused)
{
    uint8_t f[64];
    size_t len = make_syn(f, FRAME_ROUTER, OUTSIDE, 80);

    ASSERT(!bx_net_filter_allows(&filter, f, len));
}

TEST(other_protocols_are_refused)
{
    static const uint16_t types[] = {0x86dd, 0x8100, 0x88a8, 0x8864, 0x0000, 0x05dc};
    uint8_t f[64];

    for (size_t i = 0; i < BX_ARRAY_SIZE(types); i++) {
        size_t len = make_syn(f, FRAME_GUEST, OUTSIDE, 80);
        put16(f + 12, types[i]);
        ASSERT(!bx_net_filter_allows(&filter, f, len));
    }
}

/* Each length and header field that lies makes the frame stay. */
TEST(malformed_packets_are_refused)
{
    uint8_t f[64];
    size_t len = make_syn(f, FRAME_GUEST, OUTSIDE, 80);

    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *exact = malloc(cut + 1); /* the sanitizer watches its end */
        ASSERT_NOT_NULL(exact);
        memcpy(exact, f, cut);
        ASSERT(!bx_net_filter_allows(&filter, exact, cut));
        free(exact);
    }
    f[14] = 0x65; /* version 6 in a frame of version 4 */
    ASSERT(!bx_net_filter_allows(&filter, f, len));
    f[14] = 0x44; /* a header of 16 bytes */
    ASSERT(!bx_net_filter_allows(&filter, f, len));
    f[14] = 0x4f; /* a header that goes beyond the packet */
    ASSERT(!bx_net_filter_allows(&filter, f, len));
    f[14] = 0x45;
    put16(f + 16, 41); /* a packet that goes beyond the frame */
    ASSERT(!bx_net_filter_allows(&filter, f, len));
    put16(f + 16, 40);
    ASSERT(bx_net_filter_allows(&filter, f, len));
}

TEST(own_addresses_are_found)
{
    struct bx_net_filter f;
    bool loopback = false;

    ASSERT_OK(bx_net_filter_init(&f, FRAME_GUEST, FRAME_ROUTER));
    for (size_t i = 0; i < f.nown; i++) {
        loopback = loopback || f.own[i] == 0x7f000001;
    }
    ASSERT(loopback || f.nown == 0); /* a namespace may have no loopback */
}

TEST(unknown_addresses_shut_the_filter)
{
    static const uint32_t many[BX_OWN_MAX];
    struct bx_net_filter f = filter;
    uint8_t frame[64];
    size_t len = make_syn(frame, FRAME_GUEST, OUTSIDE, 80);

    f.own[0] = FRAME_ROUTER;
    bx_net_filter_set_own(&f, (const uint32_t[]){OUTSIDE}, 1);
    ASSERT(!bx_net_filter_allows(&f, frame, len));
    bx_net_filter_set_own(&f, (const uint32_t[]){OWN}, 1);
    ASSERT(bx_net_filter_allows(&f, frame, len));
    len = make_syn(frame, FRAME_GUEST, FRAME_ROUTER, 80);
    ASSERT(!bx_net_filter_allows(&f, frame, len)); /* the router's stays */
    len = make_syn(frame, FRAME_GUEST, OUTSIDE, 80);
    bx_net_filter_set_own(&f, NULL, 0);
    ASSERT(!bx_net_filter_allows(&f, frame, len));
    bx_net_filter_set_own(&f, many, BX_OWN_MAX);
    ASSERT(!bx_net_filter_allows(&f, frame, len));
}

/* ---- the host's addresses change: in a network namespace of the test's own */

static void own_network(void)
{
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
        SKIP("no rights to make a network namespace");
    }
}

static void put_address(unsigned alias, const char *text)
{
    struct ifreq req = {0};
    struct sockaddr_in in = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ASSERT_OK(fd);
    (void)snprintf(req.ifr_name, sizeof(req.ifr_name), "lo:%u", alias);
    ASSERT_EQ(inet_pton(AF_INET, text, &in.sin_addr), 1);
    memcpy(&req.ifr_addr, &in, sizeof(in));
    if (ioctl(fd, SIOCSIFADDR, &req) < 0) {
        SKIP("no rights to give a network namespace addresses");
    }
    (void)close(fd);
}

struct heard {
    struct bx_net_filter filter;
    unsigned calls;
};

static void on_addresses(void *data, const uint32_t *own, size_t n)
{
    struct heard *h = data;
    bx_net_filter_set_own(&h->filter, own, n);
    h->calls++;
}

static void listen_until(struct bx_loop *loop, struct heard *h, uint32_t refused)
{
    uint64_t deadline = bx_deadline_ms(10000);
    uint8_t f[64];
    size_t len = make_syn(f, FRAME_GUEST, refused, 80);
    while (bx_net_filter_allows(&h->filter, f, len)) {
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(loop, 100));
    }
}

TEST(an_address_that_the_host_gets_later_is_refused)
{
    struct heard h = {.filter = {.guest = FRAME_GUEST, .own = {FRAME_ROUTER}, .nown = 1}};
    struct bx_addresses *a;
    struct bx_loop *loop;
    char text[32];

    own_network();
    ASSERT_OK(bx_loop_new(&loop));
    ASSERT_OK(bx_addresses_new(loop, on_addresses, &h, &a));
    put_address(1, "203.0.113.7");
    listen_until(loop, &h, OUTSIDE);
    ASSERT(!h.filter.shut);
    ASSERT_EQ(h.filter.nown, 2);
    put_address(2, "192.0.2.5");
    listen_until(loop, &h, OWN);
    ASSERT_EQ(h.filter.nown, 3);
    for (unsigned i = 0; i < BX_OWN_MAX; i++) { /* more than there is room for */
        (void)snprintf(text, sizeof(text), "198.51.100.%u", i + 1);
        put_address(i + 3, text);
    }
    listen_until(loop, &h, 0x08080808);
    ASSERT(h.filter.shut);
    bx_addresses_free(a);
    bx_loop_free(loop);
}

TEST(stream_keeps_what_is_not_complete)
{
    _cleanup_buf_ struct bx_buf in = BX_BUF_INIT(1 << 20), out = BX_BUF_INIT(1 << 20);
    uint8_t p[128];
    uint64_t dropped = 0;
    size_t len = with_length(p, make_arp(p + 4));

    for (size_t i = 0; i < len; i++) {
        ASSERT_EQ(out.len, 0);
        ASSERT_OK(bx_buf_append(&in, p + i, 1));
        ASSERT_OK(bx_net_filter_stream(&filter, &in, &out, &dropped));
    }
    ASSERT_EQ(out.len, len);
    ASSERT_MEM(bx_buf_data(&out), p, len);
    ASSERT_EQ(in.len, 0);
    ASSERT_EQ(dropped, 0);
}

TEST(stream_ends_at_an_impossible_length)
{
    _cleanup_buf_ struct bx_buf in = BX_BUF_INIT(1 << 20), out = BX_BUF_INIT(1 << 20);
    uint64_t dropped = 0;

    ASSERT_OK(bx_buf_append(&in, "\xff\xff\xff\xff....", 8));
    ASSERT_EQ(bx_net_filter_stream(&filter, &in, &out, &dropped), -EPROTO);
    ASSERT_EQ(out.len, 0);
}

TEST(stream_stops_when_there_is_no_room)
{
    _cleanup_buf_ struct bx_buf in = BX_BUF_INIT(1 << 20), out = BX_BUF_INIT(BX_FRAME_MAX + 4);
    uint8_t p[128];
    uint64_t dropped = 0;
    size_t len = with_length(p, make_arp(p + 4));

    ASSERT_OK(bx_buf_append(&in, p, len));
    ASSERT_OK(bx_buf_append(&in, p, len));
    ASSERT_OK(bx_net_filter_stream(&filter, &in, &out, &dropped));
    ASSERT_EQ(out.len, len);
    ASSERT_EQ(in.len, len);
}

/* ---- Relay ----------------------------------------------------------------------------------- */

struct link {
    struct bx_loop *loop;
    struct bx_relay *relay;
    int guest, net; /* our ends */
};

static void link_new(struct link *l)
{
    int guest[2], net[2];

    ASSERT_OK(bx_loop_new(&l->loop));
    ASSERT_OK(bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, guest));
    ASSERT_OK(bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, net));
    l->guest = guest[0];
    l->net = net[0];
    ASSERT_OK(bx_relay_new(l->loop, guest[1], net[1], &filter, &l->relay));
}

static void link_done(struct link *l)
{
    bx_relay_free(l->relay);
    bx_loop_free(l->loop);
    bx_close(&l->guest);
    bx_close(&l->net);
}

/* Runs the loop until so many bytes have come. */
static void expect(struct link *l, int fd, const void *data, size_t len)
{
    uint64_t deadline = bx_deadline_ms(5000);
    uint8_t *got = malloc(len + 1);
    size_t have = 0;

    ASSERT_NOT_NULL(got);
    while (have < len) {
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(l->loop, 10));
        ssize_t n = read(fd, got + have, len - have);
        ASSERT(n > 0 || (n < 0 && errno == EAGAIN));
        have += n > 0 ? (size_t)n : 0;
    }
    ASSERT_MEM(got, data, len);
    free(got);
}

TEST(relay_lets_through_only_what_may)
{
    uint8_t bad[64], good[64];
    size_t bad_len = with_length(bad, make_syn(bad + 4, FRAME_GUEST, 0x7f000001, 80));
    size_t good_len = with_length(good, make_syn(good + 4, FRAME_GUEST, OUTSIDE, 80));
    struct link l;

    link_new(&l);
    ASSERT_OK(bx_write_full(l.guest, bad, bad_len));
    ASSERT_OK(bx_write_full(l.guest, good, good_len));
    ASSERT_OK(bx_write_full(l.net, "whatever", 8)); /* inwards: bytes */
    expect(&l, l.net, good, good_len);
    expect(&l, l.guest, "whatever", 8);
    ASSERT_EQ(bx_relay_dropped(l.relay), 1);
    link_done(&l);
}

/* Megabytes to a side that does not read: the relay holds a bounded part and loses nothing. */
TEST(relay_holds_back_a_fast_sender)
{
    enum { FRAMES = 40, BIG = 60000 };
    uint8_t *frame = calloc(1, BIG + 4);
    struct link l;
    size_t sent = 0, total = FRAMES * (BIG + 4);
    uint8_t *all = malloc(total);

    ASSERT_NOT_NULL(frame);
    ASSERT_NOT_NULL(all);
    (void)make_syn(frame + 4, FRAME_GUEST, OUTSIDE, 80);
    (void)with_length(frame, BIG);
    for (size_t i = 0; i < FRAMES; i++) {
        frame[100] = (uint8_t)i;
        memcpy(all + i * (BIG + 4), frame, BIG + 4);
    }
    link_new(&l);
    for (int idle = 0; idle < 3;) { /* until nothing more is taken */
        ssize_t n = send(l.guest, all + sent, total - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        ASSERT_OK(bx_loop_dispatch(l.loop, 10));
    }
    ASSERT_LT(sent, total);
    ASSERT_OK(bx_set_nonblock(l.net, true));
    uint8_t *got = malloc(total);
    ASSERT_NOT_NULL(got);
    uint64_t deadline = bx_deadline_ms(5000);
    for (size_t have = 0; have < total;) {
        ASSERT(bx_now_mono() < deadline);
        ssize_t n = read(l.net, got + have, total - have);
        have += n > 0 ? (size_t)n : 0;
        n = sent < total ? send(l.guest, all + sent, total - sent, MSG_NOSIGNAL) : 0;
        sent += n > 0 ? (size_t)n : 0;
        ASSERT_OK(bx_loop_dispatch(l.loop, 0));
    }
    ASSERT_MEM(got, all, total);
    free(got);
    free(all);
    free(frame);
    link_done(&l);
}

static void expect_end(struct link *l, int fd)
{
    uint64_t deadline = bx_deadline_ms(5000);
    char c;
    ssize_t n;

    while ((n = read(fd, &c, 1)) < 0 && errno == EAGAIN) {
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(l->loop, 10));
    }
    ASSERT_EQ(n, 0);
}

TEST(relay_hangs_up_both_when_one_ends)
{
    struct link l;

    link_new(&l);
    bx_close(&l.guest);
    expect_end(&l, l.net);
    link_done(&l);
    link_new(&l);
    bx_close(&l.net);
    expect_end(&l, l.guest);
    link_done(&l);
}

TEST(relay_hangs_up_on_nonsense)
{
    struct link l;

    link_new(&l);
    ASSERT_OK(bx_write_full(l.guest, "\xff\xff\xff\xff", 4));
    expect_end(&l, l.net);
    link_done(&l);
}
