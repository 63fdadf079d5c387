/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_attr.c: attributes: stat, chmod, times, size, access, extended attributes, the file system's own.
 *
 * What changes a file by path goes through /proc/self/fd of a descriptor whose inode is known to be the
 * right one. Giving a file away does nothing: it belongs to the calling user whatever the guest says.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "share/export.h"

static int reply_attr(struct bx_call *c, struct bx_node *n)
{
    struct bx_stat st;
    struct fuse_attr_out out = {0};
    int r = bx_call_stat(c, n, &st);
    if (r < 0) {
        return r;
    }
    bx_fresh_attr(c->t, n, &st.st, &out.attr_valid, &out.attr_valid_nsec);
    bx_call_attr(c, n, &st.st, &out.attr);
    bx_call_reply(c, &out, sizeof(out));
    return 0;
}

static int op_getattr(struct bx_call *c)
{
    return reply_attr(c, c->node);
}

/* ---- setattr */

struct target {
    int fd;      /* of an open file, or O_PATH */
    bool opened; /* fd is an open file's */
};

static int set_mode(const struct bx_call *c, const struct target *t)
{
    char name[16];
    mode_t mode = c->r->arg.setattr.mode & BX_MODE_MASK;
    if (S_ISLNK(c->node->type)) {
        return -EOPNOTSUPP;
    }
    (void)snprintf(name, sizeof(name), "%d", t->fd);
    return fchmodat(c->t->opt.proc_fd, name, mode, 0) < 0 ? -errno : 0;
}

static int set_owner(const struct bx_call *c)
{
    const struct fuse_setattr_in *in = &c->r->arg.setattr;
    uint32_t uid = c->r->head.uid, gid = c->r->head.gid;
    bool own = (!(in->valid & FATTR_UID) || in->uid == uid) &&
               (!(in->valid & FATTR_GID) || in->gid == gid);
    return uid == 0 || own ? 0 : -EPERM;
}

static int set_size(struct bx_call *c, const struct target *t)
{
    const struct fuse_setattr_in *in = &c->r->arg.setattr;
    if (in->size > INT64_MAX) {
        return -EFBIG;
    }
    if (S_ISDIR(c->node->type)) {
        return -EISDIR;
    }
    _cleanup_close_ int own = -1;
    int fd = t->fd;
    if (!t->opened) {
        own = fd = bx_node_open(&c->t->nodes, c->node, O_WRONLY);
    }
    if (fd < 0) {
        return fd;
    }
    if (ftruncate(fd, (off_t)in->size) < 0) {
        return -errno;
    }
    return in->valid & FATTR_KILL_SUIDGID ? bx_kill_set_ids(fd) : 0;
}

static struct timespec time_of(uint32_t valid, uint32_t set, uint32_t now, uint64_t sec,
                               uint32_t nsec)
{
    struct timespec ts = {.tv_nsec = UTIME_OMIT};
    if (valid & now) {
        ts.tv_nsec = UTIME_NOW;
    } else if (valid & set) {
        ts = (struct timespec){(time_t)sec, nsec < 1000000000u ? (long)nsec : 0};
    }
    return ts;
}

