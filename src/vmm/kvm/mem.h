/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h: the guest's memory, and the only way from a guest address to a pointer.
 *
 * At most two regions: below and above the gap of devices under 4 GiB. They are made once and live as
 * long as the process, so a pointer that bx_gmem_at() gave stays good; but the guest may write to
 * what is behind it at any moment: copy first, check the copy, use the copy.
 */
#ifndef BX_VMM_KVM_MEM_H
#define BX_VMM_KVM_MEM_H

#include <boxlite.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BX_GMEM_GAP UINT64_C(0xc0000000) /* devices from here to 4 GiB */
#define BX_GMEM_HIGH UINT64_C(0x100000000)
#define BX_PAGE 4096u
#define BX_GMAPPED_MAX 40 /* segments of a kernel, initramfs */

struct bx_gregion {
    uint64_t gpa, size;
    uint8_t *host;
    uint64_t file_off; /* of its first byte in a memory file */
};

struct bx_gmapped { /* comes from a file, wherever the guest has not written */
    uint64_t gpa, len;
};

struct bx_gmem {
    struct bx_gregion region[2];
    unsigned n;
    uint64_t size;
    struct bx_gmapped mapped[BX_GMAPPED_MAX];
    unsigned nmapped;
};

/* size: a multiple of a page. fd: a file that holds the memory (mapped copy-on-write), or -1 for
 * fresh zeros. huge: ask for transparent huge pages. */
int bx_gmem_init(struct bx_gmem *mem, uint64_t size, int fd, bool huge, boxlite_error **err);
void bx_gmem_done(struct bx_gmem *mem);
/* len bytes of guest memory from gpa on, wholly inside one region, else NULL. */
void *bx_gmem_at(const struct bx_gmem *mem, uint64_t gpa, uint64_t len);

#endif
