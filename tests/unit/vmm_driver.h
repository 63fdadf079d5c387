/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm_driver.h: a guest's driver for tests of boxlite-vmm's devices: memory, one device, and the
 * registers and rings as a driver uses them, or as a hostile one does.
 */
#ifndef BX_TESTS_VMM_DRIVER_H
#define BX_TESTS_VMM_DRIVER_H

#include "vmm/kvm/virtio.h"

#define DRIVER_MEMORY (1u << 20)
#define DRIVER_RINGS                                                                               \
    0x1000u /* queue i: 0x4000 bytes from here: desc, avail +0x2000, used +0x3000 */
#define DRIVER_DATA 0x40000u /* free for a test */
#define DRIVER_SIZE 64u      /* entries of each queue */

struct driver {
    struct bx_gmem mem;
    struct bx_virtio *v;
    uint16_t avail[BX_VIRTIO_QUEUES];
};

struct piece {
    uint64_t addr;
    uint32_t len;
    bool write;
};

/* A device must be initialised on d->mem between the two. */
void driver_init(struct driver *d);
void driver_attach(struct driver *d, struct bx_virtio *v);
void driver_done(struct driver *d);
uint32_t driver_get(struct driver *d, uint32_t reg);
void driver_set(struct driver *d, uint32_t reg, uint32_t value);
/* Reset, features (all that are offered but those in `without`), queues, DRIVER_OK. */
void driver_start(struct driver *d, uint64_t without);
void *driver_at(struct driver *d, uint64_t addr);
struct vring_desc *driver_desc(struct driver *d, unsigned queue);
/* Makes a chain of descriptors from entry `first` on, and makes it available. */
void driver_chain(struct driver *d, unsigned queue, unsigned first, const struct piece *p,
                  unsigned n);
/* Makes any entry available, then notifies. */
void driver_offer(struct driver *d, unsigned queue, uint16_t head);
void driver_notify(struct driver *d, unsigned queue);
uint16_t driver_used(struct driver *d, unsigned queue); /* used.idx */
uint32_t driver_used_len(struct driver *d, unsigned queue, unsigned i);
bool driver_broken(struct driver *d);

#endif
