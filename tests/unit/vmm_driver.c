/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm_driver.c: see vmm_driver.h.
 */
#include "vmm_driver.h"

#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <stdlib.h>
#include <string.h>

void driver_init(struct driver *d)
{
    *d = (struct driver){0};
    if (bx_gmem_init(&d->mem, DRIVER_MEMORY, -1, false, NULL) < 0) {
        abort();
    }
}

void driver_attach(struct driver *d, struct bx_virtio *v)
{
    d->v = v;
}

void driver_done(struct driver *d)
{
    bx_virtio_done(d->v);
    bx_gmem_done(&d->mem);
}

uint32_t driver_get(struct driver *d, uint32_t reg)
{
    uint32_t value;

    bx_virtio_read(d->v, reg, &value, sizeof(value));
    return value;
}

void driver_set(struct driver *d, uint32_t reg, uint32_t value)
{
    bx_virtio_write(d->v, reg, &value, sizeof(value));
}

static uint64_t ring(unsigned queue)
{
    return DRIVER_RINGS + queue * 0x4000u;
}

static uint16_t size_of(const struct driver *d, unsigned queue)
{
    uint16_t max = d->v->vq[queue].max;

    return max < DRIVER_SIZE ? max : DRIVER_SIZE;
}

static void set64(struct driver *d, uint32_t low, uint64_t value)
{
    driver_set(d, low, (uint32_t)value);
    driver_set(d, low + 4, (uint32_t)(value >> 32));
}

void driver_start(struct driver *d, uint64_t without)
{
    uint64_t offered;

    driver_set(d, VIRTIO_MMIO_STATUS, 0);
    driver_set(d, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
    driver_set(d, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 1);
    offered = (uint64_t)driver_get(d, VIRTIO_MMIO_DEVICE_FEATURES) << 32;
    driver_set(d, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 0);
    offered |= driver_get(d, VIRTIO_MMIO_DEVICE_FEATURES);
    for (uint32_t i = 0; i < 2; i++) {
        driver_set(d, VIRTIO_MMIO_DRIVER_FEATURES_SEL, i);
        driver_set(d, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)((offered & ~without) >> (32 * i)));
    }
    driver_set(d, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_FEATURES_OK);
    for (unsigned q = 0; q < d->v->ops->nqueues; q++) {
        memset(driver_at(d, ring(q)), 0, 0x4000);
        d->avail[q] = 0;
        driver_set(d, VIRTIO_MMIO_QUEUE_SEL, q);
        driver_set(d, VIRTIO_MMIO_QUEUE_NUM, size_of(d, q));
        set64(d, VIRTIO_MMIO_QUEUE_DESC_LOW, ring(q));
        set64(d, VIRTIO_MMIO_QUEUE_AVAIL_LOW, ring(q) + 0x2000);
        set64(d, VIRTIO_MMIO_QUEUE_USED_LOW, ring(q) + 0x3000);
        driver_set(d, VIRTIO_MMIO_QUEUE_READY, 1);
    }
    driver_set(d, VIRTIO_MMIO_STATUS,
               driver_get(d, VIRTIO_MMIO_STATUS) | VIRTIO_CONFIG_S_DRIVER_OK);
}

void *driver_at(struct driver *d, uint64_t addr)
{
    void *p = bx_gmem_at(&d->mem, addr, 1);

    if (!p) {
        abort();
    }
    return p;
}

struct vring_desc *driver_desc(struct driver *d, unsigned queue)
{
    return driver_at(d, ring(queue));
}

void driver_offer(struct driver *d, unsigned queue, uint16_t head)
{
    struct vring_avail *a = driver_at(d, ring(queue) + 0x2000);

    a->ring[d->avail[queue]++ % size_of(d, queue)] = head;
    a->idx = d->avail[queue];
}

void driver_notify(struct driver *d, unsigned queue)
{
    driver_set(d, VIRTIO_MMIO_QUEUE_NOTIFY, queue);
}

void driver_chain(struct driver *d, unsigned queue, unsigned first, const struct piece *p,
                  unsigned n)
{
    struct vring_desc *desc = driver_desc(d, queue);

    for (unsigned i = 0; i < n; i++) {
        desc[first + i] =
            (struct vring_desc){.addr = p[i].addr,
                                .len = p[i].len,
                                .flags = (uint16_t)((p[i].write ? VRING_DESC_F_WRITE : 0) |
                                                    (i + 1 < n ? VRING_DESC_F_NEXT : 0)),
                                .next = (uint16_t)(first + i + 1)};
    }
    driver_offer(d, queue, (uint16_t)first);
}

uint16_t driver_used(struct driver *d, unsigned queue)
{
    const struct vring_used *u = driver_at(d, ring(queue) + 0x3000);

    return u->idx;
}

uint32_t driver_used_len(struct driver *d, unsigned queue, unsigned i)
{
    const struct vring_used *u = driver_at(d, ring(queue) + 0x3000);

    return u->ring[i % size_of(d, queue)].len;
}

bool driver_broken(struct driver *d)
{
    return driver_get(d, VIRTIO_MMIO_STATUS) & VIRTIO_CONFIG_S_NEEDS_RESET;
}
