/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.c: see cgroup.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/io.h"
#include "guest/cgroup.h"

#define BOX "/sys/fs/cgroup/box"
/* Memory that the container never gets, of what is free when it starts: what the agent may need at its
 * busiest, and what the kernel takes that no cgroup is charged with. */
#define RESERVE_BYTES (UINT64_C(12) << 20)
/* Tasks that one exec may not take from the others: a fork bomb leaves room to start a rescuer. */
#define RESERVE_TASKS 64
/* memory.stat, the longest of the files that are read. */
#define READ_MAX 8192

static int write_at(int dirfd, const char *file, const char *text)
{
    _cleanup_close_ int fd = openat(dirfd, file, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : bx_write_full(fd, text, strlen(text));
}

static int write_u64(int dirfd, const char *file, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return write_at(dirfd, file, text);
}

/* Where the value behind a key's line of a file begins (the whole file without a key), or NULL. */
static const char *find_key(const char *text, const char *key)
{
    size_t len = key ? strlen(key) : 0;
    const char *p = text;
    while (key && !(strncmp(p, key, len) == 0 && (p[len] == ' ' || p[len] == ':'))) {
        p = strchr(p, '\n');
        if (!p) {
            return NULL;
        }
        p++;
    }
    return p + len + (key && p[len] == ':');
}

static int read_file(int dirfd, const char *file, char text[READ_MAX])
{
    _cleanup_close_ int fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -errno : bx_read_full(fd, text, READ_MAX - 1);
    if (n < 0) {
        return (int)n;
    }
    text[n] = 0;
    return 0;
}

int cgroup_read(int dirfd, const char *file, const char *key, uint64_t *ret)
{
    char text[READ_MAX];
    int r = read_file(dirfd, file, text);
    const char *p = r < 0 ? NULL : find_key(text, key);
    if (!p) {
        return r < 0 ? r : -ENOENT;
    }
    *ret = strtoull(p, NULL, 10);
    return 0;
}

int cgroup_read_word(int dirfd, const char *file, const char *key, const char *word, uint64_t *ret)
{
    char text[READ_MAX];
    int r = read_file(dirfd, file, text);
    const char *p = r < 0 ? NULL : find_key(text, key);
    const char *end = p ? p + strcspn(p, "\n") : NULL;
    p = p ? strstr(p, word) : NULL;
    if (!p || p >= end) {
        return r < 0 ? r : -ENOENT;
    }
    *ret = strtoull(p + strlen(word), NULL, 10);
    return 0;
}

static void enable(int dirfd)
{
    /* One by one: a missing controller would take the others with it. */
    (void)write_at(dirfd, "cgroup.subtree_control", "+memory");
    (void)write_at(dirfd, "cgroup.subtree_control", "+pids");
    (void)write_at(dirfd, "cgroup.subtree_control", "+cpu");
}

static uint64_t memory_limit(void)
{
    uint64_t available;
    if (cgroup_read(AT_FDCWD, "/proc/meminfo", "MemAvailable", &available) < 0) {
        return 0;
    }
    available *= 1024;
    uint64_t reserve = RESERVE_BYTES + available / 64;
    return available > 2 * reserve ? available - reserve : available / 2;
}

static uint64_t task_limit(void)
{
    uint64_t threads, pids;
    if (cgroup_read(AT_FDCWD, "/proc/sys/kernel/threads-max", NULL, &threads) < 0 ||
        cgroup_read(AT_FDCWD, "/proc/sys/kernel/pid_max", NULL, &pids) < 0) {
        return 1024;
    }
    uint64_t most = threads < pids ? threads : pids;
    return most - most / 4;
}

int cgroup_make_box(struct container *c, struct failure *f)
{
    if (mkdir(BOX, 0755) < 0 && errno != EEXIST) {
        return failure_set(f, errno, "making the container's cgroup");
    }
    c->boxfd = open(BOX, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->boxfd < 0) {
        return failure_set(f, errno, "opening the container's cgroup");
    }
    _cleanup_close_ int root = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enable(root);
    uint64_t memory = memory_limit();
    uint64_t tasks = task_limit();
    if (memory > 0 && write_u64(c->boxfd, "memory.max", memory) < 0) {
        agent_say("no memory controller: nothing is kept back for the agent");
    }
    if (write_u64(c->boxfd, "pids.max", tasks) < 0) {
        agent_say("no pids controller: a fork bomb is not contained");
    }
    c->exec_pids_max = tasks > 2 * RESERVE_TASKS ? tasks - RESERVE_TASKS : tasks;
    return 0;
}

int cgroup_settle_init(struct container *c, struct failure *f)
{
    char pid[32];
    (void)snprintf(pid, sizeof(pid), "%d", (int)c->pid);
    int r = mkdirat(c->boxfd, "init", 0755) < 0 && errno != EEXIST ? -errno : 0;
    r = r < 0 ? r : write_at(c->boxfd, "init/cgroup.procs", pid);
    if (r < 0) {
        return failure_set(f, r, "moving the container's init to its cgroup");
    }
    enable(c->boxfd);
    return 0;
}

static void exec_name(uint32_t id, const char *file, char name[64])
{
    (void)snprintf(name, 64, "e%u%s%s", id, *file ? "/" : "", file);
}

int cgroup_make_exec(const struct container *c, uint32_t id)
{
    char name[64];
    exec_name(id, "", name);
    if (mkdirat(c->boxfd, name, 0755) < 0) {
        return -errno;
    }
    int fd = openat(c->boxfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int r = -errno;
        (void)cgroup_remove_exec(c, id);
        return r;
    }
    (void)write_u64(fd, "pids.max", c->exec_pids_max);
    return fd;
}

int cgroup_kill_exec(const struct container *c, uint32_t id)
{
    char name[64];
    exec_name(id, "cgroup.kill", name);
    return write_at(c->boxfd, name, "1");
}

int cgroup_remove_exec(const struct container *c, uint32_t id)
{
    char name[64];
    exec_name(id, "", name);
    return unlinkat(c->boxfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
