/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtqueue.h: one split virtqueue (virtio 1.2, section 2.7), seen from the device.
 *
 * Everything in a ring is hostile: the guest chooses each address, length, index and flag, and may
 * change them while they are read. So each value is read once into a copy, the copy is checked, and
 * only the copy is used. What is handed out is a chain of iovecs that lie wholly in guest memory:
 * first those that the device reads, then those that it writes, as the standard demands. Anything
 * else (an index past the ring, a loop, a chain of over BX_CHAIN_MAX pieces, a piece outside of
 * memory, a readable piece behind a writable one, a table inside a table) breaks the queue: -EPROTO,
 * and the transport stops that one device.
 */
#ifndef BX_VMM_KVM_VIRTQUEUE_H
#define BX_VMM_KVM_VIRTQUEUE_H

#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "vmm/kvm/mem.h"

#define BX_CHAIN_MAX 130 /* pieces: 128 of data, a header, a status */

/* What is saved of a queue; set by the driver before the queue is ready. */
struct bx_vq_state {
    uint64_t desc, avail, used; /* guest addresses */
    uint16_t size;
    uint16_t next_avail; /* next entry of the avail ring to take */
    uint16_t next_used;  /* next entry of the used ring to fill */
    uint16_t signalled;  /* next_used when the driver was last looked at */
    uint8_t ready, event_idx;
    uint8_t pad[4];
};

struct bx_vq {
    struct bx_vq_state s;
    uint16_t max; /* largest size that the device offers */
    const struct bx_gmem *mem;
    struct vring_desc *desc_ring; /* NULL unless ready */
    struct vring_avail *avail_ring;
    struct vring_used *used_ring;
};

struct bx_chain {
    uint16_t head;
    unsigned nout, nin;     /* pieces to read, pieces to write */
    size_t out_len, in_len; /* their bytes */
    struct iovec iov[BX_CHAIN_MAX];
};

/* Makes a queue that the driver has described ready. -EINVAL: rings outside of memory, bad size. */
int bx_vq_enable(struct bx_vq *vq);
void bx_vq_reset(struct bx_vq *vq);
/* 1: a chain was taken; 0: none there; -EPROTO: the queue is broken. */
int bx_vq_pop(struct bx_vq *vq, struct bx_chain *ret);
/* Gives the last n chains that were taken back unused, to be taken again. */
void bx_vq_unpop(struct bx_vq *vq, unsigned n);
/* The device is done with a chain: written is the number of bytes that it wrote. bx_vq_stage() does
 * not tell the driver yet: several chains of one packet must become visible together. */
void bx_vq_stage(struct bx_vq *vq, uint16_t head, uint32_t written);
void bx_vq_publish(struct bx_vq *vq);
void bx_vq_push(struct bx_vq *vq, uint16_t head, uint32_t written);
/* Asks to be told of chains beyond the next `have`, which are known and left there. True if there is
 * one already: look again. */
bool bx_vq_wait(struct bx_vq *vq, unsigned have);
/* Whether the driver wants an interrupt for what was pushed since the last call. */
bool bx_vq_interrupt(struct bx_vq *vq);

/* Copies between a run of pieces and a buffer: bytes copied, from byte `off` of the run on. */
size_t bx_iov_read(const struct iovec *iov, unsigned n, size_t off, void *ret, size_t len);
size_t bx_iov_write(const struct iovec *iov, unsigned n, size_t off, const void *data, size_t len);
/* Cuts pieces so that `off` bytes at the front are gone and at most len are left; pieces in ret. */
unsigned bx_iov_cut(const struct iovec *iov, unsigned n, size_t off, size_t len, struct iovec *ret);

static inline const struct iovec *bx_chain_in(const struct bx_chain *c)
{
    return c->iov + c->nout;
}

#endif
