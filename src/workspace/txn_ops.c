/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn_ops.c: see txn_ops.h and, for why it is so, txn.c.
 *
 * A file that is replaced gets a second name in the stage first (a hard link), then the new one is renamed over it: at
 * every moment one of the two is there whole. Where hard links are refused it is moved aside, and between two renames
 * nothing is there: a crash then is still taken back.
 */
#include "workspace/txn_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"

struct names {
    char fresh[32], old[32];
};

static struct names names_of(size_t n)
{
    struct names s;
    (void)snprintf(s.fresh, sizeof(s.fresh), "n%zu", n);
    (void)snprintf(s.old, sizeof(s.old), "o%zu", n);
    return s;
}

static bool node_at(int dir, const char *name, struct bx_ws_node *ret)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        *ret = (struct bx_ws_node){.type = BX_WS_NONE};
        return false;
    }
    bx_ws_node_of(&st, ret);
    return true;
}

/* To a name that must be free: -EEXIST. */
static int move_new(int from_dir, const char *from, int to_dir, const char *to)
{
    if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -errno;
    }
    /* A file system that does not know that flag. */
    if (linkat(from_dir, from, to_dir, to, 0) < 0) {
        return -errno;
    }
    return unlinkat(from_dir, from, 0) < 0 ? -errno : 0;
}

/* ---- staging */

static int stage_file(const struct bx_ws_txn *t, int stage, const struct bx_ws_op *op,
                      const char *name)
{
    char from[32];
    (void)snprintf(from, sizeof(from), "%s%d", t->undo_source ? "o" : "", op->source);
    _cleanup_close_ int in = openat(t->source, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_close_ int out =
        in < 0 ? -1 : openat(stage, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0) {
        return -errno;
    }
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = op->mtime_ns / 1000000000,
         .tv_nsec = op->mtime_ns ? op->mtime_ns % 1000000000 : UTIME_NOW}};
    int r = bx_copy_sparse(in, out);
    if (r == 0 && (fchmod(out, op->mode & 0777) < 0 || futimens(out, times) < 0)) {
        r = -errno;
    }
    return r;
}

int bx_ws_op_stage(const struct bx_ws_txn *t, int stage, struct bx_ws_op *op, size_t n)
{
    const struct names s = names_of(n);
    struct bx_ws_node node;
    if (op->type == BX_WS_OP_MKDIR) { /* one that is there already is not ours to take back */
        int k = bx_ws_stat(t->root, op->path, &node);
        op->old.type = k == 0 && node.type == BX_WS_DIR ? BX_WS_DIR : BX_WS_NONE;
        return k;
    }
    if (op->type != BX_WS_OP_PUT) {
        return 0;
    }
    int r = op->put == BX_WS_FILE                       ? stage_file(t, stage, op, s.fresh)
            : symlinkat(op->target, stage, s.fresh) < 0 ? -errno
                                                        : 0;
    if (r == 0 && !node_at(stage, s.fresh, &node)) {
        r = -errno;
    }
    if (r == 0) {
        op->ino = node.ino;
        op->size = node.size;
        op->mtime_ns = node.mtime_ns;
    }
    return r;
}

/* ---- doing */

/* What was just moved or linked aside is what the plan knows; a hard link changes nothing that is compared. */
static int verify(int stage, const char *old, const struct bx_ws_op *op)
{
    struct bx_ws_node node;
    return node_at(stage, old, &node) && bx_ws_node_same(&node, &op->old) ? 0 : -ESTALE;
}

static int do_put(int dir, const char *base, int stage, const struct bx_ws_op *op, size_t n)
{
    const struct names s = names_of(n);
    if (op->old.type == BX_WS_NONE) {
        int r = move_new(stage, s.fresh, dir, base);
        return r == -EEXIST ? -ESTALE : r;
    }
    bool linked = linkat(dir, base, stage, s.old, 0) == 0;
    if (!linked) {
        if (errno == ENOENT) {
            return -ESTALE;
        }
        int r = move_new(dir, base, stage, s.old);
        if (r < 0) {
            return r == -ENOENT ? -ESTALE : r;
        }
    }
    int r = verify(stage, s.old, op);
    if (r < 0) {
        return r;
    }
    bx_ws_step();
    return linked ? (renameat(stage, s.fresh, dir, base) < 0 ? -errno : 0)
                  : move_new(stage, s.fresh, dir, base);
}

static int do_remove(int dir, const char *base, int stage, const struct bx_ws_op *op, size_t n)
{
    const struct names s = names_of(n);
    int r = move_new(dir, base, stage, s.old);
    return r == -ENOENT ? -ESTALE : r < 0 ? r : verify(stage, s.old, op);
}

