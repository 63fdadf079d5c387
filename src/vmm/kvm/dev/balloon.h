/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balloon.h: virtio-balloon: gives the host back what the guest does not use.
 */
#ifndef BX_VMM_KVM_DEV_BALLOON_H
#define BX_VMM_KVM_DEV_BALLOON_H

#include <linux/virtio_balloon.h>

#include "vmm/kvm/virtio.h"

struct bx_balloon {
    struct bx_virtio v;
    struct virtio_balloon_config config;
    const struct bx_gmem *mem;
    uint64_t freed; /* bytes given back */
};

void bx_balloon_init(struct bx_balloon *b, const struct bx_gmem *mem);
/* Asks the guest to give so many bytes away. */
void bx_balloon_resize(struct bx_balloon *b, uint64_t bytes);

#endif
