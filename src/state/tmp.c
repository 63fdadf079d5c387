/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tmp.c: unfinished things, in the home's tmp/ folder.
 *
 * Each entry, file or folder, is locked by the process that makes it (flock(2) works on both) for as long
 * as it is unfinished; then it is renamed to where it belongs. The kernel drops the lock however the
 * process ends, so an entry that nobody holds is a crash's left-over and is swept.
 *
 * Between creation and lock a sweep may take a new entry for a left-over. The maker sees that: after
 * locking, the name must still lead to what it holds; if not, it makes another.
 *
 * Small files are written beside their final name by bx_write_file() and stand there for moments only:
 * one that is STALE_SEC old was left by a crash.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "state/home.h"

#define ATTEMPTS 64
#define STALE_SEC 3600

static bool leads_to(int dirfd, const char *name, int fd)
{
    struct stat there, here;

    return fstatat(dirfd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &here) == 0 &&
           there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

static int make_entry(int dirfd, const char *prefix, bool folder, char *name, size_t size)
{
    int r;

    if (!folder) {
        return bx_mkstempat(dirfd, prefix, name, size);
    }
    r = bx_mkdtempat(dirfd, prefix, name, size);
    return r < 0 ? r : bx_open_dir(dirfd, name, 0700);
}

static int tmp_new(const struct bx_home *home, const char *prefix, bool folder, int *ret_dirfd,
                   int *ret_fd, char *name, size_t size, boxlite_error **err)
{
    _cleanup_close_ int dirfd = -1;
    int r = bx_home_dir(home, "tmp", &dirfd, err);

    if (r < 0) {
        return r;
    }
    for (int i = 0; i < ATTEMPTS; i++) {
        _cleanup_close_ int fd = make_entry(dirfd, prefix, folder, name, size);
        if (fd == -ENOENT && folder) {
            continue; /* swept before it was opened */
        }
        if (fd < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, fd, "creating a temporary file in %s/tmp",
                                 home->path);
        }
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && leads_to(dirfd, name, fd)) {
            *ret_dirfd = steal_fd(&dirfd);
            *ret_fd = steal_fd(&fd);
            return 0;
        }
    }
    return bx_fail(err, BOXLITE_E_BUSY, "temporary files in %s/tmp vanish as they are made",
                   home->path);
}

int bx_home_tmp_file(const struct bx_home *home, const char *prefix, int *ret_dirfd, int *ret_fd,
                     char *name, size_t size, boxlite_error **err)
{
    return tmp_new(home, prefix, false, ret_dirfd, ret_fd, name, size, err);
}

int bx_home_tmp_dir(const struct bx_home *home, const char *prefix, int *ret_dirfd, int *ret_fd,
                    char *name, size_t size, boxlite_error **err)
{
    return tmp_new(home, prefix, true, ret_dirfd, ret_fd, name, size, err);
}

/* Removes one entry unless somebody holds it. Failures are left for the next sweep. */
static void sweep_one(int dirfd, const char *name)
{
    _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        if (errno == ELOOP || errno == ENXIO) {
            (void)unlinkat(dirfd, name, 0);
        }
        return;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && leads_to(dirfd, name, fd)) {
        (void)bx_rm_rf(dirfd, name);
    }
}

/* Calls fn for each name in a folder; a folder that is not there has none. */
static void each_name(int parent, const char *folder, void (*fn)(int dirfd, const char *name))
{
    _cleanup_close_ int fd =
        openat(parent, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    _cleanup_closedir_ DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        bx_close(&copy);
        return;
    }
    rewinddir(dir); /* a copy shares its place with the one before */
    for (struct dirent *e; (e = readdir(dir));) {
        fn(fd, e->d_name);
    }
}

static void sweep_stale(int dirfd, const char *name)
{
    struct stat st;
    if (bx_startswith(name, BX_WRITE_TMP ".") &&
        fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        time(NULL) - st.st_mtime > STALE_SEC) {
        (void)unlinkat(dirfd, name, 0);
    }
}

static void sweep_stale_inside(int dirfd, const char *name)
{
    if (bx_is_filename(name)) {
        each_name(dirfd, name, sweep_stale);
    }
}

/* The folders where small files are replaced, besides those of boxes, which go with their box. */
static void sweep_all_stale(const struct bx_home *home)
{
    static const char *const folders[] = {".", "images", "images/blobs/sha256"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(folders); i++) {
        each_name(home->fd, folders[i], sweep_stale);
    }
    each_name(home->fd, "kernels",
              sweep_stale_inside); /* each kernel's initramfs is renewed in its folder */
}

int bx_home_sweep_tmp(const struct bx_home *home, boxlite_error **err)
{
    sweep_all_stale(home);
    _cleanup_close_ int dirfd =
        openat(home->fd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = NULL;
    int copy;

    if (dirfd < 0) {
        return errno == ENOENT
                   ? 0
                   : bx_fail_errno(err, BOXLITE_E_IO, errno, "opening %s/tmp", home->path);
    }
    copy = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        int saved = errno;
        bx_close(&copy);
        return bx_fail_errno(err, BOXLITE_E_IO, saved, "reading %s/tmp", home->path);
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (bx_is_filename(e->d_name)) {
            sweep_one(dirfd, e->d_name);
        }
    }
    return 0;
}
