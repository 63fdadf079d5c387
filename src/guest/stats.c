/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.c: see stats.h.
 */
#include <fcntl.h>

#include "guest/cgroup.h"
#include "guest/stats.h"
#include "wire/proto.h"

int stats_append(struct agent *a)
{
    const struct {
        uint16_t tag;
        int dirfd;
        const char *file;
        const char *key;
        uint64_t unit;
    } rows[] = {
        {BX_T_MEM_TOTAL, AT_FDCWD, "/proc/meminfo", "MemTotal", 1024},
        {BX_T_MEM_FREE, AT_FDCWD, "/proc/meminfo", "MemAvailable", 1024},
        {BX_T_CPU_US, a->container.boxfd, "cpu.stat", "usage_usec", 1},
        {BX_T_PIDS, a->container.boxfd, "pids.current", NULL, 1},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(rows); i++) {
        uint64_t v = 0;
        (void)cgroup_read(rows[i].dirfd, rows[i].file, rows[i].key, &v);
        r = bx_msg_u64(&a->msg, rows[i].tag, v * rows[i].unit);
    }
    return r;
}
