/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_guest_tar.c: any bytes as an archive. The reader ends, with an entry that makes sense or an error;
 * what it read is written and read again to the same.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guest/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p;
    size_t left;
};

static int take(void *data, void *p, size_t len)
{
    struct input *in = data;
    if (in->left < len) {
        int r = in->left == 0 ? -ENODATA : -EBADMSG;
        in->left = 0;
        return r;
    }
    memcpy(p, in->p, len);
    in->p += len;
    in->left -= len;
    return 0;
}

static void again(const struct tar_entry *e)
{
    struct bx_buf b = BX_BUF_INIT(8u << 20);
    if (tar_write_header(&b, e) < 0 || b.len % TAR_BLOCK != 0) {
        abort();
    }
    struct input in = {bx_buf_data(&b), b.len};
    struct tar_reader r = {.read = take, .data = &in};
    if (tar_read_header(&r) != 1 || strcmp(r.entry.name, e->name) != 0 || r.entry.type != e->type ||
        strcmp(r.entry.link, e->link) != 0 || r.entry.size != e->size || r.entry.mode != e->mode ||
        r.entry.mtime != e->mtime || r.entry.uid != e->uid || in.left != 0) {
        abort();
    }
    tar_reader_done(&r);
    bx_buf_done(&b);
}

static bool is_plain(const struct tar_entry *e)
{
    /* Others are read as files, or are not read back under a name that ends like a folder's. */
    size_t len = strlen(e->name);
    return strchr("0123456", e->type) && e->type && len > 0 && e->name[len - 1] != '/' &&
           e->mtime >= 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct tar_reader r = {.read = take, .data = &in};
    int k;
    while ((k = tar_read_header(&r)) > 0) {
        struct tar_entry *e = &r.entry;
        if (!e->name || !e->link || e->size > INT64_MAX || (e->mode & ~07777u)) {
            abort();
        }
        if (is_plain(e)) {
            again(e);
        }
        uint64_t padded = (e->size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        size_t skip = padded < in.left ? (size_t)padded : in.left;
        in.p += skip;
        in.left -= skip;
    }
    if (k == -EBADMSG && in.left > 0 && !r.problem) {
        abort();
    }
    tar_reader_done(&r);
    return 0;
}
