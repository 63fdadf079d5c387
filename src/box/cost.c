/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.c: see cost.h. A writable disk is a sparse file: its blocks count, not its length. Memory is what the kernel counts
 * as resident, of the supervisor and its children (the engine, the network, the file server); a process that ends meanwhile
 * counts as nothing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "box/cost.h"

#define PROC_TEXT_MAX 65536

uint64_t bx_cost_disk(int box_fd)
{
    struct stat st;
    return fstatat(box_fd, "upper.img", &st, AT_SYMLINK_NOFOLLOW) == 0
               ? (uint64_t)st.st_blocks * 512
               : 0;
}

static uint64_t resident(pid_t pid)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(PROC_TEXT_MAX);
    unsigned long long pages = 0;
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    if (bx_read_file(AT_FDCWD, path, &text) < 0 ||
        sscanf(bx_buf_str(&text), "%*u %llu", &pages) != 1) {
        return 0;
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t bx_cost_memory(pid_t shim)
{
    _cleanup_buf_ struct bx_buf children = BX_BUF_INIT(PROC_TEXT_MAX);
    uint64_t sum = resident(shim);
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)shim, (int)shim);
    if (bx_read_file(AT_FDCWD, path, &children) < 0) {
        return sum;
    }
    for (char *p = (char *)bx_buf_data(&children), *end;; p = end) {
        long pid = strtol(p, &end, 10);
        if (end == p || pid <= 0) {
            return sum;
        }
        sum += resident((pid_t)pid);
    }
}
