/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c: everything that touches a workspace goes through here: relative to the root's descriptor, with
 * openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS), so that neither a path nor a link that
 * someone swaps in meanwhile leads out. Where the kernel or a filter has no openat2, the folders are opened one by
 * one with O_NOFOLLOW, which holds the same for paths that bx_ws_path_ok() lets through.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "workspace/workspace.h"

void bx_ws_node_of(const struct stat *st, struct bx_ws_node *ret)
{
    *ret = (struct bx_ws_node){
        .type = S_ISREG(st->st_mode)   ? BX_WS_FILE
                : S_ISDIR(st->st_mode) ? BX_WS_DIR
                : S_ISLNK(st->st_mode) ? BX_WS_LINK
                                       : BX_WS_OTHER,
        .mode = st->st_mode & 07777,
        .size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
        .ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
        .ino = st->st_ino & INT64_MAX,
    };
}

bool bx_ws_node_same(const struct bx_ws_node *a, const struct bx_ws_node *b)
{
    if (a->type != b->type || a->type == BX_WS_NONE) {
        return a->type == b->type;
    }
    if (a->type == BX_WS_DIR) {
        return true;
    }
    return a->size == b->size && a->mtime_ns == b->mtime_ns && a->ino == b->ino &&
           ((a->mode ^ b->mode) & 0777) == 0;
}

bool bx_ws_path_ok(const char *path)
{
    unsigned depth = 0;
    if (!*path || strlen(path) > BX_WS_PATH_MAX) {
        return false;
    }
    for (const char *p = path;; depth++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || n > NAME_MAX || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.'))) ||
            depth == BX_WS_DEPTH_MAX) {
            return false;
        }
        if (!p[n]) {
            return true;
        }
        p += n + 1;
    }
}

int bx_ws_open_root(const char *path, int *ret, boxlite_error **err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int r = bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the workspace %s", path);
        bx_hint(err, "the folder was moved or removed since the box was made");
        return r;
    }
    *ret = fd;
    return 0;
}

static int walk_by_hand(int root, const char *path, int flags, mode_t mode)
{
    _cleanup_free_ char *copy = strdup(path);
    _cleanup_close_ int fd = fcntl(root, F_DUPFD_CLOEXEC, 3);
    char *p = copy, *slash;
    if (!copy || fd < 0) {
        return copy ? -errno : -ENOMEM;
    }
    while ((slash = strchr(p, '/'))) {
        *slash = '\0';
        int next = openat(fd, p, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            return -errno;
        }
        (void)close(fd);
        fd = next;
        p = slash + 1;
    }
    int last = openat(fd, p, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    return last < 0 ? -errno : last;
}

int bx_ws_openat(int root, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    if (!bx_streq(path, ".") && !bx_ws_path_ok(path)) {
        return -EINVAL;
    }
    for (int tries = 0; tries < 16; tries++) {
        long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
        if (fd >= 0) {
            return (int)fd;
        }
        if (errno == ENOSYS || errno == EPERM) {
            return walk_by_hand(root, path, flags, mode);
        }
        if (errno != EAGAIN) { /* a rename elsewhere made the kernel unsure */
            return -errno;
        }
    }
    return -EAGAIN;
}

int bx_ws_open_parent(int root, const char *path, const char **base)
{
    const char *slash = strrchr(path, '/');
    if (!bx_ws_path_ok(path)) {
        return -EINVAL;
    }
    *base = slash ? slash + 1 : path;
    _cleanup_free_ char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    return dir ? bx_ws_openat(root, dir, O_RDONLY | O_DIRECTORY, 0) : -ENOMEM;
}

int bx_ws_stat(int root, const char *path, struct bx_ws_node *ret)
{
    const char *base;
    struct stat st;
    _cleanup_close_ int dir = bx_ws_open_parent(root, path, &base);
    int r = dir < 0 ? dir : fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
        *ret = (struct bx_ws_node){.type = BX_WS_NONE};
        return 0;
    }
    if (r == 0) {
        bx_ws_node_of(&st, ret);
    }
    return r;
}

int bx_ws_readlink(int root, const char *path, char **ret)
{
    char target[PATH_MAX];
    const char *base;
    _cleanup_close_ int dir = bx_ws_open_parent(root, path, &base);
    ssize_t n = dir < 0 ? -1 : readlinkat(dir, base, target, sizeof(target) - 1);
    if (n < 0) {
        return dir < 0 ? dir : -errno;
    }
    target[n] = '\0';
    *ret = strdup(target);
    return *ret ? 0 : -ENOMEM;
}
