/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.c: see mem.h.
 *
 * The memory is private and anonymous: the host gives a page when the guest first touches it, and
 * nothing is reserved before. When it comes back from a snapshot, the snapshot's memory file is
 * mapped privately instead: pages are read when they are needed and copied when they are written, so
 * the cost of a restore does not grow with the memory's size. Huge pages are off unless asked for:
 * they make a small guest larger by what it does not use of them.
 */
#include "vmm/kvm/mem.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/error.h"

static int map_region(struct bx_gregion *r, int fd, bool huge)
{
    int flags = MAP_PRIVATE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);

    r->host =
        mmap(NULL, r->size, PROT_READ | PROT_WRITE, flags, fd, fd < 0 ? 0 : (off_t)r->file_off);
    if (r->host == MAP_FAILED) {
        r->host = NULL;
        return -errno;
    }
    (void)madvise(r->host, r->size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    (void)madvise(r->host, r->size, MADV_DONTDUMP);
    return 0;
}

int bx_gmem_init(struct bx_gmem *mem, uint64_t size, int fd, bool huge, boxlite_error **err)
{
    uint64_t low = size < BX_GMEM_GAP ? size : BX_GMEM_GAP;

    *mem = (struct bx_gmem){.n = size > low ? 2 : 1, .size = size};
    mem->region[0] = (struct bx_gregion){.gpa = 0, .size = low};
    mem->region[1] = (struct bx_gregion){.gpa = BX_GMEM_HIGH, .size = size - low, .file_off = low};
    for (unsigned i = 0; i < mem->n; i++) {
        int r = map_region(&mem->region[i], fd, huge);
        if (r < 0) {
            bx_gmem_done(mem);
            return bx_fail_errno(err, BOXLITE_E_NO_MEMORY, r, "mapping %llu MiB of guest memory",
                                 (unsigned long long)(size >> 20));
        }
    }
    return 0;
}

void bx_gmem_done(struct bx_gmem *mem)
{
    for (unsigned i = 0; i < mem->n; i++) {
        if (mem->region[i].host) {
            (void)munmap(mem->region[i].host, mem->region[i].size);
        }
    }
    *mem = (struct bx_gmem){0};
}

void *bx_gmem_at(const struct bx_gmem *mem, uint64_t gpa, uint64_t len)
{
    for (unsigned i = 0; i < mem->n; i++) {
        const struct bx_gregion *r = &mem->region[i];

        if (gpa >= r->gpa && gpa - r->gpa < r->size) {
            uint64_t off = gpa - r->gpa;
            return len <= r->size - off ? r->host + off : NULL;
        }
    }
    return NULL;
}
