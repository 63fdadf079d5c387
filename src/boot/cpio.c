/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpio.c: the newc writer.
 *
 * An entry is a header of 6 + 13 * 8 hexadecimal characters, the name with its NUL, padding to 4,
 * the data, padding to 4. Inode numbers only matter for hard links (nlink > 1), which are never
 * written, so all are 0. Sizes are 32 bits in the format: larger files are refused.
 */
#include "boot/cpio.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER_SIZE 110

struct entry {
    const char *name;
    mode_t mode;
    unsigned nlink, major, minor;
    const void *data;
    size_t len;
};

static int pad4(struct bx_buf *out, size_t written)
{
    static const char zero[4];
    return bx_buf_append(out, zero, -written & 3);
}

static int add(struct bx_buf *out, const struct entry *e)
{
    if (e->len > UINT32_MAX) {
        return -EFBIG;
    }
    size_t name = strlen(e->name) + 1;
    if (name > 4096) {
        return -ENAMETOOLONG;
    }
    int r = bx_buf_appendf(out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", 0u,
                           (unsigned)e->mode, 0u, 0u, e->nlink, 0u, (unsigned)e->len, 0u, 0u,
                           e->major, e->minor, (unsigned)name, 0u);
    if (r == 0) {
        r = bx_buf_append(out, e->name, name);
    }
    if (r == 0) {
        r = pad4(out, HEADER_SIZE + name);
    }
    if (r == 0) {
        r = bx_buf_append(out, e->data, e->len);
    }
    return r < 0 ? r : pad4(out, e->len);
}

int bx_cpio_file(struct bx_buf *out, const char *name, mode_t mode, const void *data, size_t len)
{
    struct entry e = {.name = name, .mode = S_IFREG | mode, .nlink = 1, .data = data, .len = len};
    return add(out, &e);
}

int bx_cpio_dir(struct bx_buf *out, const char *name)
{
    struct entry e = {.name = name, .mode = S_IFDIR | 0755, .nlink = 2, .data = ""};
    return add(out, &e);
}

int bx_cpio_char_device(struct bx_buf *out, const char *name, mode_t mode, unsigned major,
                        unsigned minor)
{
    struct entry e = {.name = name,
                      .mode = S_IFCHR | mode,
                      .nlink = 1,
                      .major = major,
                      .minor = minor,
                      .data = ""};
    return add(out, &e);
}

int bx_cpio_end(struct bx_buf *out)
{
    struct entry e = {.name = "TRAILER!!!", .nlink = 1, .data = ""};
    return add(out, &e);
}
