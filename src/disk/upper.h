/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upper.h: the writable ext4 file of a box. A template per size is made once by mke2fs (no root needed) in
 * templates/, then reflinked or copied with its holes: an unused box costs less than 1 MiB of disk.
 */
#ifndef BX_DISK_UPPER_H
#define BX_DISK_UPPER_H

#include <boxlite.h>
#include <stdint.h>

#include "state/home.h"

#define BX_UPPER_MIN (64ull << 20)
#define BX_UPPER_MAX (16ull << 40)

/* Creates dirfd/name with an empty ext4 of that many bytes (rounded up to MiB). ENGINE with hint if mke2fs is missing. */
int bx_upper_create(const struct bx_home *home, uint64_t size, int dirfd, const char *name,
                    boxlite_error **err);

#endif
