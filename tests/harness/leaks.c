/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaks.c: what a test left behind: descriptors, children, memory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "internal.h"

#define FDS_MAX 4096
#define CHILDREN_MAX 256

struct fd_set_names {
    size_t n;
    int fd[FDS_MAX];
};

struct fd_set_names *harness_fds(void)
{
    struct fd_set_names *fds = calloc(1, sizeof(*fds));
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;
    while (fds && d && (e = readdir(d)) && fds->n < FDS_MAX) {
        int fd;
        if (sscanf(e->d_name, "%d", &fd) == 1 && fd != dirfd(d)) {
            fds->fd[fds->n++] = fd;
        }
    }
    if (d) {
        closedir(d);
    }
    return fds;
}

void harness_fds_free(struct fd_set_names *fds)
{
    free(fds);
}

static bool has_fd(const struct fd_set_names *fds, int fd)
{
    for (size_t i = 0; i < fds->n; i++) {
        if (fds->fd[i] == fd) {
            return true;
        }
    }
    return false;
}

int harness_fds_compare(const struct fd_set_names *before, const struct fd_set_names *after)
{
    int faults = 0;
    for (size_t i = 0; i < after->n; i++) {
        if (!has_fd(before, after->fd[i])) {
            char path[64], target[256];
            snprintf(path, sizeof(path), "/proc/self/fd/%d", after->fd[i]);
            ssize_t n = readlink(path, target, sizeof(target) - 1);
            target[n < 0 ? 0 : n] = '\0';
            printf("leaked descriptor %d: %s\n", after->fd[i], target);
            faults++;
        }
    }
    for (size_t i = 0; i < before->n; i++) {
        if (!has_fd(after, before->fd[i])) {
            printf("closed descriptor %d, which was not the test's\n", before->fd[i]);
            faults++;
        }
    }
    fflush(stdout);
    return faults;
}

/* The children of this process: their number. */
static size_t list_children(pid_t *ret, size_t max)
{
    /* The kernel lists them by the thread that made them; all of ours count. */
    DIR *d = opendir("/proc/self/task");
    const struct dirent *e;
    size_t n = 0;
    while (d && (e = readdir(d))) {
        char path[320];
        snprintf(path, sizeof(path), "/proc/self/task/%s/children", e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (f && n < max && fscanf(f, "%d", &ret[n]) == 1) {
            n++;
        }
        if (f) {
            fclose(f);
        }
    }
    if (d) {
        closedir(d);
    }
    return n;
}

static void print_child(pid_t pid)
{
    char path[64], name[64] = "?", state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%*d (%63[^)]) %c", name, &state) < 1) {
            name[0] = '?';
        }
        fclose(f);
    }
    printf("%s child %d: %s\n", state == 'Z' ? "not reaped" : "left running", pid, name);
}

int harness_children_left(void)
{
    pid_t pids[CHILDREN_MAX];
    size_t n = list_children(pids, CHILDREN_MAX);
    for (size_t i = 0; i < n; i++) {
        print_child(pids[i]);
    }
    fflush(stdout);
    harness_children_kill();
    return (int)n;
}

void harness_children_kill(void)
{
    pid_t pids[CHILDREN_MAX];
    size_t n;
    while ((n = list_children(pids, CHILDREN_MAX)) > 0) {
        for (size_t i = 0; i < n; i++) {
            kill(pids[i], SIGKILL);
        }
        for (size_t i = 0; i < n; i++) {
            while (waitpid(pids[i], NULL, __WALL) < 0 && errno == EINTR) {
            }
        }
    }
}

int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
/* libsquashfs 1.2 does not free a block that is under way when writing fails (its block processor, on a full disk). */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void)
{
    return "leak:libsquashfs.so\n";
}

int harness_memory_left(void)
{
    return __lsan_do_recoverable_leak_check ? __lsan_do_recoverable_leak_check() != 0 : 0;
}
