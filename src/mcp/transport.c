/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.c: the stdio transport (MCP, "Transports"): one JSON object a line, UTF-8.
 *
 * In: lines are cut from what read(2) gives, CRLF and blank lines accepted; a line over MCP_LINE_MAX is dropped as it
 * comes and reported once. Out: messages are queued whole and written without waiting, so a client that does not read
 * cannot stop us from reading its cancellation; the queue is bounded, over it the client counts as gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcp/mcp.h"

#define OUT_MAX (256u * 1024u * 1024u)
#define READ_SIZE (256u * 1024u)

struct bytes {
    char *p;
    size_t off, len, cap;
};

struct mcp_transport {
    int in_fd, out_fd;
    mcp_line_fn fn;
    void *data;
    struct bytes in, out;
    size_t scanned;  /* bytes of in that hold no newline */
    bool skipping;   /* inside a line that is too long */
};

static int bytes_reserve(struct bytes *b, size_t n)
{
    size_t cap = b->cap ? b->cap : 65536;
    char *p;

    if (b->off > 0) {
        memmove(b->p, b->p + b->off, b->len);
        b->off = 0;
    }
    if (b->len + n <= b->cap) {
        return 0;
    }
    while (cap < b->len + n) {
        cap *= 2;
    }
    p = realloc(b->p, cap);
    if (!p) {
        return -ENOMEM;
    }
    b->p = p;
    b->cap = cap;
    return 0;
}

static void bytes_consume(struct bytes *b, size_t n)
{
    b->off += n;
    b->len -= n;
    if (b->len == 0) {
        b->off = 0;
    }
}

int mcp_transport_new(int in_fd, int out_fd, mcp_line_fn fn, void *data, struct mcp_transport **ret)
{
    struct mcp_transport *t = calloc(1, sizeof(*t));
    if (!t) {
        return -ENOMEM;
    }
    t->in_fd = in_fd;
    t->out_fd = out_fd;
    t->fn = fn;
    t->data = data;
    *ret = t;
    return 0;
}

void mcp_transport_free(struct mcp_transport *t)
{
    if (t) {
        free(t->in.p);
        free(t->out.p);
        free(t);
    }
}

static void hand_over(struct mcp_transport *t, const char *line, size_t len)
{
    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' ' || line[len - 1] == '\t')) {
        len--;
    }
    if (len > 0) {
        t->fn(t->data, line, len);
    }
}

static void cut_lines(struct mcp_transport *t)
{
    struct bytes *in = &t->in;
    for (;;) {
        char *start = in->p + in->off;
        char *nl = in->len > t->scanned ? memchr(start + t->scanned, '\n', in->len - t->scanned) : NULL;
        if (!nl) {
            t->scanned = in->len;
            break;
        }
        size_t len = (size_t)(nl - start);
        if (!t->skipping) {
            hand_over(t, start, len);
        }
        t->skipping = false;
        bytes_consume(in, len + 1);
        t->scanned = 0;
    }
    if (in->len > MCP_LINE_MAX) {
        if (!t->skipping) {
            t->fn(t->data, NULL, 0);
        }
        t->skipping = true;
    }
    if (t->skipping) {
        bytes_consume(in, in->len);
        t->scanned = 0;
    }
}

int mcp_transport_read(struct mcp_transport *t)
{
    ssize_t n;
    int r = bytes_reserve(&t->in, READ_SIZE);
    if (r < 0) {
        return r;
    }
    n = read(t->in_fd, t->in.p + t->in.off + t->in.len, READ_SIZE);
    if (n < 0) {
        return errno == EINTR || errno == EAGAIN ? 1 : -errno;
    }
    if (n == 0) {
        if (t->in.len > 0 && !t->skipping) { /* a last line without newline */
            hand_over(t, t->in.p + t->in.off, t->in.len);
        }
        return 0;
    }
    t->in.len += (size_t)n;
    cut_lines(t);
    return 1;
}

int mcp_transport_flush(struct mcp_transport *t)
{
    while (t->out.len > 0) {
        ssize_t n = write(t->out_fd, t->out.p + t->out.off, t->out.len);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return errno == EAGAIN ? 0 : -errno;
        }
        bytes_consume(&t->out, (size_t)n);
    }
    return 0;
}

bool mcp_transport_pending(const struct mcp_transport *t)
{
    return t->out.len > 0;
}

int mcp_transport_send(struct mcp_transport *t, const json_t *message)
{
    _cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0;
    int r;

    if (!text) {
        return -ENOMEM;
    }
    if (t->out.len + len + 1 > OUT_MAX) {
        return -ENOBUFS;
    }
    r = bytes_reserve(&t->out, len + 1);
    if (r < 0) {
        return r;
    }
    memcpy(t->out.p + t->out.off + t->out.len, text, len);
    t->out.p[t->out.off + t->out.len + len] = '\n';
    t->out.len += len + 1;
    return 0;
}
