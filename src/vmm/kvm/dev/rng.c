/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rng.c: virtio-rng (virtio 1.2, 5.4). A request gets at most 256 bytes, so that a guest that asks
 * without end costs what any other exit costs; a device may always give less than was asked for.
 */
#include "vmm/kvm/dev/rng.h"

#include <linux/virtio_ids.h>

#include "base/random.h"

#define MOST 256

static void work(struct bx_virtio *v)
{
    uint8_t bytes[MOST];
    struct bx_chain c;

    do {
        while (bx_virtio_pop(v, 0, &c)) {
            size_t len = c.in_len < MOST ? c.in_len : MOST;

            bx_random(bytes, len);
            (void)bx_iov_write(bx_chain_in(&c), c.nin, 0, bytes, len);
            bx_virtio_push(v, 0, &c, (uint32_t)len);
        }
    } while (bx_virtio_live(v) && bx_vq_wait(&v->vq[0], 0));
    bx_virtio_signal(v, 0);
}

static void reset(struct bx_virtio *v)
{
    (void)v; /* holds nothing */
}

void bx_rng_init(struct bx_virtio *rng, const struct bx_gmem *mem)
{
    static const struct bx_virtio_ops ops = {
        .name = "rng",
        .id = VIRTIO_ID_RNG,
        .nqueues = 1,
        .queue_max = 8,
        .reset = reset,
        .work = work,
    };

    *rng = (struct bx_virtio){0};
    bx_virtio_init(rng, &ops, mem, 0, NULL, 0);
}
