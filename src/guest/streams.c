/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.c: see streams.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "guest/streams.h"

/* Chunks of one stream in a row before others get their turn. */
#define CHUNKS_MAX 4
#define SINKS_MAX 256
/* See streams.h: a stream that is read empty twice within BURST rests for REST, if it gave less than ENOUGH. */
#define BURST (3 * BX_MS)
#define REST BX_MS
#define ENOUGH (64u * 1024u)
#define PIPE_SIZE (512 * 1024)

/* ---- what nobody reads any more ---------------------------------------------------------------- */

/* Descriptors of commands that have ended while something they left behind still may write. */
struct sink {
    int fd;
    struct bx_source *source;
};

static struct sink sinks[SINKS_MAX];
static size_t next_sink;
static uint8_t chunk[16384];

static void sink_close(struct sink *k)
{
    if (k->source) {
        bx_source_free(steal_ptr(&k->source));
        bx_close(&k->fd);
    }
}

static void on_sink(void *data, uint32_t events)
{
    struct sink *k = data;
    ssize_t n = read(k->fd, chunk, sizeof(chunk));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        sink_close(k);
    }
}

/* The oldest makes room: its writers then get EPIPE, which is the lesser evil. */
static void sink_add(struct bx_loop *loop, int take_fd)
{
    struct sink *k = &sinks[next_sink++ % SINKS_MAX];
    sink_close(k);
    k->fd = take_fd;
    if (bx_loop_add_fd(loop, take_fd, EPOLLIN, on_sink, k, &k->source) < 0) {
        k->source = NULL;
        bx_close(&k->fd);
    }
}

/* ---- output ------------------------------------------------------------------------------------- */

static void out_end(struct out_stream *s)
{
    if (s->fd < 0) {
        return;
    }
    out_stream_close(s);
    (void)bx_conn_send_eof(s->agent->conn, s->channel);
    bx_conn_io_kick(s->agent->io);
    s->ended(s->data);
}

/* The end although something still holds the descriptor open. */
static void out_end_early(struct out_stream *s)
{
    int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0) {
        sink_add(s->agent->loop, fd);
    }
    out_end(s);
}

/* Read empty after `got` bytes: wait for more, at once or after a rest. */
static void await_more(struct out_stream *s, size_t got)
{
    uint64_t now = bx_now_mono();
    bool burst = got > 0 && now - s->emptied < BURST;
    s->emptied = got > 0 ? now : s->emptied;
    if (burst && got < ENOUGH) {
        (void)bx_source_set_events(s->source, 0);
        bx_source_set_deadline(s->rest, now + REST);
    } else {
        (void)bx_source_set_events(s->source, EPOLLIN);
    }
}

/* Reads and queues one chunk. False: nothing more for now (waiting is arranged), or ended. */
static bool pump_chunk(struct out_stream *s, size_t *got)
{
    struct bx_conn *conn = s->agent->conn;
    size_t want;
    if (s->budget == 0) {
        out_end_early(s);
        return false;
    }
    void *p = bx_conn_reserve(conn, s->channel, &want);
    if (!p) {
        if (bx_conn_room(conn, s->channel) > 0) {
            agent_fatal(s->agent, ENOMEM, "no memory for a command's output");
        }
        (void)bx_source_set_events(s->source, 0);
        return false;
    }
    if (s->budget > 0 && (uint64_t)s->budget < want) {
        want = (size_t)s->budget;
    }
    ssize_t n = read(s->fd, p, want);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (s->budget > 0) {
            out_end_early(s);
        } else {
            await_more(s, *got);
        }
        return false;
    }
    if (n <= 0) { /* a terminal ends with EIO */
        out_end(s);
        return false;
    }
    bx_conn_commit(conn, s->channel, (size_t)n);
    *got += (size_t)n;
    s->budget -= s->budget > 0 ? n : 0;
    return true;
}

static void pump(struct out_stream *s)
{
    struct agent *a = s->agent;
    if (s->fd < 0) {
        return;
    }
    size_t got = 0;
    int i = 0;
    while (i < CHUNKS_MAX && pump_chunk(s, &got)) {
        i++;
    }
    if (i == CHUNKS_MAX) {
        (void)bx_source_set_events(s->source, EPOLLIN); /* others first */
    } /* else s may be gone: its end may have been the command's */
    bx_conn_io_kick(a->io);
}

static void on_readable(void *data, uint32_t events)
{
    pump(data);
}

static void on_rested(void *data)
{
    pump(data);
}

