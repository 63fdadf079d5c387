/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Balloon and rng, by the first byte, under a hostile driver: only guest memory is ever given back or
 * filled.
 */
#include <stdlib.h>

#include "vmm/kvm/dev/balloon.h"
#include "vmm/kvm/dev/rng.h"
#include "vmm_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void host(void *data, struct feed *f)
{
    uint64_t bytes = (uint64_t)feed_u16(f) << 12;

    if (data) {
        bx_balloon_resize(data, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct feed f = {data, size};
    static struct driver d;
    static struct bx_balloon balloon;
    static struct bx_virtio rng;
    bool is_balloon = feed_u8(&f) & 1;

    driver_init(&d);
    if (is_balloon) {
        bx_balloon_init(&balloon, &d.mem);
    } else {
        bx_rng_init(&rng, &d.mem);
    }
    driver_attach(&d, is_balloon ? &balloon.v : &rng);
    feed_run(&d, &f, host, is_balloon ? &balloon : NULL);
    driver_done(&d);
    return 0;
}
