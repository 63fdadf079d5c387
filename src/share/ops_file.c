/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_file.c: open files: contents, sizes, holes, copies.
 *
 * Of the guest's open flags only those that mean the same on the host are used. A file that is to be made
 * is made exclusively; one that is there already is opened as any other, which looks at its type first.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "share/export.h"

#define OPEN_FLAGS (O_ACCMODE | O_TRUNC | O_APPEND | O_SYNC | O_DSYNC)
#define COPY_MAX (16u << 20) /* at once: others wait meanwhile */

static int check_flags(const struct bx_call *c, int flags)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
    return writes ? bx_call_writes(c) : 0;
}

static int open_node(struct bx_call *c, struct bx_node *n, int flags, struct fuse_open_out *ret)
{
    if (S_ISDIR(n->type)) {
        return -EISDIR;
    }
    int r = check_flags(c, flags);
    int fd = r < 0 ? r : bx_node_open(&c->t->nodes, n, flags & OPEN_FLAGS);
    if (fd < 0) {
        return fd;
    }
    if (flags & O_TRUNC) {
        (void)bx_kill_set_ids(fd);
    }
    /* FUSE_AUTO_INVAL_DATA drops what has changed meanwhile. */
    *ret = (struct fuse_open_out){.open_flags = FOPEN_KEEP_CACHE};
    return bx_handle_new(c, n, fd, false, &ret->fh);
}

static int op_open(struct bx_call *c)
{
    struct fuse_open_out out;
    int r = open_node(c, c->node, (int)c->r->arg.open.flags & ~(O_CREAT | O_EXCL), &out);
    if (r == 0) {
        bx_call_reply(c, &out, sizeof(out));
    }
    return r;
}

/* A new file, or -EEXIST. */
static int make_file(struct bx_call *c, int dirfd, int flags)
{
    mode_t mode = c->r->arg.create.mode & BX_MODE_MASK;
    int fd =
        openat(dirfd, c->r->name,
               (flags & OPEN_FLAGS) | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
    return fd < 0 ? -errno : fd;
}

static int op_create(struct bx_call *c)
{
    struct {
        struct fuse_entry_out entry;
        struct fuse_open_out open;
    } out = {0};
    int flags = (int)c->r->arg.create.flags;
    int r = bx_call_writes(c);
    int dirfd = r < 0 ? r : bx_call_dir(c);
    if (dirfd < 0) {
        return dirfd;
    }
    _cleanup_close_ int fd = make_file(c, dirfd, flags);
    if (fd < 0 && (fd != -EEXIST || flags & O_EXCL)) {
        return fd;
    }
    r = bx_call_lookup(c, c->node, c->r->name, &out.entry);
    if (r < 0) {
        return r;
    }
    struct bx_node *n = bx_node_find(&c->t->nodes, out.entry.nodeid);
    if (fd < 0) {
        r = open_node(c, n, flags, &out.open);
    } else {
        r = bx_handle_new(c, n, steal_fd(&fd), false, &out.open.fh);
    }
    if (r < 0) {
        bx_node_forget(&c->t->nodes, n, 1); /* the guest never hears of it */
        return r;
    }
    bx_call_reply(c, &out, sizeof(out));
    return 0;
}

static int op_release(struct bx_call *c)
{
    struct bx_handle *h = bx_handle_find(c, c->r->arg.release.fh, false);
    if (!h) {
        return -EBADF;
    }
    bx_handle_free(c->t, h);
    return 0;
}

/* The open file of a call. */
static int file_of(struct bx_call *c, uint64_t fh)
{
    const struct bx_handle *h = bx_handle_find(c, fh, false);
    return h ? h->fd : -EBADF;
}

static int op_read(struct bx_call *c)
{
    const struct fuse_read_in *in = &c->r->arg.read;
    int fd = file_of(c, in->fh);
    if (fd < 0 || in->offset > INT64_MAX) {
        return fd < 0 ? fd : -EINVAL;
    }
    size_t size = in->size < BX_FUSE_IO_MAX ? in->size : BX_FUSE_IO_MAX;
    while (c->len < size) { /* a short answer would mean the end of the file */
        ssize_t n = pread(fd, c->out + c->len, size - c->len, (off_t)(in->offset + c->len));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && c->len == 0) {
            return -errno;
        }
        if (n <= 0) {
            break;
        }
        c->len += (size_t)n;
    }
    return 0;
}

