/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argv.h: QEMU's command line and the guest kernel's, from a config. Pure: opens and runs nothing,
 * so that every word of it can be tested.
 */
#ifndef BX_VMM_QEMU_ARGV_H
#define BX_VMM_QEMU_ARGV_H

#include <boxlite.h>
#include <stdbool.h>

#include "base/str.h"
#include "vmm/vmm.h"

enum bx_qemu_accel { BX_QEMU_TCG, BX_QEMU_KVM };

/* Where the child finds each descriptor. Disk i is at disk0 + i. */
struct bx_qemu_fds {
    int qmp;
    int console;
    int agent;
    int net; /* -1: none */
    int kernel;
    int initramfs; /* -1: none */
    int disk0;
};

struct bx_qemu_args {
    const char *program; /* argv[0] */
    enum bx_qemu_accel accel;
    const struct bx_vmm_config *config;
    struct bx_qemu_fds fds;
    uint64_t tsc_khz; /* the host's TSC rate; used with TCG; 0: unknown */
};

/* Fills an empty vector. INVALID for a config that cannot be expressed. */
int bx_qemu_argv(const struct bx_qemu_args *args, struct bx_strv *ret, boxlite_error **err);

#endif
