/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h: where an imported kernel comes from: the files of a Debian package, or of a folder. The
 * only place of this layer that knows libarchive. Nothing is unpacked to disk.
 */
#ifndef BX_BOOT_SOURCE_H
#define BX_BOOT_SOURCE_H

#include <boxlite.h>

#include "base/buf.h"
#include "boot/modules.h"

#define BX_VMLINUZ_MAX (128u << 20)
#define BX_VMLINUX_MAX (512u << 20)

/* Goes once through a package: gives the modules that `m` wants, reads modules.builtin, and appends
 * boot/vmlinuz-* to vmlinuz if that is empty. */
int bx_source_deb(const char *path, struct bx_modules *m, struct bx_buf *vmlinuz,
                  boxlite_error **err);
/* The same from a /lib/modules/VERSION folder (no vmlinuz in it). */
int bx_source_dir(const char *path, struct bx_modules *m, boxlite_error **err);
/* Appends the unpacked form of a stream compressed with gzip, xz, lzma, zstd, lz4 or bzip2. */
int bx_source_unpack(const void *data, size_t len, const char *what, struct bx_buf *out,
                     boxlite_error **err);

#endif
