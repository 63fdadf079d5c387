/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openat2.h: opening a path inside a folder that is treated as the root: neither ".." nor any symbolic
 * link leads out of it. (musl has no wrapper.)
 */
#ifndef BX_GUEST_OPENAT2_H
#define BX_GUEST_OPENAT2_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline int open_in_root(int root, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (unsigned int)flags | O_CLOEXEC,
        .mode = mode,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

#endif
