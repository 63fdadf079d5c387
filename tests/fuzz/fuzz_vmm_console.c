/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's port between a hostile driver and a host that speaks, listens and hangs up.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "vmm/kvm/dev/console.h"
#include "vmm_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct host {
    struct bx_console *console;
    int fd;
};

static void host(void *data, struct feed *f)
{
    struct host *h = data;
    uint8_t buf[4096] = {0}, kind = feed_u8(f);
    ssize_t n =
        kind % 4 == 0 ? send(h->fd, buf, kind, MSG_NOSIGNAL) : read(h->fd, buf, sizeof(buf));

    (void)n;
    if (kind == 0xff) {
        (void)shutdown(h->fd, SHUT_RDWR);
    }
    bx_console_socket(h->console, EPOLLIN | EPOLLOUT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct feed f = {data, size};
    static struct driver d;
    static struct bx_console console;
    int pair[2];

    if (bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, pair) < 0) {
        abort();
    }
    driver_init(&d);
    bx_console_init(&console, &d.mem, pair[1], "org.test");
    driver_attach(&d, &console.v);
    struct host h = {&console, pair[0]};
    feed_run(&d, &f, host, &h);
    driver_done(&d);
    bx_close(&pair[0]);
    bx_close(&pair[1]);
    return 0;
}
