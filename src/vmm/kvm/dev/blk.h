/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk.h: virtio-blk on a raw image, with a worker thread of its own.
 */
#ifndef BX_VMM_KVM_DEV_BLK_H
#define BX_VMM_KVM_DEV_BLK_H

#include <linux/virtio_blk.h>

#include "vmm/kvm/virtio.h"

struct bx_blk {
    struct bx_virtio v;
    struct virtio_blk_config config;
    int fd; /* borrowed */
    bool read_only;
    uint64_t size; /* bytes, whole sectors */
};

/* IO: the image's size cannot be told. */
int bx_blk_init(struct bx_blk *b, const struct bx_gmem *mem, int fd, bool read_only,
                boxlite_error **err);
/* The worker: does not return. Its thread waits for the notify descriptor, which must block. */
void *bx_blk_worker(void *blk);

#endif
