/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio.h: what all devices have in common, and their transport, virtio-mmio (virtio 1.2, 4.2).
 *
 * A device is a struct that begins with a struct bx_virtio and points to its functions. Threads:
 *   vCPU threads      read and write registers (bx_virtio_read, bx_virtio_write)
 *   the device thread is woken by the device's notify descriptor (an ioeventfd on QueueNotify) and by
 *                     the device's own host descriptors
 *   a disk's worker   the same for one disk
 * Everything of a device changes only under its lock; who holds all locks may look at a machine that
 * stands still. Only the interrupt status is outside of it, so that a guest's acknowledge never waits
 * for a read from a disk.
 *
 * A driver that breaks the rules stops its own device: bx_virtio_break() sets NEEDS_RESET, and
 * nothing is taken from the queues until the driver has reset it. The rest of the machine goes on.
 */
#ifndef BX_VMM_KVM_VIRTIO_H
#define BX_VMM_KVM_VIRTIO_H

#include <pthread.h>

#include "vmm/kvm/virtqueue.h"

#define BX_VIRTIO_QUEUES 4
#define BX_VIRTIO_SPAN 0x1000u    /* bytes of address space of a device */
#define BX_VIRTIO_NOTIFY 0x50u    /* offset of QueueNotify */
#define BX_VIRTIO_SAVE_MAX 65536u /* bytes of a device's own saved state */

struct bx_virtio;
struct bx_buf;

struct bx_virtio_ops {
    const char *name;
    uint32_t id; /* virtio device type */
    unsigned nqueues;
    uint16_t queue_max; /* entries; a power of two */
    uint64_t features;  /* of the device type; the common ones are added */
    /* Forgets all that a driver has brought about. */
    void (*reset)(struct bx_virtio *v);
    /* There may be something in any queue; also once when the driver has become ready. */
    void (*work)(struct bx_virtio *v);
    /* The driver wrote to the config space (may be NULL: read-only). */
    void (*config_written)(struct bx_virtio *v);
    /* The device's own state to and from a snapshot (may be NULL: none). 0 or -errno. */
    int (*save)(struct bx_virtio *v, struct bx_buf *out);
    int (*load)(struct bx_virtio *v, const uint8_t *p, size_t len);
};

struct bx_virtio_counters {
    uint64_t wakes, chains, interrupts, bytes_in, bytes_out, breaks;
};

/* What is saved of the transport. */
struct bx_virtio_state {
    uint64_t driver_features;
    uint32_t status, isr;
    uint32_t features_sel, driver_sel, queue_sel, generation;
};

struct bx_virtio {
    const struct bx_virtio_ops *ops;
    pthread_mutex_t lock;
    struct bx_virtio_state s; /* isr: atomic, without the lock */
    struct bx_vq vq[BX_VIRTIO_QUEUES];
    uint64_t features; /* offered */
    uint8_t *config;   /* device config space, little-endian; part of the device's struct */
    size_t config_len;
    int notify_fd; /* eventfd: queue notifications; -1: none (a test) */
    int irq_fd;    /* eventfd: raises the device's interrupt; -1 */
    struct bx_virtio_counters n;
};

/* Fills the common part of a device. */
void bx_virtio_init(struct bx_virtio *v, const struct bx_virtio_ops *ops, const struct bx_gmem *mem,
                    uint64_t features, void *config, size_t config_len);
void bx_virtio_done(struct bx_virtio *v);
/* Registers, any thread. off < BX_VIRTIO_SPAN. What is no register reads as 0; a bad width too. */
void bx_virtio_read(struct bx_virtio *v, uint32_t off, void *ret, unsigned len);
void bx_virtio_write(struct bx_virtio *v, uint32_t off, const void *data, unsigned len);
/* The notify descriptor is readable: takes the notification and works. */
void bx_virtio_notified(struct bx_virtio *v);
/* Makes the device's own thread work soon; from any thread. */
void bx_virtio_kick(struct bx_virtio *v);

/* A saved state was loaded: the driver hears again what it may have missed, the device looks. */
void bx_virtio_resume(struct bx_virtio *v);

/* For devices, under the lock. */
bool bx_virtio_live(const struct bx_virtio *v); /* driver ready and nothing broken */
bool bx_virtio_has(const struct bx_virtio *v, unsigned feature_bit);
/* bx_vq_pop with a broken queue handled: true if there is a chain. */
bool bx_virtio_pop(struct bx_virtio *v, unsigned queue, struct bx_chain *ret);
void bx_virtio_push(struct bx_virtio *v, unsigned queue, const struct bx_chain *c,
                    uint32_t written);
/* Interrupts the driver if it wants to know of what was pushed to the queue. */
void bx_virtio_signal(struct bx_virtio *v, unsigned queue);
void bx_virtio_config_changed(struct bx_virtio *v);
void bx_virtio_break(struct bx_virtio *v);

#endif
