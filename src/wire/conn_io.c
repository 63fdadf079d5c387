/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_io.c: a conn on a descriptor and a loop. See conn_io.h.
 *
 * The end of a link is told once, and only after everything that the peer sent has been fed: a failed
 * write alone does not end it (the peer may have said its last words before it closed), it only ends the
 * writing. A free inside a callback is put off until the outermost call returns, as in conn.c.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "wire/conn_io.h"

#define READ_SIZE (256u * 1024u)
/* Reads in a row before other sources of the loop get their turn. */
#define READS_MAX 8

struct bx_conn_io {
    struct bx_loop *loop;
    struct bx_conn *conn;
    struct bx_source *source;
    struct bx_source *kick;
    bx_conn_closed_fn closed_fn;
    void *data;
    int fd;
    unsigned depth;
    bool freed;
    bool socket;
    bool paused;
    bool ended;      /* closed_fn was called */
    bool write_dead; /* the peer takes nothing more */
    bool want_out;
    uint8_t buf[READ_SIZE];
};

static void destroy(struct bx_conn_io *io)
{
    bx_close(&io->fd);
    free(io);
}

static void leave(struct bx_conn_io *io)
{
    if (--io->depth == 0 && io->freed) {
        destroy(io);
    }
}

static void end(struct bx_conn_io *io, int error)
{
    if (io->ended || io->freed) {
        return;
    }
    io->ended = true;
    bx_source_free(steal_ptr(&io->source));
    bx_source_free(steal_ptr(&io->kick));
    io->closed_fn(io->data, error);
}

static void watch(struct bx_conn_io *io)
{
    if (io->source) {
        (void)bx_source_set_events(io->source, (io->paused ? 0u : (uint32_t)EPOLLIN) |
                                                   (io->want_out ? (uint32_t)EPOLLOUT : 0u));
    }
}

static ssize_t put(struct bx_conn_io *io, const uint8_t *p, size_t len)
{
    ssize_t n;
    do {
        n = io->socket ? send(io->fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT) : write(io->fd, p, len);
    } while (n < 0 && errno == EINTR);
    /* A guest's port needs memory for every write. Short of it, the next turn of the loop tries again. */
    return n >= 0 ? n : errno == ENOMEM ? -EAGAIN : -errno;
}

/* Writes what is pending until the descriptor takes no more. 1: all written, 0: not all, -errno. */
static int drain(struct bx_conn_io *io)
{
    for (;;) {
        size_t len;
        const uint8_t *p = bx_conn_pending(io->conn, &len);
        if (len == 0) {
            return 1;
        }
        ssize_t n = io->write_dead ? (ssize_t)len : put(io, p, len);
        if (n == -EAGAIN || n == 0) {
            return 0;
        }
        if (n < 0) {
            io->write_dead = true; /* what the peer sent before is still worth reading */
            continue;
        }
        bx_conn_written(io->conn, (size_t)n);
        if (io->freed || io->ended) {
            return 1;
        }
    }
}

static void flush(struct bx_conn_io *io)
{
    if (io->ended || io->freed) {
        return;
    }
    bool want = drain(io) == 0;
    if (!io->freed && want != io->want_out) {
        io->want_out = want;
        watch(io);
    }
}

/* One read. True: there may be more. */
static bool read_some(struct bx_conn_io *io)
{
    ssize_t n = read(io->fd, io->buf, READ_SIZE);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            end(io, errno == ECONNRESET ? 0 : -errno);
        }
        return false;
    }
    if (n == 0) {
        end(io, 0);
        return false;
    }
    int r = bx_conn_feed(io->conn, io->buf, (size_t)n);
    if (r < 0) {
        end(io, r);
        return false;
    }
    return !io->freed && !io->ended && !io->paused;
}

static void on_event(void *data, uint32_t events)
{
    struct bx_conn_io *io = data;
    io->depth++;
    if (!io->paused && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        for (int i = 0; i < READS_MAX && read_some(io); i++) {
            flush(io);
        }
    }
    flush(io);
    leave(io);
}

static void on_kick(void *data)
{
    struct bx_conn_io *io = data;
    io->kick = NULL; /* it frees itself after this call */
    io->depth++;
    flush(io);
    leave(io);
}

int bx_conn_io_new(struct bx_loop *loop, int take_fd, struct bx_conn *conn,
                   bx_conn_closed_fn closed, void *data, struct bx_conn_io **ret)
{
    int type;
    socklen_t len = sizeof(type);
    struct bx_conn_io *io = calloc(1, sizeof(*io));
    int r = io ? bx_set_nonblock(take_fd, true) : -ENOMEM;
    if (r == 0) {
        io->loop = loop;
        io->conn = conn;
        io->closed_fn = closed;
        io->data = data;
        io->fd = take_fd;
        io->socket = getsockopt(take_fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
        r = bx_loop_add_fd(loop, take_fd, EPOLLIN, on_event, io, &io->source);
    }
    if (r < 0) {
        free(io);
        (void)close(take_fd);
        return r;
    }
    bx_conn_io_kick(io); /* the HELLO */
    *ret = io;
    return 0;
}

void bx_conn_io_free(struct bx_conn_io *io)
{
    if (!io) {
        return;
    }
    bx_source_free(steal_ptr(&io->source));
    bx_source_free(steal_ptr(&io->kick));
    io->freed = true;
    if (io->depth == 0) {
        destroy(io);
    }
}

void bx_conn_io_kick(struct bx_conn_io *io)
{
    /* In a callback of ours the flush at its end does it. */
    if (io->depth > 0 || io->kick || io->ended || io->freed || io->want_out) {
        return;
    }
    if (bx_loop_add_defer(io->loop, on_kick, io, &io->kick) < 0) {
        io->kick = NULL;
        io->want_out = true; /* no memory: the next turn of the loop does the same */
        watch(io);
    }
}

void bx_conn_io_pause(struct bx_conn_io *io, bool paused)
{
    if (io->paused == paused || io->ended || io->freed) {
        return;
    }
    io->paused = paused;
    watch(io);
}

int bx_conn_io_flush(struct bx_conn_io *io, uint64_t deadline)
{
    int r = 0;
    io->depth++;
    while (!io->ended && !io->freed && (r = drain(io)) == 0) {
        struct pollfd p = {.fd = io->fd, .events = POLLOUT};
        int n = poll(&p, 1, bx_deadline_left_ms(deadline));
        if (n == 0) {
            r = -ETIMEDOUT;
            break;
        }
        if (n < 0 && errno != EINTR) {
            r = -errno;
            break;
        }
    }
    if (r >= 0) {
        r = io->write_dead ? -EPIPE : 0;
    }
    leave(io);
    return r;
}
