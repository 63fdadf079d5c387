/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c: see trace.h.
 */
#include "vmm/kvm/trace.h"

#include "base/timeutil.h"

void bx_trace_reach(struct bx_trace *t, enum bx_stage stage)
{
    if (t->at[stage] == 0) {
        t->at[stage] = bx_now_mono();
    }
}

const char *bx_trace_name(enum bx_stage stage)
{
    static const char *const names[BX_STAGES] = {
        [BX_STAGE_EXEC] = "exec",       [BX_STAGE_CONFINED] = "confined",
        [BX_STAGE_VM] = "vm",           [BX_STAGE_MEMORY] = "memory",
        [BX_STAGE_DEVICES] = "devices", [BX_STAGE_LOADED] = "loaded",
        [BX_STAGE_VCPUS] = "vcpus",     [BX_STAGE_ENTER] = "enter",
        [BX_STAGE_HELLO] = "hello",
    };

    return names[stage];
}

uint64_t bx_trace_us(const struct bx_trace *t, enum bx_stage stage)
{
    return t->at[stage] > t->start ? (t->at[stage] - t->start) / 1000 : 0;
}
