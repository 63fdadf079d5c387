/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtqueue.c: see virtqueue.h.
 *
 * Ring addresses are checked once, when the queue is made ready: the driver cannot move them after
 * that, and guest memory never goes away, so the pointers stay good. Entries of the rings are read
 * with single loads. The driver publishes with a release, we look with an acquire, and the other way
 * round; between "I wait" and the look behind it stands a full barrier, as the driver has one
 * between "here is more" and its look at whether we wait.
 */
#include "vmm/kvm/virtqueue.h"

#include <errno.h>
#include <string.h>

#define LOAD(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define LOAD_ACQUIRE(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define STORE_RELEASE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* Behind the entries of the avail ring: used_event; behind those of the used ring: avail_event. */
static uint16_t *used_event(const struct bx_vq *vq)
{
    return &vq->avail_ring->ring[vq->s.size];
}

static uint16_t *avail_event(const struct bx_vq *vq)
{
    return (uint16_t *)&vq->used_ring->ring[vq->s.size];
}

void bx_vq_reset(struct bx_vq *vq)
{
    *vq = (struct bx_vq){.max = vq->max, .mem = vq->mem};
}

int bx_vq_enable(struct bx_vq *vq)
{
    const struct bx_vq_state *s = &vq->s;
    unsigned n = s->size;

    if (n == 0 || n > vq->max || (n & (n - 1)) || s->desc % 16 || s->avail % 2 || s->used % 4) {
        return -EINVAL;
    }
    vq->desc_ring = bx_gmem_at(vq->mem, s->desc, n * sizeof(struct vring_desc));
    vq->avail_ring =
        bx_gmem_at(vq->mem, s->avail, sizeof(struct vring_avail) + (n + 1) * sizeof(uint16_t));
    vq->used_ring = bx_gmem_at(vq->mem, s->used,
                               sizeof(struct vring_used) + n * sizeof(struct vring_used_elem) +
                                   sizeof(uint16_t));
    if (!vq->desc_ring || !vq->avail_ring || !vq->used_ring) {
        vq->desc_ring = NULL;
        return -EINVAL;
    }
    vq->s.ready = 1;
    return 0;
}

/* ---- chains --------------------------------------------------------------------------------- */

/* A table of descriptors: the queue's own, or an indirect one. */
struct table {
    const struct vring_desc *desc;
    unsigned n;
};

static struct vring_desc copy_desc(const struct table *t, unsigned i)
{
    return (struct vring_desc){.addr = LOAD(&t->desc[i].addr),
                               .len = LOAD(&t->desc[i].len),
                               .flags = LOAD(&t->desc[i].flags),
                               .next = LOAD(&t->desc[i].next)};
}

static int add_piece(const struct bx_vq *vq, const struct vring_desc *d, struct bx_chain *c)
{
    bool write = d->flags & VRING_DESC_F_WRITE;
    unsigned at = c->nout + c->nin;
    size_t *sum = write ? &c->in_len : &c->out_len;
    void *host = bx_gmem_at(vq->mem, d->addr, d->len);

    if (at == BX_CHAIN_MAX || d->len == 0 || !host || (!write && c->nin > 0)) {
        return -EPROTO;
    }
    c->iov[at] = (struct iovec){host, d->len};
    *sum += d->len;
    c->nin += write;
    c->nout += !write;
    return 0;
}

static int open_indirect(const struct bx_vq *vq, const struct vring_desc *d, struct table *ret)
{
    unsigned n = d->len / sizeof(struct vring_desc);

    if (d->len % sizeof(struct vring_desc) || n == 0 || n > BX_CHAIN_MAX || d->addr % 8 ||
        (d->flags & VRING_DESC_F_NEXT)) {
        return -EPROTO;
    }
    *ret = (struct table){bx_gmem_at(vq->mem, d->addr, d->len), n};
    return ret->desc ? 0 : -EPROTO;
}

/* Follows a chain from entry i on. No chain is longer than its table, which ends every loop. */
static int walk(const struct bx_vq *vq, struct table t, unsigned i, struct bx_chain *c)
{
    bool indirect = false;

    for (unsigned steps = 0; steps < t.n; steps++) {
        struct vring_desc d = copy_desc(&t, i);

        if (d.flags & VRING_DESC_F_INDIRECT) {
            if (indirect || open_indirect(vq, &d, &t) < 0) {
                return -EPROTO;
            }
            indirect = true;
            i = 0;
            steps = -1u; /* a new table: its own count */
            continue;
        }
        if (add_piece(vq, &d, c) < 0) {
            return -EPROTO;
        }
        if (!(d.flags & VRING_DESC_F_NEXT)) {
            return 0;
        }
        if (d.next >= t.n) {
            return -EPROTO;
        }
        i = d.next;
    }
    return -EPROTO;
}

