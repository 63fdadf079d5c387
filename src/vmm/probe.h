/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h: is KVM really usable here? Established by running a guest loop of known length in a
 * child with a deadline, never by the mere presence of /dev/kvm (architecture §5).
 */
#ifndef BX_VMM_PROBE_H
#define BX_VMM_PROBE_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

enum bx_kvm_state {
    BX_KVM_USABLE,
    BX_KVM_ABSENT,   /* no device */
    BX_KVM_DENIED,   /* no rights on the device */
    BX_KVM_BROKEN,   /* ioctls fail */
    BX_KVM_EMULATED, /* guest kernel code is emulated, far too slow to boot Linux */
};

struct bx_kvm_verdict {
    enum bx_kvm_state state;
    uint64_t guest_ns; /* time that the loop took (or the deadline) */
    uint64_t host_ns;  /* the same loop on the host */
    char detail[160];  /* one line: what was seen */
};

/* At most 300 ms where a machine can be made at once. Cached per boot in the file "kvm-probe" below cache_fd (-1: no cache); fresh:
 * ignore the cache. Never fails: what goes wrong is a verdict. */
void bx_kvm_probe(int cache_fd, bool fresh, struct bx_kvm_verdict *ret);

#endif
