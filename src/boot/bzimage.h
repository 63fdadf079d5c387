/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bzimage.h: finds the compressed kernel in a vmlinuz (kernel documentation, arch/x86/boot: the
 * setup header's payload_offset and payload_length, boot protocol 2.08). The file is not trusted.
 */
#ifndef BX_BOOT_BZIMAGE_H
#define BX_BOOT_BZIMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bx_bzimage {
    size_t payload_off; /* the compressed stream alone */
    size_t payload_len;
    uint64_t vmlinux_size;   /* of the decompressed kernel, as the file says */
    const char *compression; /* "gzip", "xz", "lzma", "lz4", "zstd", "bzip2", "lzo" or "unknown" */
    bool readable;           /* a compression that we can read */
};

/* -EINVAL: no bzImage; -ENOTSUP: one of before protocol 2.08; -EBADMSG: cut off or damaged. */
int bx_bzimage_parse(const void *data, size_t len, struct bx_bzimage *ret);

#endif
