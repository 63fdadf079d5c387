/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passt behind the relay: it answers, and the host's loopback is out of reach.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "frames.h"
#include "harness.h"
#include "net/passt.h"

struct net {
    struct bx_loop *loop;
    struct bx_passt *passt;
    struct bx_passt_net info;
    int fd;
    bool ended;
    char message[256];
};

static void on_ended(void *data, const boxlite_error *error)
{
    struct net *n = data;

    n->ended = true;
    (void)snprintf(n->message, sizeof(n->message), "%s", boxlite_error_message(error));
}

static void net_new(struct net *n)
{
    _cleanup_free_ char *program = bx_find_program("passt");

    if (!program) {
        SKIP("passt is not installed");
    }
    *n = (struct net){.fd = -1};
    ASSERT_OK(bx_loop_new(&n->loop));
    ASSERT_OK(bx_passt_start(n->loop, NULL, -1, on_ended, n, &n->passt, &n->fd, &n->info, ERR));
    ASSERT_OK(bx_set_nonblock(n->fd, true));
}

static void net_done(struct net *n)
{
    bx_passt_free(n->passt);
    bx_loop_free(n->loop);
    bx_close(&n->fd);
}

/* Sends a frame and waits for one. Its length, 0 at the deadline. Skips where passt cannot run. */
static size_t ask(struct net *n, const uint8_t *frame, size_t len, uint8_t *answer, size_t size)
{
    uint64_t deadline = bx_deadline_ms(5000);
    uint8_t head[4];
    size_t have = 0, want = 4;

    put32(head, (uint32_t)len);
    ASSERT_OK(bx_write_full(n->fd, head, 4));
    ASSERT_OK(bx_write_full(n->fd, frame, len));
    while (have < want && bx_now_mono() < deadline) {
        if (n->ended && strstr(n->message, "routable")) {
            SKIP("this host has no IPv4 route: %s", n->message);
        }
        ASSERT(!n->ended);
        ASSERT_OK(bx_loop_dispatch(n->loop, 10));
        ssize_t r = have < 4 ? read(n->fd, head + have, 4 - have)
                             : read(n->fd, answer + have - 4, want - have);
        have += r > 0 ? (size_t)r : 0;
        if (have == 4) {
            want = 4 + ((size_t)head[2] << 8 | head[3]);
            ASSERT_LE(want, size);
        }
    }
    return have == want && have > 4 ? have - 4 : 0;
}

TEST(answers_for_its_router)
{
    uint8_t frame[64], answer[2048];
    struct net n;

    net_new(&n);
    ASSERT_STREQ(n.info.addr, "10.0.2.15/24");
    ASSERT_STREQ(n.info.gateway, "10.0.2.2");
    ASSERT_EQ(strlen(n.info.mac), 17);
    size_t len = ask(&n, frame, make_arp(frame), answer, sizeof(answer));
    ASSERT_GE(len, 42);
    ASSERT_EQ(answer[21], 2); /* a reply */
    net_done(&n);
}

static int listen_on_loopback(uint16_t *ret_port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    ASSERT_GE(fd, 0);
    ASSERT_EQ(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    ASSERT_EQ(listen(fd, 8), 0);
    ASSERT_EQ(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    *ret_port = ntohs(in.sin_port);
    return fd;
}

/* passt itself would connect to them. Its answer to a last ARP request, which it handles after all
 * others, tells when there is nothing more to wait for. */
TEST(host_services_are_out_of_reach)
{
    static const uint32_t hosts[] = {0x7f000001, 0x7f010203, 0, FRAME_GUEST, FRAME_ROUTER};
    uint8_t frame[64], answer[2048], p[68];
    uint16_t port;
    struct net n;

    net_new(&n);
    ASSERT_GT(ask(&n, frame, make_arp(frame), answer, sizeof(answer)), 0);
    _cleanup_close_ int server = listen_on_loopback(&port);
    for (size_t i = 0; i < BX_ARRAY_SIZE(hosts); i++) {
        size_t len = with_length(p, make_syn(p + 4, FRAME_GUEST, hosts[i], port));
        ASSERT_OK(bx_write_full(n.fd, p, len));
    }
    ASSERT_GT(ask(&n, frame, make_arp(frame), answer, sizeof(answer)), 0);
    ASSERT_EQ(accept4(server, NULL, NULL, SOCK_CLOEXEC), -1);
    ASSERT_EQ(errno, EAGAIN);
    net_done(&n);
}

TEST(ends_with_its_socket)
{
    uint64_t deadline = bx_deadline_ms(5000);
    struct net n;

    net_new(&n);
    bx_close(&n.fd);
    while (!n.ended) {
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(n.loop, bx_deadline_left_ms(deadline)));
    }
    ASSERT_CONTAINS(n.message, "passt ended with status");
    net_done(&n);
}

TEST(missing_program_is_told_with_the_package)
{
    struct net n = {.fd = -1};

    ASSERT_EQ(setenv("BOXLITE_PASST", "/nonexistent/passt", 1), 0);
    ASSERT_OK(bx_loop_new(&n.loop));
    ASSERT_FAILS(BOXLITE_E_ENGINE,
                 bx_passt_start(n.loop, NULL, -1, on_ended, &n, &n.passt, &n.fd, &n.info, ERR));
    ASSERT_CONTAINS(err_hint(), "passt");
    net_done(&n);
}
