/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c: see server.h.
 *
 * One request after the other, in one thread: what the host's kernel does for one takes microseconds, and
 * there is nothing to lock. Requests that came together are read together. Writing blocks when the
 * guest does not take its answers, which is the guest's own loss.
 */
#include "share/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "share/watch.h"

#define PREFIX sizeof(uint32_t)
#define IN_SIZE (2 * (BX_FUSE_REQUEST_MAX + PREFIX))

struct server {
    int socket;
    int error;              /* of writing: ends the serving */
    struct bx_watch *watch; /* NULL: none */
    struct bx_export *trees;
    struct sender {
        struct server *server;
        uint32_t index;
    } * senders;
    size_t n;
    size_t len;
    uint8_t in[IN_SIZE];
    uint8_t out[BX_FUSE_REPLY_MAX];
};

/* ---- output */

static void send_message(struct server *s, uint32_t tree, const struct fuse_out_header *head,
                         const void *body)
{
    struct iovec v[] = {
        {&tree, sizeof(tree)},
        {(void *)head, sizeof(*head)},
        {(void *)body, head->len - sizeof(*head)},
    };
    struct msghdr msg = {.msg_iov = v, .msg_iovlen = BX_ARRAY_SIZE(v)};
    while (msg.msg_iovlen > 0 && s->error == 0) {
        ssize_t n = sendmsg(s->socket, &msg, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            s->error = -errno;
        }
        while (n > 0 && msg.msg_iovlen > 0) { /* step over what was taken */
            size_t step = (size_t)n < msg.msg_iov->iov_len ? (size_t)n : msg.msg_iov->iov_len;
            msg.msg_iov->iov_base = (uint8_t *)msg.msg_iov->iov_base + step;
            msg.msg_iov->iov_len -= step;
            n -= (ssize_t)step;
            if (msg.msg_iov->iov_len > 0) {
                break;
            }
            msg.msg_iov++;
            msg.msg_iovlen--;
        }
        while (msg.msg_iovlen > 0 && msg.msg_iov->iov_len == 0) {
            msg.msg_iov++;
            msg.msg_iovlen--;
        }
    }
}

static void notify(void *data, const struct fuse_out_header *head, const void *body)
{
    const struct sender *from = data;
    send_message(from->server, from->index, head, body);
}

/* ---- input */

static int on_control(struct server *s, const uint8_t *msg, uint32_t len)
{
    struct bx_share_owner owner;
    if (len != sizeof(owner)) {
        return -EPROTO;
    }
    memcpy(&owner, msg, sizeof(owner));
    if (owner.kind != BX_SHARE_OWNER) {
        return -EPROTO;
    }
    for (size_t i = 0; i < s->n; i++) {
        bx_export_set_owner(&s->trees[i], owner.uid, owner.gid);
    }
    return 0;
}

static int on_message(struct server *s, uint32_t tree, const uint8_t *msg, uint32_t len)
{
    struct fuse_out_header head = {0};
    if (tree == BX_SHARE_CONTROL) {
        return on_control(s, msg, len);
    }
    if (tree >= s->n || len < sizeof(struct fuse_in_header)) {
        return -EPROTO;
    }
    if (bx_export_serve(&s->trees[tree], msg, len, &head, s->out)) {
        send_message(s, tree, &head, s->out);
    }
    return s->error;
}

/* Handles the records that are whole; keeps the rest. */
static int handle(struct server *s)
{
    size_t at = 0;
    int r = 0;
    while (r == 0 && s->len - at >= PREFIX + sizeof(uint32_t)) {
        uint32_t tree, len;
        memcpy(&tree, s->in + at, sizeof(tree));
        len = bx_fuse_length(s->in + at + PREFIX, sizeof(uint32_t));
        if (len < sizeof(uint32_t) || len > BX_FUSE_REQUEST_MAX) {
            return -EPROTO;
        }
        if (s->len - at - PREFIX < len) {
            break;
        }
        r = on_message(s, tree, s->in + at + PREFIX, len);
        at += PREFIX + len;
    }
    memmove(s->in, s->in + at, s->len - at);
    s->len -= at;
    return r;
}

/* Waits for requests, and meanwhile passes on what the host changes. */
static void wait_input(struct server *s)
{
    struct pollfd p[] = {{.fd = s->socket, .events = POLLIN},
                         {.fd = s->watch ? bx_watch_fd(s->watch) : -1, .events = POLLIN}};
    do {
        if (poll(p, BX_ARRAY_SIZE(p), -1) < 0) {
            return; /* read() tells */
        }
        if (p[1].revents) {
            bx_watch_drain(s->watch);
        }
    } while (!p[0].revents && s->error == 0);
}

static int serve(struct server *s)
{
    for (;;) {
        wait_input(s);
        ssize_t n = read(s->socket, s->in + s->len, sizeof(s->in) - s->len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0 || s->error < 0) {
            return n < 0 && errno != ECONNRESET ? -errno : 0;
        }
        s->len += (size_t)n;
        int r = handle(s);
        if (r < 0) {
            return r == -EPIPE || r == -ECONNRESET ? 0 : r;
        }
    }
}

int bx_share_serve(int socket, const struct bx_export_options *trees, size_t n,
                   struct bx_watch *watch)
{
    struct server *s = calloc(1, sizeof(*s));
    struct bx_export *t = s ? calloc(n ? n : 1, sizeof(*t)) : NULL;
    struct sender *senders = t ? calloc(n ? n : 1, sizeof(*senders)) : NULL;
    int r = senders ? 0 : -ENOMEM;
    size_t made = 0;
    for (; r == 0 && made < n; made += r == 0) {
        struct bx_export_options opt = trees[made];
        senders[made] = (struct sender){s, (uint32_t)made};
        opt.notify = notify;
        opt.data = &senders[made];
        opt.watch = watch;
        r = bx_export_init(&t[made], &opt);
    }
    if (r == 0) {
        s->socket = socket;
        s->watch = watch;
        s->trees = t;
        s->senders = senders;
        s->n = n;
        r = serve(s);
    }
    for (size_t i = 0; i < made; i++) {
        bx_export_done(&t[i]);
    }
    free(senders);
    free(t);
    free(s);
    return r;
}