int out_stream_open(struct out_stream *s, struct agent *a, int take_fd, uint32_t channel,
                    void (*ended)(void *data), void *data)
{
    *s = (struct out_stream){
        .agent = a, .channel = channel, .fd = take_fd, .budget = -1, .ended = ended, .data = data};
    (void)fcntl(take_fd, F_SETPIPE_SZ, PIPE_SIZE); /* fails on a terminal, and there it does not matter */
    int r = bx_loop_add_fd(a->loop, take_fd, EPOLLIN, on_readable, s, &s->source);
    r = r < 0 ? r : bx_loop_add_timer(a->loop, BX_NEVER, on_rested, s, &s->rest);
    if (r < 0) {
        out_stream_close(s);
    }
    return r;
}

void out_stream_writable(struct out_stream *s)
{
    pump(s);
}

void out_stream_reset(struct out_stream *s)
{
    pump(s); /* the conn swallows it from now on, so it flows */
}

void out_stream_finish(struct out_stream *s)
{
    int held = 0;
    if (s->fd < 0 || s->budget >= 0) {
        return;
    }
    s->budget = ioctl(s->fd, FIONREAD, &held) == 0 && held > 0 ? held : 0;
    pump(s);
}

void out_stream_close(struct out_stream *s)
{
    bx_source_free(steal_ptr(&s->source));
    bx_source_free(steal_ptr(&s->rest));
    bx_close(&s->fd);
}

/* ---- input -------------------------------------------------------------------------------------- */

#define CTRL_D 0x04

void in_stream_close(struct in_stream *s)
{
    bx_source_free(steal_ptr(&s->source));
    bx_close(&s->fd);
    bx_buf_done(&s->queue);
}

/* The command reads no more: the host need not send what nobody takes. */
static void in_stream_broken(struct in_stream *s)
{
    in_stream_close(s);
    (void)bx_conn_send_reset(s->agent->conn, s->channel);
    bx_conn_io_kick(s->agent->io);
}

/* Writes as much as goes: bytes, 0 if the descriptor is full, -errno. */
static ssize_t in_write(struct in_stream *s, const uint8_t *p, size_t len)
{
    ssize_t n;
    do {
        n = write(s->fd, p, len);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN ? 0 : -errno;
    }
    if (n > 0) {
        s->line_start = p[n - 1] == '\n';
        (void)bx_conn_consumed(s->agent->conn, s->channel, (size_t)n);
    }
    return n;
}

static void in_finish(struct in_stream *s)
{
    if (s->tty) {
        /* At the start of a line one end-of-file character is the end; after text the first only
         * hands the text over. */
        static const uint8_t end[2] = {CTRL_D, CTRL_D};
        (void)!write(s->fd, end, s->line_start ? 1 : 2);
    }
    in_stream_close(s);
}

static void in_drain(struct in_stream *s)
{
    while (s->queue.len > 0) {
        ssize_t n = in_write(s, bx_buf_data(&s->queue), s->queue.len);
        if (n < 0) {
            in_stream_broken(s);
            return;
        }
        if (n == 0) {
            (void)bx_source_set_events(s->source, EPOLLOUT);
            return;
        }
        bx_buf_consume(&s->queue, (size_t)n);
    }
    (void)bx_source_set_events(s->source, 0);
    if (s->eof) {
        in_finish(s);
    }
}

static void on_in_event(void *data, uint32_t events)
{
    struct in_stream *s = data;
    in_drain(s);
    bx_conn_io_kick(s->agent->io);
}

int in_stream_open(struct in_stream *s, struct agent *a, int take_fd, uint32_t channel, bool tty)
{
    *s = (struct in_stream){.agent = a,
                            .channel = channel,
                            .fd = take_fd,
                            .tty = tty,
                            .line_start = true,
                            .queue = BX_BUF_INIT(BX_WIRE_WINDOW)};
    int r = bx_loop_add_fd(a->loop, take_fd, 0, on_in_event, s, &s->source);
    if (r < 0) {
        bx_close(&s->fd);
    }
    return r;
}

void in_stream_bytes(struct in_stream *s, const uint8_t *p, size_t len)
{
    if (s->fd < 0 || s->eof) {
        (void)bx_conn_send_reset(s->agent->conn, s->channel);
        return;
    }
    if (s->queue.len == 0) {
        ssize_t n = in_write(s, p, len);
        if (n < 0) {
            in_stream_broken(s);
            return;
        }
        p += n;
        len -= (size_t)n;
    }
    /* The queue holds a whole window, so only memory can be short. */
    if (len > 0 && bx_buf_append(&s->queue, p, len) < 0) {
        in_stream_broken(s);
        return;
    }
    if (len > 0) {
        (void)bx_source_set_events(s->source, EPOLLOUT);
    }
}

void in_stream_eof(struct in_stream *s)
{
    s->eof = true;
    if (s->fd >= 0 && s->queue.len == 0) {
        in_finish(s);
    }
}
