/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd.c: descriptors.
 *
 * bx_close_all() runs between fork and exec too, so it only makes system calls: where close_range(2)
 * is missing or refused it reads /proc/self/fd with getdents64(2) instead of opendir(3).
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

void bx_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

int bx_pipe(int ret[2])
{
    return pipe2(ret, O_CLOEXEC) < 0 ? -errno : 0;
}

int bx_socketpair(int type, int ret[2])
{
    return socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret) < 0 ? -errno : 0;
}

int bx_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        return -errno;
    }
    int want = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return want != flags && fcntl(fd, F_SETFL, want) < 0 ? -errno : 0;
}

int bx_set_cloexec(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags < 0) {
        return -errno;
    }
    int want = on ? flags | FD_CLOEXEC : flags & ~FD_CLOEXEC;
    return want != flags && fcntl(fd, F_SETFD, want) < 0 ? -errno : 0;
}

int bx_fix_stdio(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            continue;
        }
        /* The lowest free number is fd itself, because those below it are open by now. */
        int null = open("/dev/null", O_RDWR | O_NOCTTY); /* cloexec-ok: standard streams are kept */
        if (null < 0) {
            return -errno;
        }
    }
    return 0;
}

/* The least number >= from that is in keep[], or -1. */
static int next_kept(int from, const int *keep, size_t nkeep)
{
    int best = -1;
    for (size_t i = 0; i < nkeep; i++) {
        if (keep[i] >= from && (best < 0 || keep[i] < best)) {
            best = keep[i];
        }
    }
    return best;
}

static int parse_fd(const char *s)
{
    int64_t n = 0;
    for (; *s >= '0' && *s <= '9' && n <= INT_MAX; s++) {
        n = n * 10 + (*s - '0');
    }
    return *s || n > INT_MAX ? -1 : (int)n;
}

struct dirent64_head {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

/* Closes what one buffer of directory entries names. Returns the number closed. */
static int close_entries(char *buf, size_t len, int dir, int first, const int *keep, size_t nkeep)
{
    int closed = 0;
    for (size_t pos = 0; pos < len;) {
        const struct dirent64_head *d = (const void *)(buf + pos);
        int fd = d->name[0] == '.' ? -1 : parse_fd(d->name);
        if (fd >= first && fd != dir && next_kept(fd, keep, nkeep) != fd) {
            /* EBADF: one that only seems open (valgrind hides its own) must not make us go on. */
            closed += close(fd) == 0 || errno != EBADF;
        }
        pos += d->reclen;
    }
    return closed;
}

static int close_all_by_proc(int first, const int *keep, size_t nkeep)
{
    _cleanup_close_ int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return -errno;
    }
    _Alignas(struct dirent64_head) char buf[4096];
    int closed;
    do { /* again until a pass finds none, since the folder changes while it is read */
        closed = 0;
        long n;
        if (lseek(dir, 0, SEEK_SET) < 0) {
            return -errno;
        }
        while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
            closed += close_entries(buf, (size_t)n, dir, first, keep, nkeep);
        }
        if (n < 0) {
            return -errno;
        }
    } while (closed > 0);
    return 0;
}

int bx_close_all(int first, const int *keep, size_t nkeep)
{
    for (int from = first; from >= 0;) {
        int kept = next_kept(from, keep, nkeep);
        unsigned last = kept < 0 ? UINT_MAX : (unsigned)kept - 1;
        if (kept != from && syscall(SYS_close_range, (unsigned)from, last, 0) < 0) {
            return close_all_by_proc(first, keep, nkeep);
        }
        from = kept < 0 || kept == INT_MAX ? -1 : kept + 1;
    }
    return 0;
}

int bx_pidfd_open(pid_t pid)
{
    long fd = syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -errno : (int)fd;
}

int bx_pidfd_signal(int pidfd, int signo)
{
    return syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0) < 0 ? -errno : 0;
}

static int lock_call(int fd, int cmd, struct flock *fl)
{
    fl->l_whence = SEEK_SET; /* start 0, length 0: the whole file, however it grows */
    int r;
    do {
        r = fcntl(fd, cmd, fl);
    } while (r < 0 && errno == EINTR);
    if (r < 0) {
        return errno == EACCES ? -EAGAIN : -errno;
    }
    return 0;
}

int bx_lock(int fd, bool exclusive, bool wait)
{
    struct flock fl = {.l_type = exclusive ? F_WRLCK : F_RDLCK};
    return lock_call(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &fl);
}

int bx_unlock(int fd)
{
    struct flock fl = {.l_type = F_UNLCK};
    return lock_call(fd, F_OFD_SETLK, &fl);
}

int bx_lock_held(int fd)
{
    struct flock fl = {.l_type = F_WRLCK};
    int r = lock_call(fd, F_OFD_GETLK, &fl);
    return r < 0 ? r : fl.l_type != F_UNLCK;
}

int bx_fd_path(int dirfd, const char *name, char *buf, size_t size)
{
    int n = dirfd == AT_FDCWD ? snprintf(buf, size, "%s", name)
                              : snprintf(buf, size, "/proc/self/fd/%d/%s", dirfd, name);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* A socket and the address dirfd/name. */
static int unix_socket(int dirfd, const char *name, struct sockaddr_un *addr)
{
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!*name) {
        return -EINVAL; /* would be the abstract namespace */
    }
    int r = bx_fd_path(dirfd, name, addr->sun_path, sizeof(addr->sun_path));
    if (r < 0) {
        return r;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

int bx_unix_listen(int dirfd, const char *name, int backlog)
{
    struct sockaddr_un addr;
    _cleanup_close_ int fd = unix_socket(dirfd, name, &addr);
    if (fd < 0) {
        return fd;
    }
    /* The mode of an unbound socket is the one its file gets, so there is no moment when others may
     * connect. */
    if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        listen(fd, backlog) < 0) {
        return -errno;
    }
    return steal_fd(&fd);
}

int bx_unix_connect(int dirfd, const char *name)
{
    struct sockaddr_un addr;
    _cleanup_close_ int fd = unix_socket(dirfd, name, &addr);
    if (fd < 0) {
        return fd;
    }
    int r;
    do {
        r = connect(fd, (struct sockaddr *)&addr, sizeof(addr));
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : steal_fd(&fd);
}

int bx_peer_uid(int fd, uid_t *ret)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
        return -errno;
    }
    *ret = cred.uid;
    return 0;
}
