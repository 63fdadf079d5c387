/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network card between a hostile driver and a socket that brings anything: what it sends is always
 * whole frames behind their lengths.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "vmm/kvm/dev/net.h"
#include "vmm_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct wire {
    struct bx_net *net;
    int fd;
    uint8_t got[1 << 20];
    size_t len;
};

static void take(struct wire *w)
{
    ssize_t n = read(w->fd, w->got + w->len, sizeof(w->got) - w->len);

    w->len += n > 0 ? (size_t)n : 0;
}

static void host(void *data, struct feed *f)
{
    struct wire *w = data;
    uint8_t kind = feed_u8(f);
    uint8_t frame[256];
    size_t len = feed_u8(f) % 200;
    uint32_t prefix = htonl((uint32_t)(kind % 8 == 0 ? feed_u16(f) : len));

    memcpy(frame, &prefix, 4);
    memset(frame + 4, kind, len);
    if (kind % 2 == 0) {
        ssize_t n = write(w->fd, frame, 4 + len);
        (void)n;
    }
    bx_net_socket(w->net, EPOLLIN | EPOLLOUT);
    take(w);
}

static void check_frames(const struct wire *w)
{
    size_t at = 0;

    while (w->len - at >= 4) {
        uint32_t len;

        memcpy(&len, w->got + at, 4);
        len = ntohl(len);
        if (len == 0 || len > BX_NET_FRAME_MAX) {
            abort();
        }
        if (w->len - at - 4 < len) {
            break; /* the socket had no room for the rest, or the driver reset in the middle */
        }
        at += 4 + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
    struct feed f = {data, size};
    static struct driver d;
    static struct bx_net net;
    static struct wire w;
    int pair[2];

    if (bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, pair) < 0) {
        abort();
    }
    w.net = &net;
    w.fd = pair[0];
    w.len = 0;
    driver_init(&d);
    if (bx_net_init(&net, &d.mem, pair[1], mac, NULL) < 0) {
        abort();
    }
    driver_attach(&d, &net.v);
    net.writable = true;
    feed_run(&d, &f, host, &w);
    take(&w);
    check_frames(&w);
    bx_net_done(&net);
    bx_gmem_done(&d.mem);
    bx_close(&pair[0]);
    bx_close(&pair[1]);
    return 0;
}
