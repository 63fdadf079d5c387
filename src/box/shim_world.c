/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_world.c: the real outside of the shim: engines, passt, and its patience.
 */
#include "box/shim.h"
#include "box/shimproc.h"
#include "disk/rootfs.h"

const struct bx_shim_world bx_shim_real_world = {
    .choose = bx_engine_choose,
    .passt_start = bx_passt_start,
    .passt_free = bx_passt_free,
    .rootfs_check = bx_rootfs_check,
    .spool_max = BX_SPOOL_MAX,
    /* Without KVM, and with many boxes at once on few CPUs, a boot takes many times its usual second. */
    .boot_quiet_ms = 60000,
    .boot_ms = 300000,
    .panic_ms = 500,
    .shutdown_ms = 10000,
    .kill_ms = 5000,
    .drain_ms = 30000,
    .stuck_ms = 30000,
};
