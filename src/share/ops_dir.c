/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_dir.c: open folders: their entries, with what each is (readdirplus) or without.
 *
 * The host's entries are read in blocks and kept until they have been told; the guest may go on at any
 * offset it was given. An entry that was told with its attributes counts as looked up. What may not be
 * entered, or has gone since, is told by its name alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "share/export.h"

#define BLOCK (32u << 10)

struct entry { /* struct linux_dirent64 */
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
} __attribute__((packed));

static int op_opendir(struct bx_call *c)
{
    struct fuse_open_out out = {0};
    if (!S_ISDIR(c->node->type)) {
        return -ENOTDIR;
    }
    int fd = bx_node_open(&c->t->nodes, c->node, O_RDONLY | O_DIRECTORY);
    int r = fd < 0 ? fd : bx_handle_new(c, c->node, fd, true, &out.fh);
    if (r == 0) {
        bx_call_reply(c, &out, sizeof(out));
    }
    return r;
}

static int op_releasedir(struct bx_call *c)
{
    struct bx_handle *h = bx_handle_find(c, c->r->arg.release.fh, true);
    if (!h) {
        return -EBADF;
    }
    bx_handle_free(c->t, h);
    return 0;
}

static int op_fsyncdir(struct bx_call *c)
{
    const struct bx_handle *h = bx_handle_find(c, c->r->arg.fsync.fh, true);
    return !h ? -EBADF : fsync(h->fd) < 0 ? -errno : 0;
}

/* The entry at the handle's place, read if need be. 1: *ret, 0: the end, -errno. */
static int next_entry(struct bx_handle *h, const struct entry **ret)
{
    if (!h->entries && !(h->entries = malloc(BLOCK))) {
        return -ENOMEM;
    }
    if (h->at == h->len) {
        long n = syscall(SYS_getdents64, h->fd, h->entries, BLOCK);
        if (n <= 0) {
            return n < 0 ? -errno : 0;
        }
        h->at = 0;
        h->len = (size_t)n;
    }
    *ret = (const struct entry *)(h->entries + h->at);
    return 1;
}

static int go_to(struct bx_handle *h, uint64_t offset)
{
    if (offset == h->offset) {
        return 0;
    }
    if (lseek(h->fd, (off_t)offset, SEEK_SET) < 0) {
        return -errno;
    }
    h->at = h->len = 0;
    h->offset = offset;
    return 0;
}

static void fill_dirent(struct fuse_dirent *d, const struct entry *e, size_t namelen)
{
    d->ino = e->ino;
    d->off = (uint64_t)e->off;
    d->namelen = (uint32_t)namelen;
    d->type = e->type;
}

static size_t put_plain(struct bx_call *c, const struct entry *e, size_t namelen)
{
    struct fuse_dirent d = {0};
    fill_dirent(&d, e, namelen);
    memcpy(c->out + c->len, &d, FUSE_NAME_OFFSET);
    memcpy(c->out + c->len + FUSE_NAME_OFFSET, e->name, namelen);
    return FUSE_NAME_OFFSET + namelen;
}

static size_t put_plus(struct bx_call *c, const struct entry *e, size_t namelen)
{
    struct fuse_direntplus d = {0};
    bool dots = bx_streq(e->name, ".") || bx_streq(e->name, "..");
    if (dots || bx_call_lookup(c, c->node, e->name, &d.entry_out) < 0) {
        d.entry_out = (struct fuse_entry_out){0};
    }
    fill_dirent(&d.dirent, e, namelen);
    memcpy(c->out + c->len, &d, FUSE_NAME_OFFSET_DIRENTPLUS);
    memcpy(c->out + c->len + FUSE_NAME_OFFSET_DIRENTPLUS, e->name, namelen);
    return FUSE_NAME_OFFSET_DIRENTPLUS + namelen;
}

static int read_dir(struct bx_call *c, size_t head,
                    size_t (*put)(struct bx_call *c, const struct entry *e, size_t namelen))
{
    const struct fuse_read_in *in = &c->r->arg.read;
    struct bx_handle *h = bx_handle_find(c, in->fh, true);
    size_t size = in->size < BX_FUSE_IO_MAX ? in->size : BX_FUSE_IO_MAX;
    if (!h || h->node != c->node) {
        return -EBADF;
    }
    const struct entry *e = NULL;
    int r = go_to(h, in->offset);
    while (r == 0 && (r = next_entry(h, &e)) > 0) {
        size_t namelen = strlen(e->name);
        size_t need = FUSE_DIRENT_ALIGN(head + namelen);
        if (c->len + need > size) {
            return 0;
        }
        size_t n = put(c, e, namelen);
        memset(c->out + c->len + n, 0, need - n);
        c->len += need;
        h->at += e->reclen;
        h->offset = (uint64_t)e->off;
        r = 0;
    }
    return c->len > 0 ? 0 : r;
}

static int op_readdir(struct bx_call *c)
{
    return read_dir(c, FUSE_NAME_OFFSET, put_plain);
}

static int op_readdirplus(struct bx_call *c)
{
    return read_dir(c, FUSE_NAME_OFFSET_DIRENTPLUS, put_plus);
}

const bx_op_fn bx_ops_dir[FUSE_COPY_FILE_RANGE + 1] = {
    [FUSE_OPENDIR] = op_opendir,         [FUSE_READDIR] = op_readdir,
    [FUSE_READDIRPLUS] = op_readdirplus, [FUSE_RELEASEDIR] = op_releasedir,
    [FUSE_FSYNCDIR] = op_fsyncdir,
};