static int set_times(struct bx_call *c, const struct target *t)
{
    const struct fuse_setattr_in *in = &c->r->arg.setattr;
    char name[16];
    const struct timespec times[] = {
        time_of(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
        time_of(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec),
    };
    if (S_ISLNK(c->node->type)) { /* a link's own; a swapped one is still an entry of this folder */
        struct bx_node *dir = c->node->parent;
        int dirfd = dir ? bx_node_fd(&c->t->nodes, dir) : -ESTALE;
        if (dirfd < 0) {
            return dirfd;
        }
        return utimensat(dirfd, c->node->name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    }
    (void)snprintf(name, sizeof(name), "%d", t->fd);
    return utimensat(c->t->opt.proc_fd, name, times, 0) < 0 ? -errno : 0;
}

static int find_target(struct bx_call *c, struct target *ret)
{
    const struct bx_handle *h = NULL;
    if (c->r->arg.setattr.valid & FATTR_FH) {
        h = bx_handle_find(c, c->r->arg.setattr.fh, false);
    }
    if (h && h->node != c->node) {
        return -EBADF;
    }
    bool writes = h && (fcntl(h->fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    if (!h && c->node->handles && !c->node->parent) {
        h = c->node->handles; /* an open file without a name */
    }
    *ret = (struct target){.fd = h ? h->fd : bx_node_fd(&c->t->nodes, c->node), .opened = writes};
    return ret->fd < 0 ? ret->fd : 0;
}

static int op_setattr(struct bx_call *c)
{
    uint32_t valid = c->r->arg.setattr.valid;
    struct target t;
    int r = bx_call_writes(c);
    r = r < 0 ? r : find_target(c, &t);
    if (r == 0 && valid & (FATTR_UID | FATTR_GID)) {
        r = set_owner(c);
    }
    if (r == 0 && valid & FATTR_SIZE) {
        r = set_size(c, &t);
    }
    if (r == 0 && valid & FATTR_MODE) {
        r = set_mode(c, &t);
    }
    if (r == 0 && valid & (FATTR_ATIME | FATTR_MTIME | FATTR_ATIME_NOW | FATTR_MTIME_NOW)) {
        r = set_times(c, &t);
    }
    return r < 0 ? r : reply_attr(c, c->node);
}

/* ---- others */

static int op_access(struct bx_call *c)
{
    char name[16];
    int mask = (int)(c->r->arg.access.mask & (R_OK | W_OK | X_OK));
    int r = mask & W_OK ? bx_call_writes(c) : 0;
    int fd = r < 0 ? r : bx_node_fd(&c->t->nodes, c->node);
    if (fd < 0 || S_ISLNK(c->node->type)) {
        return fd < 0 ? fd : 0;
    }
    (void)snprintf(name, sizeof(name), "%d", fd);
    return faccessat(c->t->opt.proc_fd, name, mask, 0) < 0 ? -errno : 0;
}

static int op_statfs(struct bx_call *c)
{
    struct statfs fs;
    if (fstatfs(c->t->nodes.root->fd, &fs) < 0) {
        return -errno;
    }
    const struct fuse_statfs_out out = {.st = {.blocks = fs.f_blocks,
                                               .bfree = fs.f_bfree,
                                               .bavail = fs.f_bavail,
                                               .files = fs.f_files,
                                               .ffree = fs.f_ffree,
                                               .bsize = (uint32_t)fs.f_bsize,
                                               .namelen = (uint32_t)fs.f_namelen,
                                               .frsize = (uint32_t)fs.f_frsize}};
    bx_call_reply(c, &out, sizeof(out));
    return 0;
}

/* ---- extended attributes: user.* only */

/* The path by which the node's attributes are reached. */
static int xattr_path(struct bx_call *c, char path[BX_PROC_PATH])
{
    if (!S_ISREG(c->node->type) && !S_ISDIR(c->node->type)) {
        return -EOPNOTSUPP; /* the kernel has no user.* for these */
    }
    int fd = c->node->handles ? c->node->handles->fd : bx_node_fd(&c->t->nodes, c->node);
    if (fd >= 0) {
        (void)bx_proc_path(fd, path);
    }
    return fd < 0 ? fd : 0;
}

static int check_xattr(struct bx_call *c, char path[BX_PROC_PATH])
{
    return bx_startswith(c->r->name, "user.") ? xattr_path(c, path) : -EOPNOTSUPP;
}

/* The answer to a question of size 0 is the size, else the bytes. */
static int reply_sized(struct bx_call *c, uint32_t asked, ssize_t n)
{
    if (n < 0) {
        return -errno;
    }
    if (asked == 0) {
        const struct fuse_getxattr_out out = {.size = (uint32_t)n};
        bx_call_reply(c, &out, sizeof(out));
    } else {
        c->len = (size_t)n;
    }
    return 0;
}

static int op_getxattr(struct bx_call *c)
{
    char path[BX_PROC_PATH];
    uint32_t size = c->r->arg.getxattr.size;
    int r = check_xattr(c, path);
    size = size < XATTR_SIZE_MAX ? size : XATTR_SIZE_MAX;
    return r < 0 ? r : reply_sized(c, size, getxattr(path, c->r->name, c->out, size));
}

static int op_setxattr(struct bx_call *c)
{
    char path[BX_PROC_PATH];
    int r = bx_call_writes(c);
    r = r < 0 ? r : check_xattr(c, path);
    if (r < 0) {
        return r;
    }
    int flags = (int)(c->r->arg.setxattr.flags & (XATTR_CREATE | XATTR_REPLACE));
    return setxattr(path, c->r->name, c->r->data, c->r->len, flags) < 0 ? -errno : 0;
}

static int op_removexattr(struct bx_call *c)
{
    char path[BX_PROC_PATH];
    int r = bx_call_writes(c);
    r = r < 0 ? r : check_xattr(c, path);
    return r < 0 ? r : removexattr(path, c->r->name) < 0 ? -errno : 0;
}

static int op_listxattr(struct bx_call *c)
{
    char path[BX_PROC_PATH];
    uint32_t asked = c->r->arg.getxattr.size;
    int r = xattr_path(c, path);
    if (r == -EOPNOTSUPP) {
        return reply_sized(c, asked, 0);
    }
    ssize_t n = r < 0 ? 0 : listxattr(path, (char *)c->out, XATTR_LIST_MAX);
    if (r < 0 || n < 0) {
        return r < 0 ? r : -errno;
    }
    size_t kept = 0;
    for (size_t at = 0, len; at < (size_t)n; at += len) {
        const char *name = (const char *)c->out + at;
        len = strnlen(name, (size_t)n - at) + 1;
        if (bx_startswith(name, "user.")) {
            memmove(c->out + kept, name, len);
            kept += len;
        }
    }
    if (asked != 0 && kept > asked) {
        return -ERANGE;
    }
    return reply_sized(c, asked, (ssize_t)kept);
}

const bx_op_fn bx_ops_attr[FUSE_COPY_FILE_RANGE + 1] = {
    [FUSE_GETATTR] = op_getattr,     [FUSE_SETATTR] = op_setattr,
    [FUSE_ACCESS] = op_access,       [FUSE_STATFS] = op_statfs,
    [FUSE_GETXATTR] = op_getxattr,   [FUSE_SETXATTR] = op_setxattr,
    [FUSE_LISTXATTR] = op_listxattr, [FUSE_REMOVEXATTR] = op_removexattr,
};