static int op_write(struct bx_call *c)
{
    const struct fuse_write_in *in = &c->r->arg.write;
    struct fuse_write_out out = {0};
    int fd = file_of(c, in->fh);
    if (fd < 0 || in->offset > INT64_MAX) {
        return fd < 0 ? fd : -EINVAL;
    }
    while (out.size < in->size) {
        ssize_t n =
            pwrite(fd, c->r->data + out.size, in->size - out.size, (off_t)(in->offset + out.size));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && out.size == 0) {
            return -errno;
        }
        if (n <= 0) {
            break;
        }
        out.size += (uint32_t)n;
    }
    if (in->write_flags & FUSE_WRITE_KILL_SUIDGID) {
        (void)bx_kill_set_ids(fd);
    }
    bx_call_reply(c, &out, sizeof(out));
    return 0;
}

static int op_fsync(struct bx_call *c)
{
    int fd = file_of(c, c->r->arg.fsync.fh);
    if (fd < 0) {
        return fd;
    }
    bool data = c->r->arg.fsync.fsync_flags & FUSE_FSYNC_FDATASYNC;
    return (data ? fdatasync(fd) : fsync(fd)) < 0 ? -errno : 0;
}

static int op_fallocate(struct bx_call *c)
{
    const struct fuse_fallocate_in *in = &c->r->arg.fallocate;
    int fd = file_of(c, in->fh), r = bx_call_writes(c);
    if (fd < 0 || r < 0) {
        return fd < 0 ? fd : r;
    }
    if (in->mode & ~(uint32_t)(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
        return -EOPNOTSUPP;
    }
    if (in->offset > INT64_MAX || in->length > INT64_MAX) {
        return -EFBIG;
    }
    return fallocate(fd, (int)in->mode, (off_t)in->offset, (off_t)in->length) < 0 ? -errno : 0;
}

static int op_lseek(struct bx_call *c)
{
    const struct fuse_lseek_in *in = &c->r->arg.lseek;
    int fd = file_of(c, in->fh);
    if (fd < 0) {
        return fd;
    }
    if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE) {
        return -EINVAL;
    }
    off_t at = lseek(fd, (off_t)in->offset, (int)in->whence);
    if (at < 0) {
        return -errno;
    }
    const struct fuse_lseek_out out = {.offset = (uint64_t)at};
    bx_call_reply(c, &out, sizeof(out));
    return 0;
}

static int op_copy(struct bx_call *c)
{
    const struct fuse_copy_file_range_in *in = &c->r->arg.copy;
    int from = file_of(c, in->fh_in), to = file_of(c, in->fh_out), r = bx_call_writes(c);
    off_t off_in = (off_t)in->off_in, off_out = (off_t)in->off_out;
    if (from < 0 || to < 0 || r < 0) {
        return r < 0 ? r : -EBADF;
    }
    size_t len = in->len < COPY_MAX ? (size_t)in->len : COPY_MAX;
    ssize_t n = copy_file_range(from, &off_in, to, &off_out, len, 0);
    if (n < 0) {
        return -errno;
    }
    const struct fuse_write_out out = {.size = (uint32_t)n};
    bx_call_reply(c, &out, sizeof(out));
    return 0;
}

const bx_op_fn bx_ops_file[FUSE_COPY_FILE_RANGE + 1] = {
    [FUSE_OPEN] = op_open,           [FUSE_CREATE] = op_create, [FUSE_RELEASE] = op_release,
    [FUSE_READ] = op_read,           [FUSE_WRITE] = op_write,   [FUSE_FSYNC] = op_fsync,
    [FUSE_FALLOCATE] = op_fallocate, [FUSE_LSEEK] = op_lseek,   [FUSE_COPY_FILE_RANGE] = op_copy,
};
