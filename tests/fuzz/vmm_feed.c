/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm_feed.c: see vmm_feed.h.
 */
#include "vmm_feed.h"

#include <linux/virtio_mmio.h>
#include <string.h>

#define STEPS_MAX 512

uint8_t feed_u8(struct feed *f)
{
    if (f->left == 0) {
        return 0;
    }
    f->left--;
    return *f->p++;
}

uint16_t feed_u16(struct feed *f)
{
    uint16_t low = feed_u8(f);

    return (uint16_t)(low | feed_u8(f) << 8);
}

static uint32_t feed_u32(struct feed *f)
{
    uint32_t low = feed_u16(f);

    return low | (uint32_t)feed_u16(f) << 16;
}

/* Mostly inside of memory, sometimes anywhere. */
static uint64_t address(struct feed *f)
{
    uint32_t v = feed_u32(f);

    return v % 8 == 7 ? (uint64_t)v << 32 | v : v % (DRIVER_MEMORY + 64);
}

static void set_descriptor(struct driver *d, struct feed *f)
{
    unsigned queue = feed_u8(f) % d->v->ops->nqueues;
    struct vring_desc *desc = &driver_desc(d, queue)[feed_u8(f) % DRIVER_SIZE];

    *desc = (struct vring_desc){.addr = address(f),
                                .len = feed_u16(f),
                                .flags = feed_u8(f) & 7,
                                .next = feed_u8(f) % (DRIVER_SIZE + 2)};
}

static void write_memory(struct driver *d, struct feed *f)
{
    uint64_t at = address(f);
    size_t len = feed_u8(f) % 64;
    uint8_t *p = bx_gmem_at(&d->mem, at, len);

    for (size_t i = 0; p && i < len; i++) {
        p[i] = feed_u8(f);
    }
}

static void access_register(struct driver *d, struct feed *f)
{
    uint32_t off = feed_u16(f) % BX_VIRTIO_SPAN;
    unsigned len = 1u << feed_u8(f) % 4;
    uint64_t value = feed_u32(f);

    if (off + len > BX_VIRTIO_SPAN) { /* the bus cuts these off */
        return;
    }
    if (off == VIRTIO_MMIO_STATUS && value % 4 == 0) {
        driver_start(d, value);
    } else if (value % 3 == 0) {
        bx_virtio_read(d->v, off, &value, len);
    } else {
        bx_virtio_write(d->v, off, &value, len);
    }
}

void feed_run(struct driver *d, struct feed *f, void (*host)(void *data, struct feed *f),
              void *data)
{
    driver_start(d, feed_u8(f));
    for (unsigned i = 0; i < STEPS_MAX && f->left > 0; i++) {
        uint8_t what = feed_u8(f);
        unsigned queue = what / 8 % d->v->ops->nqueues;

        switch (what % 8) {
        case 0:
            access_register(d, f);
            break;
        case 1:
        case 2:
            set_descriptor(d, f);
            break;
        case 3:
            write_memory(d, f);
            break;
        case 4:
        case 5:
            driver_offer(d, queue, feed_u8(f) % (DRIVER_SIZE + 1));
            break;
        case 6:
            driver_notify(d, queue);
            break;
        default:
            host(data, f);
        }
    }
    driver_notify(d, 0);
}
