/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bus.c: from a guest-physical address to a device's register.
 *
 * Each device has a page, one behind the other, so the device's number is a division. What belongs to
 * nobody reads as ones, as on a real bus, and takes writes without an effect.
 */
#include <string.h>

#include "vmm/kvm/vm.h"

void bx_bus_access(struct bx_vm *vm, uint64_t addr, void *data, unsigned len, bool write)
{
    uint64_t off = addr - BX_MMIO_BASE;
    uint64_t i = off / BX_VIRTIO_SPAN;

    if (addr < BX_MMIO_BASE || i >= vm->ndevices || off % BX_VIRTIO_SPAN + len > BX_VIRTIO_SPAN) {
        if (!write) {
            memset(data, 0xff, len);
        }
        return;
    }
    if (write) {
        bx_virtio_write(vm->devices[i], (uint32_t)(off % BX_VIRTIO_SPAN), data, len);
    } else {
        bx_virtio_read(vm->devices[i], (uint32_t)(off % BX_VIRTIO_SPAN), data, len);
    }
}
