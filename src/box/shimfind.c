/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shimfind.c: who holds a box. See shimfind.h.
 */
#include "box/shimfind.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"

#define LOCK_NAME "lock"
#define KEEP_NAME "kept"
#define START_TIME_FIELD 22 /* of /proc/PID/stat, see proc(5) */

/* 1: somebody has the lock, 0: nobody, -errno. */
static int is_held(int box_fd, const char *name)
{
    _cleanup_close_ int fd = openat(box_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    return bx_lock_held(fd);
}

static int hold(int box_fd, const char *name)
{
    _cleanup_close_ int fd = openat(box_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : bx_lock(fd, true, false);
    return r < 0 ? r : steal_fd(&fd);
}

int bx_shim_running(int box_fd)
{
    return is_held(box_fd, LOCK_NAME);
}

int bx_shim_lock(int box_fd)
{
    return hold(box_fd, LOCK_NAME);
}

int bx_box_keep_lock(int box_fd)
{
    return hold(box_fd, KEEP_NAME);
}

bool bx_box_kept(int box_fd)
{
    return is_held(box_fd, KEEP_NAME) == 1;
}

/* The start time of a process in clock ticks since boot; 0: no such process. */
static uint64_t start_time(pid_t pid)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(4096);
    char path[64];
    uint64_t ticks = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || bx_read_fd(fd, &text) < 0) {
        return 0;
    }
    /* The second field is the name in parentheses and may hold anything; the third comes behind the
     * last parenthesis. */
    const char *p = strrchr(bx_buf_str(&text), ')');
    for (int field = 2; p && field < START_TIME_FIELD; field++) {
        p = strchr(p + 1, ' ');
    }
    return p && sscanf(p + 1, "%" SCNu64, &ticks) == 1 ? ticks : 0;
}

void bx_shim_note(int lock_fd)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%d %" PRIu64 "\n", (int)getpid(), start_time(getpid()));
    if (ftruncate(lock_fd, 0) == 0) {
        (void)bx_pwrite_full(lock_fd, text, (size_t)n, 0);
    }
}

static int find(int box_fd, int *ret_pid)
{
    _cleanup_close_ int fd = openat(box_fd, LOCK_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    char text[64] = "";
    int pid;
    uint64_t ticks;

    if (fd < 0 || bx_lock_held(fd) != 1 || pread(fd, text, sizeof(text) - 1, 0) <= 0 ||
        sscanf(text, "%d %" SCNu64, &pid, &ticks) != 2 || pid <= 1) {
        return -1;
    }
    _cleanup_close_ int pidfd = bx_pidfd_open(pid);
    if (pidfd < 0 || start_time(pid) != ticks || bx_lock_held(fd) != 1) {
        return -1;
    }
    *ret_pid = pid;
    return steal_fd(&pidfd);
}

int bx_shim_pidfd(int box_fd)
{
    int pid;
    return find(box_fd, &pid);
}

int bx_shim_pid(int box_fd)
{
    int pid = -1;
    _cleanup_close_ int pidfd = find(box_fd, &pid);
    return pidfd < 0 ? -1 : pid;
}
