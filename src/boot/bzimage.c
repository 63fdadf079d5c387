/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bzimage.c: the setup header of a vmlinuz.
 *
 * Offsets are those of the boot protocol's table. The payload is a compressed ELF; behind it the
 * kernel's build appends its unpacked size as 4 bytes (gzip has that number as its own last field,
 * so nothing is appended there). Every offset is checked against the file before it is used.
 */
#include "boot/bzimage.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define SETUP_SECTS 0x1f1
#define BOOT_FLAG 0x1fe
#define MAGIC 0x202
#define VERSION 0x206
#define PAYLOAD_OFFSET 0x248
#define PAYLOAD_LENGTH 0x24c
#define HEADER_END 0x250

static const struct {
    const char *magic;
    size_t len;
    const char *name;
    bool readable;
} compressions[] = {
    {"\x1f\x8b", 2, "gzip", true},
    {"\xfd"
     "7zXZ\0",
     6, "xz", true},
    {"\x28\xb5\x2f\xfd", 4, "zstd", true},
    {"\x02\x21\x4c\x18", 4, "lz4", true},
    {"\x5d\0\0", 3, "lzma", true},
    {"BZh", 3, "bzip2", true},
    {"\x89LZO", 4, "lzo", false},
};

static uint32_t le32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

int bx_bzimage_parse(const void *data, size_t len, struct bx_bzimage *ret)
{
    const uint8_t *p = data;
    if (len < HEADER_END || p[BOOT_FLAG] != 0x55 || p[BOOT_FLAG + 1] != 0xaa ||
        memcmp(p + MAGIC, "HdrS", 4) != 0) {
        return -EINVAL;
    }
    if ((p[VERSION] | p[VERSION + 1] << 8) < 0x208) {
        return -ENOTSUP;
    }
    /* 0 means 4 (protocol); the first sector is not counted. */
    uint64_t setup = ((uint64_t)(p[SETUP_SECTS] ? p[SETUP_SECTS] : 4) + 1) * 512;
    uint64_t off = setup + le32(p + PAYLOAD_OFFSET);
    uint64_t n = le32(p + PAYLOAD_LENGTH);
    if (off > len || n > len - off || n < 16) {
        return -EBADMSG;
    }
    struct bx_bzimage out = {.payload_off = (size_t)off,
                             .payload_len = (size_t)n,
                             .vmlinux_size = le32(p + off + n - 4),
                             .compression = "unknown"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(compressions); i++) {
        if (memcmp(p + off, compressions[i].magic, compressions[i].len) == 0) {
            out.compression = compressions[i].name;
            out.readable = compressions[i].readable;
            break;
        }
    }
    if (strcmp(out.compression, "gzip") != 0) {
        out.payload_len -= 4;
    }
    *ret = out;
    return 0;
}
