/* SPDX-License-Identifier: Apache-2.0 */
/*
 * console.c: virtio-console (virtio 1.2, 5.3) with MULTIPORT and a single port.
 *
 * Queues: 0 to the port, 1 from the port, 2 and 3 the same for control messages. The port is made
 * known by control messages: the driver says DEVICE_READY, we say PORT_ADD; it says PORT_READY, we
 * say its name and that our end is open; from PORT_OPEN on, bytes flow. What we have to say is a set
 * of bits, so a driver that gives no buffers costs nothing.
 *
 * Bytes go directly between the guest's buffers and the socket. The socket is watched edge-triggered:
 * `readable` and `writable` remember that there is something until the socket says EAGAIN, and a
 * guest that gives no buffers or takes nothing simply leaves it there. An output chain that the
 * socket took only in part goes back to the queue with the number of bytes that are gone.
 *
 * The guest controls: control messages (ignored unless they are whole and known), the size of each
 * buffer, and its own bytes, which mean nothing here.
 */
#include "vmm/kvm/dev/console.h"

#include <errno.h>
#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/buf.h"

enum { RX, TX, CTL_RX, CTL_TX, QUEUES };
enum send { SEND_ADD = 1, SEND_NAME = 2, SEND_OPEN = 4 };

static struct bx_console *of(struct bx_virtio *v)
{
    return (struct bx_console *)v;
}

/* ---- control messages ------------------------------------------------------------------------- */

static uint32_t write_control(const struct bx_console *c, const struct bx_chain *chain,
                              enum send what)
{
    struct virtio_console_control msg = {
        .id = 0,
        .event = what == SEND_ADD    ? VIRTIO_CONSOLE_PORT_ADD
                 : what == SEND_NAME ? VIRTIO_CONSOLE_PORT_NAME
                                     : VIRTIO_CONSOLE_PORT_OPEN,
        .value = what == SEND_OPEN ? c->s.host_open : 1,
    };
    const struct iovec *in = bx_chain_in(chain);
    size_t n = bx_iov_write(in, chain->nin, 0, &msg, sizeof(msg));

    if (what == SEND_NAME) {
        n += bx_iov_write(in, chain->nin, n, c->port_name, strlen(c->port_name));
    }
    return (uint32_t)n;
}

static void send_control(struct bx_console *c)
{
    struct bx_chain chain;

    while (c->s.to_send && bx_virtio_pop(&c->v, CTL_RX, &chain)) {
        enum send what = c->s.to_send & -c->s.to_send; /* the lowest bit goes first */

        c->s.to_send &= ~(uint32_t)what;
        bx_virtio_push(&c->v, CTL_RX, &chain, write_control(c, &chain, what));
    }
    bx_virtio_signal(&c->v, CTL_RX);
}

static void on_control(struct bx_console *c, const struct virtio_console_control *msg)
{
    switch (msg->event) {
    case VIRTIO_CONSOLE_DEVICE_READY:
        c->s.to_send |= msg->value == 1 ? SEND_ADD : 0;
        break;
    case VIRTIO_CONSOLE_PORT_READY:
        c->s.to_send |= msg->value == 1 && msg->id == 0 ? SEND_NAME | SEND_OPEN : 0;
        break;
    case VIRTIO_CONSOLE_PORT_OPEN:
        c->s.guest_open = msg->id == 0 && msg->value == 1;
        break;
    default:
        break;
    }
}

static void take_control(struct bx_console *c)
{
    struct virtio_console_control msg;
    struct bx_chain chain;

    do {
        while (bx_virtio_pop(&c->v, CTL_TX, &chain)) {
            if (bx_iov_read(chain.iov, chain.nout, 0, &msg, sizeof(msg)) == sizeof(msg)) {
                on_control(c, &msg);
            }
            bx_virtio_push(&c->v, CTL_TX, &chain, 0);
        }
    } while (bx_virtio_live(&c->v) && bx_vq_wait(&c->v.vq[CTL_TX], 0));
    bx_virtio_signal(&c->v, CTL_TX);
}

/* ---- bytes -------------------------------------------------------------------------------------- */

static void hang_up(struct bx_console *c)
{
    c->readable = c->writable = false;
    if (c->s.host_open) {
        c->s.host_open = 0;
        c->s.to_send |= SEND_OPEN;
    }
}

