/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.c: between an engine and passt.
 *
 * What the guest sends is taken apart into frames and filtered; what comes for the guest is passed
 * on as bytes. Each side has a bounded buffer of what waits to be written to it; while it is too
 * full, the other side is not read, so that pressure goes back to where the bytes come from. When
 * either side ends, or says something that cannot be, both are closed: passt ends with its socket,
 * and the guest sees a cable that leads nowhere.
 */
#include "net/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"

#define CHUNK 65536
#define BUFFER_MAX (4 * CHUNK + BX_FRAME_MAX + 4)
#define ROUNDS_MAX 4 /* reads from one side before others of the loop have their turn */

struct end {
    int fd;
    struct bx_source *source;
    struct bx_buf out; /* to be written to fd */
};

struct bx_relay {
    struct end guest, net;
    struct bx_buf in; /* from the guest, not yet whole frames */
    struct bx_net_filter filter;
    uint64_t dropped;
};

static void end_done(struct end *e)
{
    bx_source_free(steal_ptr(&e->source));
    bx_close(&e->fd);
    bx_buf_done(&e->out);
}

static void hang_up(struct bx_relay *r)
{
    end_done(&r->guest);
    end_done(&r->net);
}

void bx_relay_free(struct bx_relay *r)
{
    if (r) {
        hang_up(r);
        bx_buf_done(&r->in);
        free(r);
    }
}

void bx_relay_set_own(struct bx_relay *r, const uint32_t *own, size_t n)
{
    bx_net_filter_set_own(&r->filter, own, n);
}

uint64_t bx_relay_dropped(const struct bx_relay *r)
{
    return r->dropped;
}

/* Room for one more chunk and what a filter may add to it. */
static bool has_room(const struct end *e)
{
    return e->out.len <= CHUNK;
}

/* One read. Bytes, 0: nothing there, -EPIPE: the end, -errno. */
static ssize_t receive(int fd, struct bx_buf *b)
{
    void *p = bx_buf_reserve(b, CHUNK);

    if (!p) {
        return -errno;
    }
    ssize_t n = recv(fd, p, CHUNK, MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    }
    if (n == 0) {
        return -EPIPE;
    }
    bx_buf_commit(b, (size_t)n);
    return n;
}

static int flush(struct end *e)
{
    while (e->out.len > 0) {
        ssize_t n = send(e->fd, bx_buf_data(&e->out), e->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        }
        bx_buf_consume(&e->out, (size_t)n);
    }
    return 0;
}

static int from_guest(struct bx_relay *r)
{
    for (int i = 0; i < ROUNDS_MAX && has_room(&r->net); i++) {
        ssize_t n = receive(r->guest.fd, &r->in);
        if (n <= 0) {
            return (int)n;
        }
        int e = bx_net_filter_stream(&r->filter, &r->in, &r->net.out, &r->dropped);
        e = e < 0 ? e : flush(&r->net);
        if (e < 0) {
            return e;
        }
    }
    return 0;
}

static int from_net(struct bx_relay *r)
{
    for (int i = 0; i < ROUNDS_MAX && has_room(&r->guest); i++) {
        ssize_t n = receive(r->net.fd, &r->guest.out);
        int e = n <= 0 ? (int)n : flush(&r->guest);
        if (n <= 0 || e < 0) {
            return e;
        }
    }
    return 0;
}

/* Write what waits, read where there is room, and ask to be told when either is possible again. */
static void on_event(void *data, uint32_t events)
{
    struct bx_relay *r = data;
    int e = events & (EPOLLHUP | EPOLLERR) ? -EPIPE : flush(&r->guest);

    e = e < 0 ? e : flush(&r->net);
    e = e < 0 ? e : from_guest(r);
    e = e < 0 ? e : from_net(r);
    for (int i = 0; i < 2 && e >= 0; i++) {
        struct end *here = i ? &r->net : &r->guest, *there = i ? &r->guest : &r->net;

        e = bx_source_set_events(here->source, (has_room(there) ? EPOLLIN : 0u) |
                                                   (here->out.len > 0 ? EPOLLOUT : 0u));
    }
    if (e < 0) {
        hang_up(r);
    }
}

int bx_relay_new(struct bx_loop *loop, int take_guest, int take_net,
                 const struct bx_net_filter *filter, struct bx_relay **ret)
{
    _cleanup_close_ int guest = take_guest, net = take_net;
    struct bx_relay *r = calloc(1, sizeof(*r));

    if (!r) {
        return -ENOMEM;
    }
    *r = (struct bx_relay){
        .guest = {.fd = steal_fd(&guest), .out = BX_BUF_INIT(BUFFER_MAX)},
        .net = {.fd = steal_fd(&net), .out = BX_BUF_INIT(BUFFER_MAX)},
        .in = BX_BUF_INIT(BUFFER_MAX),
        .filter = *filter,
    };
    int e = bx_loop_add_fd(loop, r->guest.fd, EPOLLIN, on_event, r, &r->guest.source);
    if (e == 0) {
        e = bx_loop_add_fd(loop, r->net.fd, EPOLLIN, on_event, r, &r->net.source);
    }
    if (e < 0) {
        bx_relay_free(r);
        return e;
    }
    *ret = r;
    return 0;
}
