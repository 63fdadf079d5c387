/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path.c: names, folders and trees.
 *
 * Trees are walked by descriptor, one level a call, and a name is opened with O_NOFOLLOW, so a symlink
 * that somebody puts in the way is removed or counted but never followed. Depth is bounded: removal
 * moves a folder that lies too deep up to the tree's top and goes on there, so that any tree, however
 * deep, can be removed with few descriptors and little stack.
 */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/str.h"

#define WALK_DEPTH_MAX 64
#define TMP_TRIES 100
#define TMP_DIGITS 8

char *bx_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    while (n > 0 && dir[n - 1] == '/') {
        n--;
    }
    while (*name == '/') {
        name++;
    }
    return n > INT_MAX ? NULL : bx_asprintf("%.*s/%s", (int)n, dir, name);
}

char *bx_path_absolute(const char *path)
{
    if (*path == '/') {
        return strdup(path);
    }
    _cleanup_free_ char *cwd = getcwd(NULL, 0);
    return cwd ? bx_path_join(cwd, path) : NULL;
}

int bx_mkdir_p(const char *path, mode_t mode)
{
    _cleanup_free_ char *p = strdup(path);
    if (!p) {
        return -ENOMEM;
    }
    if (!*p) {
        return -ENOENT;
    }
    for (char *s = p + 1;; s++) {
        if (*s && *s != '/') {
            continue;
        }
        char c = *s;
        *s = '\0';
        struct stat st;
        if (mkdir(p, mode) < 0 && (errno != EEXIST || stat(p, &st) < 0)) {
            /* A folder on the way may exist where nothing may be created (EROFS, EACCES). */
            int r = -errno;
            if (stat(p, &st) < 0) {
                return r;
            }
        }
        if (stat(p, &st) < 0) {
            return -errno;
        }
        if (!S_ISDIR(st.st_mode)) {
            return -ENOTDIR;
        }
        if (!c) {
            return 0;
        }
        *s = c;
    }
}

static int open_subdir(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int bx_open_dir(int dirfd, const char *name, mode_t mode)
{
    int fd = open_subdir(dirfd, name);
    if (fd != -ENOENT || mode == 0) {
        return fd;
    }
    if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST) {
        return -errno;
    }
    return open_subdir(dirfd, name);
}

static void remember(int *first, int r)
{
    if (r < 0 && *first == 0) {
        *first = r;
    }
}

/* Opens a folder that is to be emptied; one whose mode forbids that is given the rights. */
static int open_doomed(int dirfd, const char *name)
{
    int fd = open_subdir(dirfd, name);
    if (fd == -EACCES) {
        _cleanup_close_ int handle =
            openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
        if (handle >= 0 && chmod(path, 0700) == 0) {
            fd = open_subdir(dirfd, name);
        }
    }
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700) {
        (void)fchmod(fd, 0700);
    }
    return fd;
}

struct removal {
    int top;    /* the tree's first folder, where too deep ones are moved */
    bool again; /* something was moved there */
    int first;  /* first failure */
};

/* Moves a folder that lies too deep to the top, under a name nobody has. */
static void move_up(struct removal *rm, int dirfd, const char *name)
{
    char fresh[64] = ".rm.";
    bx_random_hex(fresh + 4, 32);
    int fd = open_doomed(dirfd, name); /* a folder must be writable to get another parent */
    bx_close(&fd);
    if (renameat(dirfd, name, rm->top, fresh) == 0) {
        rm->again = true;
    } else if (errno != ENOENT) {
        remember(&rm->first, -errno);
    }
}

static void remove_entry(struct removal *rm, int dirfd, const char *name, int depth);

/* Removes all that is in the folder fd, which is taken. */
static void empty_folder(struct removal *rm, int fd, int depth)
{
    _cleanup_closedir_ DIR *d = fdopendir(fd);
    if (!d) {
        remember(&rm->first, -errno);
        (void)close(fd);
        return;
    }
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e) {
            remember(&rm->first, -errno);
            return;
        }
        if (!bx_streq(e->d_name, ".") && !bx_streq(e->d_name, "..")) {
            remove_entry(rm, fd, e->d_name, depth);
        }
    }
}

