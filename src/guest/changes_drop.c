/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes_drop.c: the built-in changes-drop: takes changes out of an overlay's upper folder, so that what lies below is
 * to be seen again.
 *
 *     changes-drop UPPER [PATH…]      without a path: all of them
 *
 * As changes-out it runs in the agent's own view. The overlay is mounted meanwhile, and caches what it has seen: it is
 * meant for a VM that is up for this alone and stopped after. What lies in a folder that is marked opaque comes back
 * with that folder only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"
#include "guest/tar.h"

static int complain(const char *what, int errnum)
{
    (void)dprintf(2, "changes-drop: %s: %s\n", what, strerror(errnum));
    return 1;
}

static int drop_all(int upper)
{
    int status = 0, copy = fcntl(upper, F_DUPFD_CLOEXEC, 3);
    _cleanup_closedir_ DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;
    if (!dir) {
        return complain("upper folder", errno);
    }
    while ((d = readdir(dir))) {
        if (!bx_streq(d->d_name, ".") && !bx_streq(d->d_name, "..")) {
            int r = bx_rm_rf(upper, d->d_name);
            status = r < 0 ? complain(d->d_name, -r) : status;
        }
    }
    return status;
}

/* The folder on the way is looked up without following links, and below the upper. */
static int drop_one(int upper, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    _cleanup_free_ char *copy = strdup(path);
    if (!copy) {
        return complain(path, ENOMEM);
    }
    char *slash = strrchr(copy, '/');
    const char *base = slash ? slash + 1 : path;
    *(slash ? slash : copy) = 0;
    _cleanup_close_ int dir =
        (int)syscall(SYS_openat2, upper, *copy ? copy : ".", &how, sizeof(how));
    if (dir < 0) {
        return errno == ENOENT || errno == ENOTDIR ? 0
                                                   : complain(path, errno); /* no change there */
    }
    int r = bx_is_filename(base) ? bx_rm_rf(dir, base) : -EINVAL;
    return r < 0 ? complain(path, -r) : 0;
}

int changes_drop(char *const *argv, size_t argc)
{
    int status = 0;
    _cleanup_close_ int upper = open(argv[0], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (upper < 0) {
        return errno == ENOENT ? 0 : complain(argv[0], errno);
    }
    for (size_t i = 1; i < argc; i++) {
        status |= drop_one(upper, argv[i]);
    }
    return argc == 1 ? drop_all(upper) : status;
}
