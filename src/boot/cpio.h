/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpio.h: writes the "newc" archive that Linux takes as an initramfs (kernel documentation,
 * driver-api/early-userspace/buffer-format). Entries are appended to a buffer; times are 0, so equal
 * input gives equal bytes. bx_cpio_end() makes it whole. 0 or -errno (-ENOBUFS over the maximum).
 */
#ifndef BX_BOOT_CPIO_H
#define BX_BOOT_CPIO_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* mode has the file type; name has no leading slash. Parents must have been added before. */
int bx_cpio_file(struct bx_buf *out, const char *name, mode_t mode, const void *data, size_t len);
int bx_cpio_dir(struct bx_buf *out, const char *name);
int bx_cpio_char_device(struct bx_buf *out, const char *name, mode_t mode, unsigned major,
                        unsigned minor);
int bx_cpio_end(struct bx_buf *out);

#endif