static int do_mkdir(int dir, const char *base, const struct bx_ws_op *op)
{
    struct bx_ws_node node;
    if (mkdirat(dir, base, 0700) < 0) {
        return errno != EEXIST                                       ? -errno
               : node_at(dir, base, &node) && node.type == BX_WS_DIR ? 0
                                                                     : -ESTALE;
    }
    _cleanup_close_ int fd = openat(dir, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || fchmod(fd, op->mode & 0777) < 0 ? -errno : 0;
}

/* By a descriptor of the node itself, so that a link that is put there meanwhile changes nothing elsewhere. */
static int set_mode(int dir, const char *base, const struct bx_ws_op *op, uint32_t mode)
{
    char path[64];
    struct stat st;
    _cleanup_close_ int fd = openat(dir, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return errno == ENOENT ? -ESTALE : -errno;
    }
    struct bx_ws_node node;
    bx_ws_node_of(&st, &node);
    if (node.type != op->old.type || (node.type == BX_WS_FILE && node.ino != op->old.ino)) {
        return -ESTALE;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return chmod(path, mode & 0777) < 0 ? -errno : 0;
}

int bx_ws_op_do(int root, int stage, const struct bx_ws_op *op, size_t n)
{
    const char *base;
    _cleanup_close_ int dir = bx_ws_open_parent(root, op->path, &base);
    if (dir < 0) {
        return dir == -ENOENT || dir == -ENOTDIR || dir == -ELOOP ? -ESTALE : dir;
    }
    switch (op->type) {
    case BX_WS_OP_PUT:
        return do_put(dir, base, stage, op, n);
    case BX_WS_OP_REMOVE:
        return do_remove(dir, base, stage, op, n);
    case BX_WS_OP_MKDIR:
        return do_mkdir(dir, base, op);
    case BX_WS_OP_RMDIR: /* one that is not empty holds what is nobody's business here: it stays */
        return unlinkat(dir, base, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY && errno != EEXIST
                   ? -errno
                   : 0;
    default:
        return set_mode(dir, base, op, op->mode);
    }
}

/* ---- taking back */

static int undo_put(int dir, const char *base, int stage, const struct bx_ws_op *op, size_t n)
{
    const struct names s = names_of(n);
    struct bx_ws_node here, old;
    bool ours = node_at(dir, base, &here) && here.ino == op->ino && here.type == op->put;
    if (!node_at(stage, s.old, &old)) {
        /* New, or not begun. Only what left the stage is there. */
        struct bx_ws_node fresh;
        if (op->old.type != BX_WS_NONE || !ours || node_at(stage, s.fresh, &fresh)) {
            return 0;
        }
        return unlinkat(dir, base, 0) < 0 && errno != ENOENT ? -errno : 0;
    }
    if (here.type == BX_WS_NONE) {
        return move_new(stage, s.old, dir, base);
    }
    if (ours) {
        return renameat(stage, s.old, dir, base) < 0 ? -errno : 0;
    }
    if (here.ino == old.ino) {
        return unlinkat(stage, s.old, 0) < 0 ? -errno : 0; /* it has its first name still */
    }
    return -EEXIST; /* someone put a third thing there: both stay */
}

static int undo_remove(int dir, const char *base, int stage, size_t n)
{
    const struct names s = names_of(n);
    struct bx_ws_node old;
    return node_at(stage, s.old, &old) ? move_new(stage, s.old, dir, base) : 0;
}

static int undo_mkdir(int dir, const char *base, const struct bx_ws_op *op)
{
    if (op->old.type == BX_WS_DIR) {
        return 0; /* it was there before */
    }
    return unlinkat(dir, base, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ENOTEMPTY &&
                   errno != ENOTDIR && errno != EEXIST
               ? -errno
               : 0;
}

static int undo_rmdir(int dir, const char *base, const struct bx_ws_op *op)
{
    if (mkdirat(dir, base, 0700) < 0) {
        return errno == EEXIST ? 0 : -errno;
    }
    return set_mode(dir, base, op, op->old.mode);
}

int bx_ws_op_undo(int root, int stage, const struct bx_ws_op *op, size_t n)
{
    const char *base;
    _cleanup_close_ int dir = bx_ws_open_parent(root, op->path, &base);
    if (dir < 0) {
        return dir == -ENOENT || dir == -ENOTDIR ? 0 : dir; /* it never came so far */
    }
    int r;
    switch (op->type) {
    case BX_WS_OP_PUT:
        return undo_put(dir, base, stage, op, n);
    case BX_WS_OP_REMOVE:
        return undo_remove(dir, base, stage, n);
    case BX_WS_OP_MKDIR:
        return undo_mkdir(dir, base, op);
    case BX_WS_OP_RMDIR:
        return undo_rmdir(dir, base, op);
    default:
        r = set_mode(dir, base, op, op->old.mode);
        return r == -ESTALE ? 0 : r;
    }
}

/* ---- keeping the old, and the way back */

int bx_ws_op_keep(int stage, int old, size_t n)
{
    const struct names s = names_of(n);
    struct bx_ws_node node;
    char target[BX_WS_PATH_MAX + 1];
    if (!node_at(stage, s.old, &node) || renameat(stage, s.old, old, s.old) == 0) {
        return 0;
    }
    (void)unlinkat(old, s.old, 0); /* of a try that was cut off */
    if (node.type == BX_WS_LINK) {
        ssize_t len = readlinkat(stage, s.old, target, sizeof(target) - 1);
        if (len < 0) {
            return -errno;
        }
        target[len] = '\0';
        return symlinkat(target, old, s.old) < 0 ? -errno : 0;
    }
    _cleanup_close_ int in = openat(stage, s.old, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    _cleanup_close_ int out =
        in < 0 ? -1 : openat(old, s.old, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return out < 0 ? -errno : bx_copy_sparse(in, out);
}

static int reverse_put(const struct bx_ws_op *op, size_t n, int old, struct bx_ws_op *ret)
{
    const struct names s = names_of(n);
    char target[BX_WS_PATH_MAX + 1];
    ret->type = BX_WS_OP_PUT;
    ret->put = op->old.type;
    ret->mode = op->old.mode;
    ret->mtime_ns = op->old.mtime_ns;
    ret->source = (int)n;
    if (op->old.type != BX_WS_LINK) {
        return 0;
    }
    ssize_t len = readlinkat(old, s.old, target, sizeof(target) - 1);
    if (len < 0) {
        return -errno;
    }
    target[len] = '\0';
    ret->target = strdup(target);
    return ret->target ? 0 : -ENOMEM;
}

static int reverse_op(const struct bx_ws_op *op, size_t n, int old, struct bx_ws_op *ret)
{
    const struct bx_ws_node fresh = {.type = op->put,
                                     .mode = op->put == BX_WS_LINK ? 0777 : op->mode & 0777,
                                     .size = op->size,
                                     .mtime_ns = op->mtime_ns,
                                     .ino = op->ino};
    *ret = (struct bx_ws_op){.path = strdup(op->path), .source = -1};
    if (!ret->path) {
        return -ENOMEM;
    }
    switch (op->type) {
    case BX_WS_OP_REMOVE:
        return reverse_put(op, n, old, ret);
    case BX_WS_OP_PUT:
        ret->old = fresh;
        ret->type = BX_WS_OP_REMOVE;
        return op->old.type == BX_WS_NONE ? 0 : reverse_put(op, n, old, ret);
    case BX_WS_OP_MKDIR:
        ret->type = BX_WS_OP_RMDIR;
        ret->old = (struct bx_ws_node){.type = BX_WS_DIR, .mode = op->mode};
        return 0;
    case BX_WS_OP_RMDIR:
        ret->type = BX_WS_OP_MKDIR;
        ret->mode = op->old.mode;
        return 0;
    default:
        ret->type = BX_WS_OP_CHMOD;
        ret->mode = op->old.mode;
        ret->old = op->old;
        ret->old.mode = op->mode;
        return 0;
    }
}

int bx_ws_plan_reverse(const struct bx_ws_plan *plan, int old, struct bx_ws_plan *ret,
                       boxlite_error **err)
{
    struct bx_ws_plan back = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < plan->n; i++) {
        struct bx_ws_op op;
        if (plan->v[i].type == BX_WS_OP_MKDIR && plan->v[i].old.type == BX_WS_DIR) {
            continue;
        }
        r = reverse_op(&plan->v[i], i, old, &op);
        if (r < 0) {
            free(op.path);
            free(op.target);
            r = bx_fail_errno(err, BOXLITE_E_IO, r, "the replaced file of %s", plan->v[i].path);
        } else {
            r = bx_ws_plan_add(&back, &op, err);
        }
    }
    if (r < 0) {
        bx_ws_plan_done(&back);
        return r;
    }
    bx_ws_plan_sort(&back);
    *ret = back;
    return 0;
}