/* Writes what is left of a chain. True if all of it is gone (or nobody is there to take it). */
static bool write_chain(struct bx_console *c, const struct bx_chain *chain)
{
    struct iovec iov[BX_CHAIN_MAX];

    while (c->s.tx_off < chain->out_len && c->s.host_open) {
        struct msghdr msg = {.msg_iov = iov};

        msg.msg_iovlen = bx_iov_cut(chain->iov, chain->nout, c->s.tx_off, chain->out_len, iov);
        ssize_t n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            c->s.tx_off += (uint64_t)n;
            c->v.n.bytes_out += (uint64_t)n;
        } else if (errno == EAGAIN) {
            c->writable = false;
            return false;
        } else if (errno != EINTR) {
            hang_up(c);
        }
    }
    c->s.tx_off = 0;
    return true;
}

static void guest_to_host(struct bx_console *c)
{
    struct bx_vq *vq = &c->v.vq[TX];
    struct bx_chain chain;

    do {
        while (c->writable && bx_virtio_pop(&c->v, TX, &chain)) {
            if (!c->first_byte) {
                c->first_byte = true;
                if (c->on_first_byte) {
                    c->on_first_byte(c->data);
                }
            }
            if (!write_chain(c, &chain)) {
                bx_vq_unpop(vq, 1);
                break;
            }
            bx_virtio_push(&c->v, TX, &chain, 0);
        }
    } while (c->writable && bx_virtio_live(&c->v) && bx_vq_wait(vq, 0));
    bx_virtio_signal(&c->v, TX);
}

/* Bytes for the guest; 0: none now. */
static size_t read_chain(struct bx_console *c, const struct bx_chain *chain)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)bx_chain_in(chain), .msg_iovlen = chain->nin};

    for (;;) {
        ssize_t n = recvmsg(c->fd, &msg, MSG_DONTWAIT);
        if (n > 0) {
            return (size_t)n;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        c->readable = false;
        if (n == 0 || errno != EAGAIN) {
            hang_up(c);
        }
        return 0;
    }
}

static void host_to_guest(struct bx_console *c)
{
    struct bx_vq *vq = &c->v.vq[RX];
    struct bx_chain chain;

    do {
        while (c->readable && c->s.guest_open && bx_virtio_pop(&c->v, RX, &chain)) {
            size_t n = chain.in_len > 0 ? read_chain(c, &chain) : 0;
            if (n == 0 && chain.in_len > 0) {
                bx_vq_unpop(vq, 1);
                break;
            }
            bx_virtio_push(&c->v, RX, &chain, (uint32_t)n);
        }
    } while (c->readable && c->s.guest_open && bx_virtio_live(&c->v) && bx_vq_wait(vq, 0));
    bx_virtio_signal(&c->v, RX);
}

static void work(struct bx_virtio *v)
{
    struct bx_console *c = of(v);

    take_control(c);
    guest_to_host(c);
    host_to_guest(c);
    do {
        send_control(c);
    } while (c->s.to_send && bx_virtio_live(v) && bx_vq_wait(&v->vq[CTL_RX], 0));
}

void bx_console_socket(struct bx_console *c, uint32_t events)
{
    (void)pthread_mutex_lock(&c->v.lock);
    c->readable |= (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    c->writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
    if (bx_virtio_live(&c->v)) {
        work(&c->v);
    }
    (void)pthread_mutex_unlock(&c->v.lock);
}

static void reset(struct bx_virtio *v)
{
    struct bx_console *c = of(v);

    c->s = (struct bx_console_state){.host_open = c->s.host_open};
}

static int save(struct bx_virtio *v, struct bx_buf *out)
{
    return bx_buf_append(out, &of(v)->s, sizeof(struct bx_console_state));
}

static int load(struct bx_virtio *v, const uint8_t *p, size_t len)
{
    struct bx_console *c = of(v);

    if (len != sizeof(c->s)) {
        return -EBADMSG;
    }
    memcpy(&c->s, p, len);
    c->s.host_open = 1;
    return 0;
}

void bx_console_init(struct bx_console *c, const struct bx_gmem *mem, int fd, const char *port_name)
{
    static const struct bx_virtio_ops ops = {
        .name = "console",
        .id = VIRTIO_ID_CONSOLE,
        .nqueues = QUEUES,
        .queue_max = 128,
        .features = 1ull << VIRTIO_CONSOLE_F_MULTIPORT,
        .reset = reset,
        .work = work,
        .save = save,
        .load = load,
    };

    *c = (struct bx_console){
        .config = {.max_nr_ports = 1}, .fd = fd, .port_name = port_name, .s = {.host_open = 1}};
    bx_virtio_init(&c->v, &ops, mem, 0, &c->config, sizeof(c->config));
}
