/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_place.c: shared folders at their places in the container.
 *
 * Runs in the container's init. What is carried over the change of the root are detached mounts; a
 * workspace is joined first: the host's folder below, the box's own disk above. Places are made in the
 * order of their paths, so that one inside another comes later. Paths are resolved in the container.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/share.h"
#include "wire/proto.h"

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif

static int make_dir(const char *path, struct failure *f)
{
    return mkdir(path, 0755) < 0 && errno != EEXIST ? failure_set(f, errno, "making %s", path) : 0;
}

/* The upper folder is what the workspace's own attributes are read from: those of the host's. */
static int make_upper(const char *path, size_t number, struct failure *f)
{
    char lower[64];
    struct stat st;
    (void)snprintf(lower, sizeof(lower), SHARE_DIR "/%zu", number);
    if (mkdir(path, 0700) < 0) {
        return errno == EEXIST ? 0 : failure_set(f, errno, "making %s", path);
    }
    if (stat(lower, &st) < 0 || chown(path, st.st_uid, st.st_gid) < 0 ||
        chmod(path, st.st_mode & 07777) < 0) {
        int r = failure_set(f, errno, "giving %s the attributes of the host's folder", path);
        (void)rmdir(path);
        return r;
    }
    return 0;
}

/* The folders of workspace N; its overlay at SHARE_UNION_DIR/N. */
static int join(size_t number, const char *guest, struct failure *f)
{
    char upper[64], work[64], merged[64], options[256];
    (void)snprintf(upper, sizeof(upper), SHARE_UPPER "/%zu/upper", number);
    (void)snprintf(work, sizeof(work), SHARE_UPPER "/%zu/work", number);
    (void)snprintf(merged, sizeof(merged), SHARE_UNION_DIR "/%zu", number);
    int r = make_dir(SHARE_UPPER, f);
    r = r < 0 ? r : make_dir(SHARE_UNION_DIR, f);
    char *slash = strrchr(upper, '/');
    *slash = '\0';
    r = r < 0 ? r : make_dir(upper, f);
    *slash = '/';
    r = r < 0 ? r : make_upper(upper, number, f);
    r = r < 0 ? r : make_dir(work, f);
    r = r < 0 ? r : make_dir(merged, f);
    if (r < 0) {
        return r;
    }
    /* A folder is renamed by a note in the upper one; files are always copied whole. */
    (void)snprintf(options, sizeof(options),
                   "lowerdir=" SHARE_DIR "/%zu,upperdir=%s,workdir=%s,redirect_dir=on,metacopy=off,"
                   "index=off,xino=off",
                   number, upper, work);
    if (mount("workspace", merged, "overlay", MS_NODEV | MS_NOATIME, options) < 0) {
        return failure_set(f, errno, "joining the workspace %.100s (overlayfs)", guest);
    }
    return 0;
}

int share_take(const struct config *cfg, struct share_trees *t, struct failure *f)
{
    for (size_t i = 0; i < cfg->nmounts; i++) {
        const struct config_mount *m = &cfg->mounts[i];
        bool workspace = m->flags & BX_MOUNT_UNION;
        char path[64];
        int r = workspace ? join(i, m->guest, f) : 0;
        if (r < 0) {
            return r;
        }
        (void)snprintf(path, sizeof(path), "%s/%zu", workspace ? SHARE_UNION_DIR : SHARE_DIR, i);
        t->fds[i] =
            (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (t->fds[i] < 0) {
            return failure_set(f, errno, "taking the shared folder %.100s along", m->guest);
        }
    }
    return 0;
}

static int make_place(const struct config_mount *m, struct failure *f)
{
    struct stat st;
    bool is_file = m->flags & BX_MOUNT_FILE;
    _cleanup_free_ char *path = strdup(m->guest);
    if (!path) {
        return failure_set(f, ENOMEM, "placing %.100s", m->guest);
    }
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode) == !is_file) {
            return 0;
        }
        return failure_say(f, ENOTDIR, "the image has a %s at %.150s, where a %s is to be shared",
                           is_file ? "folder" : "file", path, is_file ? "file" : "folder");
    }
    if (!is_file) {
        return mkdir(path, 0755) < 0 ? failure_set(f, errno, "making %.150s", path) : 0;
    }
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd < 0 ? failure_set(f, errno, "making %.150s", path) : 0;
}

static int by_path(const void *a, const void *b)
{
    const struct config_mount *const *x = a, *const *y = b;
    return strcmp((*x)->guest, (*y)->guest);
}

int share_place(const struct config *cfg, struct share_trees *t, struct failure *f)
{
    const struct config_mount *order[CONFIG_MOUNTS_MAX];
    int r = 0;
    for (size_t i = 0; i < cfg->nmounts; i++) {
        order[i] = &cfg->mounts[i];
    }
    qsort(order, cfg->nmounts, sizeof(*order), by_path);
    for (size_t i = 0; r == 0 && i < cfg->nmounts; i++) {
        int *fd = &t->fds[order[i] - cfg->mounts];
        r = make_place(order[i], f);
        if (r == 0 && syscall(SYS_move_mount, *fd, "", AT_FDCWD, order[i]->guest,
                              MOVE_MOUNT_F_EMPTY_PATH) < 0) {
            r = failure_set(f, errno, "mounting at %.150s", order[i]->guest);
        }
        bx_close(fd);
    }
    return r;
}