int bx_vq_pop(struct bx_vq *vq, struct bx_chain *ret)
{
    if (!vq->desc_ring) {
        return 0;
    }
    uint16_t waiting = (uint16_t)(LOAD_ACQUIRE(&vq->avail_ring->idx) - vq->s.next_avail);
    if (waiting == 0) {
        return 0;
    }
    uint16_t head = LOAD(&vq->avail_ring->ring[vq->s.next_avail & (vq->s.size - 1u)]);
    if (waiting > vq->s.size || head >= vq->s.size) {
        return -EPROTO;
    }
    ret->head = head;
    ret->nout = ret->nin = 0;
    ret->out_len = ret->in_len = 0;
    int r = walk(vq, (struct table){vq->desc_ring, vq->s.size}, head, ret);
    if (r < 0) {
        return r;
    }
    vq->s.next_avail++;
    return 1;
}

void bx_vq_unpop(struct bx_vq *vq, unsigned n)
{
    vq->s.next_avail -= (uint16_t)n;
}

void bx_vq_stage(struct bx_vq *vq, uint16_t head, uint32_t written)
{
    struct vring_used_elem *e = &vq->used_ring->ring[vq->s.next_used & (vq->s.size - 1u)];

    STORE(&e->id, head);
    STORE(&e->len, written);
    vq->s.next_used++;
}

void bx_vq_publish(struct bx_vq *vq)
{
    STORE_RELEASE(&vq->used_ring->idx, vq->s.next_used);
}

void bx_vq_push(struct bx_vq *vq, uint16_t head, uint32_t written)
{
    bx_vq_stage(vq, head, written);
    bx_vq_publish(vq);
}

/* ---- who tells whom ------------------------------------------------------------------------- */

bool bx_vq_wait(struct bx_vq *vq, unsigned have)
{
    uint16_t next = (uint16_t)(vq->s.next_avail + have);

    if (!vq->desc_ring) {
        return false;
    }
    if (vq->s.event_idx) {
        STORE(avail_event(vq), next);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return LOAD_ACQUIRE(&vq->avail_ring->idx) != next;
}

bool bx_vq_interrupt(struct bx_vq *vq)
{
    uint16_t old = vq->s.signalled, new = vq->s.next_used;

    if (!vq->desc_ring || old == new) {
        return false;
    }
    vq->s.signalled = new;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (vq->s.event_idx) {
        return vring_need_event(LOAD(used_event(vq)), new, old);
    }
    return !(LOAD(&vq->avail_ring->flags) & VRING_AVAIL_F_NO_INTERRUPT);
}

/* ---- pieces --------------------------------------------------------------------------------- */

unsigned bx_iov_cut(const struct iovec *iov, unsigned n, size_t off, size_t len, struct iovec *ret)
{
    unsigned out = 0;

    for (unsigned i = 0; i < n && len > 0; i++) {
        if (off >= iov[i].iov_len) {
            off -= iov[i].iov_len;
            continue;
        }
        size_t part = iov[i].iov_len - off;
        part = part < len ? part : len;
        ret[out++] = (struct iovec){(uint8_t *)iov[i].iov_base + off, part};
        len -= part;
        off = 0;
    }
    return out;
}

/* Copies up to len bytes from or to the pieces, from byte off of them on. */
static size_t copy(const struct iovec *iov, unsigned n, size_t off, uint8_t *data, size_t len,
                   bool to_guest)
{
    size_t done = 0;

    for (unsigned i = 0; i < n && done < len; i++) {
        if (off >= iov[i].iov_len) {
            off -= iov[i].iov_len;
            continue;
        }
        uint8_t *guest = (uint8_t *)iov[i].iov_base + off;
        size_t part = iov[i].iov_len - off;
        part = part < len - done ? part : len - done;
        memcpy(to_guest ? guest : data + done, to_guest ? data + done : guest, part);
        done += part;
        off = 0;
    }
    return done;
}

size_t bx_iov_read(const struct iovec *iov, unsigned n, size_t off, void *ret, size_t len)
{
    return copy(iov, n, off, ret, len, false);
}

size_t bx_iov_write(const struct iovec *iov, unsigned n, size_t off, const void *data, size_t len)
{
    return copy(iov, n, off, (uint8_t *)data, len, true);
}
