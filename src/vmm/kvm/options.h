/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h: boxlite-vmm's arguments.
 */
#ifndef BX_VMM_KVM_OPTIONS_H
#define BX_VMM_KVM_OPTIONS_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/kvm/proto.h"

#define BX_KVM_CPUS_MAX 64

struct bx_vm_options {
    const char *name;
    const char *cmdline;
    uint32_t cpus;
    uint64_t memory; /* bytes */
    bool initramfs, net, restore, huge_pages, trace_boot, tell_stages;
    uint8_t mac[6];
    unsigned ndisks;
    bool disk_read_only[BX_KVM_DISKS_MAX];
    uint64_t started; /* when the starter began: monotonic ns; 0: unknown */
};

/* Pointers point into argv. INVALID. */
int bx_vm_options_parse(int argc, char **argv, struct bx_vm_options *ret, boxlite_error **err);

#endif
