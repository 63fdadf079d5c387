/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h: when each stage of a start was reached. Always taken (a clock read a stage); printed when
 * asked for.
 */
#ifndef BX_VMM_KVM_TRACE_H
#define BX_VMM_KVM_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum bx_stage {
    BX_STAGE_EXEC,     /* main() */
    BX_STAGE_CONFINED, /* namespaces and the like are behind */
    BX_STAGE_VM,       /* KVM has made the machine */
    BX_STAGE_MEMORY,   /* memory is mapped and known to KVM */
    BX_STAGE_DEVICES,  /* devices are there */
    BX_STAGE_LOADED,   /* kernel, initramfs, tables are in memory */
    BX_STAGE_VCPUS,    /* vCPUs are made */
    BX_STAGE_ENTER,    /* first instruction of the guest */
    BX_STAGE_HELLO,    /* the agent's first byte */
    BX_STAGES
};

struct bx_trace {
    uint64_t start;         /* monotonic ns */
    uint64_t at[BX_STAGES]; /* 0: not reached */
};

void bx_trace_reach(struct bx_trace *t, enum bx_stage stage);
const char *bx_trace_name(enum bx_stage stage);
/* Microseconds from the start, 0 if not reached. */
uint64_t bx_trace_us(const struct bx_trace *t, enum bx_stage stage);

#endif
