/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.c: virtio-net (virtio 1.2, 5.1) with one pair of queues and no offloads: the other end wants
 * whole frames with whole checksums.
 *
 * To the guest: the socket is read in large pieces into a buffer; each whole frame goes into as many
 * of the guest's buffers as it needs (MRG_RXBUF), which become visible to the driver at once. When
 * the guest gives too few, the frames stay in the buffer, then in the socket, and the sender waits.
 * From the guest: one frame a chain. What the socket takes only in part is finished later, before
 * anything else: the stream's framing must never break.
 *
 * The guest controls: the size of its buffers, and its frames (who is behind the socket filters
 * them). The other end is not trusted either: a length of 0 or over the maximum ends the network.
 */
#include "vmm/kvm/dev/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/virtio_ids.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"

enum { RX, TX, QUEUES };
#define PREFIX sizeof(uint32_t)
#define HEADER sizeof(struct virtio_net_hdr_v1)
#define MERGE_MAX 64 /* buffers for one frame: 65550 bytes in 1.5 KiB each are 44 */

static struct bx_net *of(struct bx_virtio *v)
{
    return (struct bx_net *)v;
}

/* ---- to the guest ------------------------------------------------------------------------------- */

/* Writes header and frame into one chain from byte `off` of both together: bytes written. */
static size_t fill(const struct bx_chain *c, const struct virtio_net_hdr_v1 *h,
                   const uint8_t *frame, size_t len, size_t off)
{
    const struct iovec *in = bx_chain_in(c);
    size_t n = 0;

    if (off < HEADER) {
        n = bx_iov_write(in, c->nin, 0, (const uint8_t *)h + off, HEADER - off);
        off += n;
    }
    if (off >= HEADER) {
        n += bx_iov_write(in, c->nin, n, frame + (off - HEADER), len - (off - HEADER));
    }
    return n;
}

/* Where the count of buffers stands in the first of them; the header may lie in several pieces. */
static void set_count(const struct bx_chain *first, unsigned n)
{
    uint16_t count = (uint16_t)n;

    (void)bx_iov_write(bx_chain_in(first), first->nin,
                       offsetof(struct virtio_net_hdr_v1, num_buffers), &count, sizeof(count));
}

/* False: the guest has too few buffers now, *ret_have. */
static bool give_frame(struct bx_net *n, const uint8_t *frame, size_t len, unsigned *ret_have)
{
    const struct virtio_net_hdr_v1 h = {.num_buffers = 1};
    bool merge = bx_virtio_has(&n->v, VIRTIO_NET_F_MRG_RXBUF);
    struct bx_vq *vq = &n->v.vq[RX];
    struct bx_chain first, c;
    size_t off = 0;
    unsigned used = 0;

    while (off < HEADER + len && used < (merge ? MERGE_MAX : 1)) {
        struct bx_chain *chain = used == 0 ? &first : &c;
        if (!bx_virtio_pop(&n->v, RX, chain)) {
            bx_vq_unpop(vq, used);
            vq->s.next_used -= (uint16_t)used;
            *ret_have = used;
            return false;
        }
        if (chain->in_len < HEADER) { /* no room for what every buffer must hold */
            bx_virtio_break(&n->v);
            return false;
        }
        size_t part = fill(chain, &h, frame, len, off);
        bx_vq_stage(vq, chain->head, (uint32_t)part);
        off += part;
        used++;
    }
    n->dropped += off < HEADER + len; /* cut short: the guest's stack drops it */
    n->v.n.bytes_in += len;
    set_count(&first, used);
    bx_vq_publish(vq);
    return true;
}

/* The next whole frame in the buffer, or NULL. */
static const uint8_t *next_frame(struct bx_net *n, size_t *ret_len)
{
    uint32_t len;

    if (n->end - n->start < PREFIX) {
        return NULL;
    }
    memcpy(&len, n->buf + n->start, sizeof(len));
    len = ntohl(len);
    if (len == 0 || len > BX_NET_FRAME_MAX) {
        n->gone = true;
        return NULL;
    }
    if (n->end - n->start - PREFIX < len) {
        return NULL;
    }
    *ret_len = len;
    return n->buf + n->start + PREFIX;
}

/* Reads once. False: nothing there. */
static bool read_socket(struct bx_net *n)
{
    if (n->start > 0) {
        memmove(n->buf, n->buf + n->start, n->end - n->start);
        n->end -= n->start;
        n->start = 0;
    }
    ssize_t got = recv(n->fd, n->buf + n->end, BX_NET_BUFFER - n->end, MSG_DONTWAIT);
    if (got > 0) {
        n->end += (size_t)got;
        return true;
    }
    if (got < 0 && errno == EINTR) {
        return true;
    }
    n->readable = false;
    n->gone = n->gone || got == 0 || errno != EAGAIN;
    return false;
}

