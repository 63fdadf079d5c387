/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rng.h: virtio-rng: the host kernel's random bytes.
 */
#ifndef BX_VMM_KVM_DEV_RNG_H
#define BX_VMM_KVM_DEV_RNG_H

#include "vmm/kvm/virtio.h"

void bx_rng_init(struct bx_virtio *rng, const struct bx_gmem *mem);

#endif
