/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_name.c: names in folders: finding, making, removing, renaming.
 *
 * Every call is one system call on (descriptor of a folder, one component), none of which follows a link,
 * so there is no moment in which a swapped link could lead out. What a name was is looked up before it
 * goes, to know which node loses it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "share/export.h"

static int reply_entry(struct bx_call *c, struct bx_node *dir, const char *name)
{
    struct fuse_entry_out out;
    int r = bx_call_lookup(c, dir, name, &out);
    if (r == 0) {
        bx_call_reply(c, &out, sizeof(out));
    }
    return r;
}

static int op_lookup(struct bx_call *c)
{
    int r = reply_entry(c, c->node, c->r->name);
    if (r == -ENOENT) { /* that there is none may be kept as well */
        struct fuse_entry_out none = {0};
        bx_fresh_entry(c->t, c->node, false, &none.entry_valid, &none.entry_valid_nsec);
        bx_call_reply(c, &none, sizeof(none));
        r = 0;
    }
    return r;
}

/* The folder of a call that changes it. */
static int writable_dir(struct bx_call *c)
{
    int r = bx_call_writes(c);
    return r < 0 ? r : bx_call_dir(c);
}

static int op_mkdir(struct bx_call *c)
{
    int dirfd = writable_dir(c);
    if (dirfd < 0) {
        return dirfd;
    }
    if (mkdirat(dirfd, c->r->name, c->r->arg.mkdir.mode & BX_MODE_MASK) < 0) {
        return -errno;
    }
    return reply_entry(c, c->node, c->r->name);
}

static int op_mknod(struct bx_call *c)
{
    uint32_t mode = c->r->arg.mknod.mode;
    int dirfd = writable_dir(c);
    if (dirfd < 0) {
        return dirfd;
    }
    /* Pipes and sockets work among the guest's processes. Devices are the host's. */
    if (!S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode)) {
        return -EPERM;
    }
    if (mknodat(dirfd, c->r->name, mode & (S_IFMT | BX_MODE_MASK), 0) < 0) {
        return -errno;
    }
    return reply_entry(c, c->node, c->r->name);
}

static int op_symlink(struct bx_call *c)
{
    int dirfd = writable_dir(c);
    if (dirfd < 0) {
        return dirfd;
    }
    if (symlinkat(c->r->name2, dirfd, c->r->name) < 0) {
        return -errno;
    }
    return reply_entry(c, c->node, c->r->name);
}

static int op_readlink(struct bx_call *c)
{
    if (!S_ISLNK(c->node->type)) {
        return -EINVAL;
    }
    int fd = bx_node_fd(&c->t->nodes, c->node);
    ssize_t n = fd < 0 ? 0 : readlinkat(fd, "", (char *)c->out, PATH_MAX);
    if (fd < 0 || n < 0) {
        return fd < 0 ? fd : -errno;
    }
    c->len = (size_t)n;
    return 0;
}

static int op_link(struct bx_call *c)
{
    char path[BX_PROC_PATH];
    struct bx_node *from = bx_node_find(&c->t->nodes, c->r->arg.link.oldnodeid);
    int r = bx_call_writes(c);
    if (r < 0 || !from || S_ISDIR(from->type)) {
        return r < 0 ? r : from ? -EPERM : -ESTALE;
    }
    int fd = bx_node_fd(&c->t->nodes, from);
    _cleanup_close_ int held = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int dirfd = bx_call_dir(c);
    if (fd < 0 || held < 0 || dirfd < 0) {
        return fd < 0 ? fd : dirfd < 0 ? dirfd : -EMFILE;
    }
    (void)snprintf(path, sizeof(path), "%d", held);
    if (linkat(c->t->opt.proc_fd, path, dirfd, c->r->name, AT_SYMLINK_FOLLOW) < 0) {
        return -errno;
    }
    return reply_entry(c, c->node, c->r->name);
}

/* The node that stands behind a name now, or NULL. */
static struct bx_node *node_at(struct bx_call *c, int dirfd, const char *name)
{
    struct bx_stat st;
    return bx_stat_at(dirfd, name, &st) == 0 ? bx_node_same(&c->t->nodes, &st.st) : NULL;
}

/* It is not called so any more, if it was (it may have other names). */
static void lose_name(struct bx_call *c, struct bx_node *n, const struct bx_node *dir,
                      const char *name)
{
    if (n && n->parent == dir && n->name && strcmp(n->name, name) == 0) {
        (void)bx_node_rename(&c->t->nodes, n, NULL, NULL);
    }
}

static int remove_name(struct bx_call *c, int flags)
{
    int dirfd = writable_dir(c);
    if (dirfd < 0) {
        return dirfd;
    }
    struct bx_node *n = node_at(c, dirfd, c->r->name);
    if (unlinkat(dirfd, c->r->name, flags) < 0) {
        return -errno;
    }
    lose_name(c, n, c->node, c->r->name);
    return 0;
}

static int op_unlink(struct bx_call *c)
{
    return remove_name(c, 0);
}

static int op_rmdir(struct bx_call *c)
{
    return remove_name(c, AT_REMOVEDIR);
}

static int rename_nodes(struct bx_call *c, struct bx_node *to, int from_fd, int to_fd,
                        uint32_t flags)
{
    const char *old = c->r->name, *new = c->r->name2;
    struct bx_node *moved = node_at(c, from_fd, old), *other = node_at(c, to_fd, new);
    if (syscall(SYS_renameat2, from_fd, old, to_fd, new, flags) < 0) {
        return -errno;
    }
    if (moved == other) {
        return 0; /* two names of one file: nothing was done */
    }
    if (other && flags & RENAME_EXCHANGE) {
        (void)bx_node_rename(&c->t->nodes, other, c->node, old);
    } else {
        lose_name(c, other, to, new);
    }
    if (moved) {
        (void)bx_node_rename(&c->t->nodes, moved, to, new);
    }
    return 0;
}

static int op_rename(struct bx_call *c)
{
    uint32_t flags = c->r->head.opcode == FUSE_RENAME2 ? c->r->arg.rename.flags : 0;
    struct bx_node *to = bx_node_find(&c->t->nodes, c->r->arg.rename.newdir);
    int from_fd = writable_dir(c);
    if (from_fd < 0) {
        return from_fd;
    }
    if (flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE)) {
        return -EINVAL;
    }
    if (!to || !S_ISDIR(to->type)) {
        return to ? -ENOTDIR : -ESTALE;
    }
    /* The first descriptor is a cache's and may go when the second is opened. */
    _cleanup_close_ int held = fcntl(from_fd, F_DUPFD_CLOEXEC, 0);
    if (held < 0) {
        return -errno;
    }
    int to_fd = bx_node_fd(&c->t->nodes, to);
    return to_fd < 0 ? to_fd : rename_nodes(c, to, held, to_fd, flags);
}

const bx_op_fn bx_ops_name[FUSE_COPY_FILE_RANGE + 1] = {
    [FUSE_LOOKUP] = op_lookup,     [FUSE_MKDIR] = op_mkdir,   [FUSE_MKNOD] = op_mknod,
    [FUSE_SYMLINK] = op_symlink,   [FUSE_LINK] = op_link,     [FUSE_UNLINK] = op_unlink,
    [FUSE_RMDIR] = op_rmdir,       [FUSE_RENAME] = op_rename, [FUSE_RENAME2] = op_rename,
    [FUSE_READLINK] = op_readlink,
};