static void host_to_guest(struct bx_net *n)
{
    const uint8_t *frame;
    size_t len;
    unsigned have = 0;

    while (!n->gone) {
        frame = next_frame(n, &len);
        if (!frame) {
            if (n->gone || !n->readable || !read_socket(n)) {
                break;
            }
            continue;
        }
        if (give_frame(n, frame, len, &have)) {
            n->start += PREFIX + len;
        } else if (!bx_virtio_live(&n->v) || !bx_vq_wait(&n->v.vq[RX], have)) {
            break;
        }
    }
    bx_virtio_signal(&n->v, RX);
}

/* ---- from the guest ------------------------------------------------------------------------------ */

/* Sends what is left of a frame. True: all of it is gone. */
static bool send_frame(struct bx_net *n, const struct bx_chain *c)
{
    size_t len = c->out_len - HEADER;
    uint32_t prefix = htonl((uint32_t)len);
    struct iovec iov[BX_CHAIN_MAX + 1];

    while (n->tx_off < PREFIX + len && !n->gone) {
        size_t skip = n->tx_off < PREFIX ? n->tx_off : PREFIX;
        unsigned pieces = 0;

        if (skip < PREFIX) {
            iov[pieces++] = (struct iovec){(uint8_t *)&prefix + skip, PREFIX - skip};
        }
        pieces += bx_iov_cut(c->iov, c->nout, HEADER + (n->tx_off - skip), len, iov + pieces);
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = pieces};
        ssize_t r = sendmsg(n->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (r >= 0) {
            n->tx_off += (uint64_t)r;
        } else if (errno == EAGAIN) {
            n->writable = false;
            return false;
        } else {
            n->gone = errno != EINTR;
        }
    }
    n->v.n.bytes_out += len;
    n->tx_off = 0;
    return true;
}

static void guest_to_host(struct bx_net *n)
{
    struct bx_vq *vq = &n->v.vq[TX];
    struct bx_chain c;

    do {
        while ((n->writable || n->gone) && bx_virtio_pop(&n->v, TX, &c)) {
            bool sound = c.out_len > HEADER && c.out_len - HEADER <= BX_NET_FRAME_MAX;

            n->dropped += !sound;
            if (sound && !n->gone && !send_frame(n, &c)) {
                bx_vq_unpop(vq, 1);
                break;
            }
            bx_virtio_push(&n->v, TX, &c, 0);
        }
    } while ((n->writable || n->gone) && bx_virtio_live(&n->v) && bx_vq_wait(vq, 0));
    bx_virtio_signal(&n->v, TX);
}

static void work(struct bx_virtio *v)
{
    guest_to_host(of(v));
    host_to_guest(of(v));
}

void bx_net_socket(struct bx_net *n, uint32_t events)
{
    (void)pthread_mutex_lock(&n->v.lock);
    n->readable |= (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    n->writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
    if (bx_virtio_live(&n->v)) {
        work(&n->v);
    }
    (void)pthread_mutex_unlock(&n->v.lock);
}

/* A driver that resets in the middle of a frame has left the stream there: nothing can be sent after
 * that any more. */
static void reset(struct bx_virtio *v)
{
    struct bx_net *n = of(v);

    n->gone = n->gone || n->tx_off > 0;
    n->tx_off = 0;
}

int bx_net_init(struct bx_net *n, const struct bx_gmem *mem, int fd, const uint8_t mac[6],
                boxlite_error **err)
{
    static const struct bx_virtio_ops ops = {
        .name = "net",
        .id = VIRTIO_ID_NET,
        .nqueues = QUEUES,
        .queue_max = 256,
        .features = 1ull << VIRTIO_NET_F_MAC | 1ull << VIRTIO_NET_F_MRG_RXBUF,
        .reset = reset,
        .work = work,
    };

    *n = (struct bx_net){.fd = fd, .buf = malloc(BX_NET_BUFFER)};
    if (!n->buf) {
        return bx_fail_oom(err);
    }
    memcpy(n->config.mac, mac, sizeof(n->config.mac));
    bx_virtio_init(&n->v, &ops, mem, 0, &n->config, sizeof(n->config));
    return 0;
}

void bx_net_done(struct bx_net *n)
{
    free(n->buf);
    bx_virtio_done(&n->v);
}