static void remove_entry(struct removal *rm, int dirfd, const char *name, int depth)
{
    /* A folder gives EISDIR on Linux (EPERM by POSIX, which is also a true refusal). */
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT) {
        return;
    }
    int r = -errno;
    if (r != -EISDIR && r != -EPERM) {
        remember(&rm->first, r);
        return;
    }
    if (depth >= WALK_DEPTH_MAX) {
        move_up(rm, dirfd, name);
        return;
    }
    int fd = open_doomed(dirfd, name);
    if (fd < 0) {
        remember(&rm->first, fd == -ENOTDIR || fd == -ELOOP ? r : fd);
        return;
    }
    empty_folder(rm, fd, depth + 1);
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        remember(&rm->first, -errno);
    }
}

int bx_rm_rf(int dirfd, const char *name)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    int refusal = -errno;
    if (refusal != -EISDIR && refusal != -EPERM) {
        return refusal;
    }
    _cleanup_close_ int top = open_doomed(dirfd, name);
    if (top < 0) {
        return top == -ENOTDIR || top == -ELOOP ? refusal : top;
    }
    struct removal rm = {.top = top};
    do {
        rm.again = false;
        int fd = open_subdir(top, "."); /* empty_folder() takes it */
        if (fd < 0) {
            return fd;
        }
        empty_folder(&rm, fd, 1);
    } while (rm.again);
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        remember(&rm.first, -errno);
    }
    return rm.first;
}

static int add_usage(int dirfd, const char *name, int depth, uint64_t *sum)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return -errno;
    }
    *sum += (uint64_t)st.st_blocks * 512;
    if (!S_ISDIR(st.st_mode)) {
        return 0;
    }
    if (depth >= WALK_DEPTH_MAX) {
        return -ELOOP;
    }
    int fd = open_subdir(dirfd, name);
    if (fd < 0) {
        return fd;
    }
    _cleanup_closedir_ DIR *d = fdopendir(fd);
    if (!d) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e) {
            return -errno;
        }
        if (bx_streq(e->d_name, ".") || bx_streq(e->d_name, "..")) {
            continue;
        }
        int r = add_usage(fd, e->d_name, depth + 1, sum);
        if (r < 0 && r != -ENOENT) { /* what goes away meanwhile uses nothing */
            return r;
        }
    }
}

int bx_disk_usage(int dirfd, const char *name, uint64_t *ret)
{
    uint64_t sum = 0;
    int r = add_usage(dirfd, name, 0, &sum);
    if (r == 0) {
        *ret = sum;
    }
    return r;
}

/* Makes names until `make` does not say EEXIST; its result. */
static int make_temporary(int dirfd, const char *prefix, char *ret, size_t size,
                          int (*make)(int dirfd, const char *name))
{
    char name[NAME_MAX + 1];
    int n = snprintf(name, sizeof(name), "%s.", prefix);
    if (n < 0 || (size_t)n + TMP_DIGITS >= sizeof(name) || (size_t)n + TMP_DIGITS >= size) {
        return -ENAMETOOLONG;
    }
    for (int i = 0; i < TMP_TRIES; i++) {
        bx_random_hex(name + n, TMP_DIGITS);
        int r = make(dirfd, name);
        if (r != -EEXIST) {
            if (r >= 0) {
                memcpy(ret, name, (size_t)n + TMP_DIGITS + 1);
            }
            return r;
        }
    }
    return -EEXIST;
}

static int make_folder(int dirfd, const char *name)
{
    return mkdirat(dirfd, name, 0700) < 0 ? -errno : 0;
}

static int make_file(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

int bx_mkdtempat(int dirfd, const char *prefix, char *ret, size_t size)
{
    return make_temporary(dirfd, prefix, ret, size, make_folder);
}

int bx_mkstempat(int dirfd, const char *prefix, char *ret, size_t size)
{
    return make_temporary(dirfd, prefix, ret, size, make_file);
}

bool bx_is_filename(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= NAME_MAX && !strchr(name, '/') && !bx_streq(name, ".") &&
           !bx_streq(name, "..");
}
