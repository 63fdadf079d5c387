/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure.c: see pressure.h.
 *
 * The kernel kills for want of memory only when it finds nothing more to reclaim. A command that has all
 * but its own program's pages gives it something for ever: they are dropped, read from the root image
 * again, and dropped; nothing is killed and nothing gets on, for minutes or for good. So the agent does
 * what the kernel does not, and by the kernel's own measures:
 *
 *   armed     the container's memory.events tells when it runs against its limit; until then this costs
 *             nothing. From then on the agent looks every TICK, until a tick passes without such an event.
 *   thrashing a tick in which the tasks waited for memory for SHARE of the time (memory.pressure) while
 *             the page cache was smaller than CACHE_PART of the limit. With more cache than that a
 *             program is slow because its files are large, and is left alone.
 *   the end   when STALL of such waiting has come together: the process that the kernel would have chosen
 *             (the highest oom_score) is killed and its exec is told as killed for want of memory. If
 *             that did not help within AGAIN, the whole exec goes next: many small processes are one too.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "guest/cgroup.h"
#include "guest/exec.h"
#include "guest/pressure.h"

#define TICK BX_SEC
#define SHARE_PERCENT 20
#define CACHE_PART 16
#define CACHE_MIN (UINT64_C(8) << 20)
#define STALL_US (3 * UINT64_C(1000000))
#define AGAIN (15 * BX_SEC)

struct sample {
    uint64_t when;
    uint64_t hits;  /* how often the limit was reached */
    uint64_t stall; /* us for which some task has waited for memory */
    uint64_t cache; /* bytes of files */
};

static struct {
    struct agent *agent;
    int events; /* memory.events: readable at every change */
    struct bx_source *source;
    struct bx_source *timer;
    struct sample last;
    uint64_t stalled;   /* us of thrashing that have come together */
    uint64_t last_kill; /* 0: none */
    uint32_t last_exec;
} w = {.events = -1};

static uint64_t value(const char *file, const char *key)
{
    uint64_t v = 0;
    (void)cgroup_read(w.agent->container.boxfd, file, key, &v);
    return v;
}

static int take(struct sample *s)
{
    int dirfd = w.agent->container.boxfd;
    s->when = bx_now_mono();
    s->hits = value("memory.events", "max");
    uint64_t files = value("memory.stat", "file");
    uint64_t shared = value("memory.stat", "shmem");
    s->cache = files > shared ? files - shared : 0;
    return cgroup_read_word(dirfd, "memory.pressure", "some", "total=", &s->stall);
}

/* memory.events counts as changed until it is read through the watched descriptor. */
static void acknowledge(void)
{
    char text[256];
    (void)!pread(w.events, text, sizeof(text), 0);
}

/* ---- whom to kill ------------------------------------------------------------------------------- */

struct victim {
    pid_t pid;
    uint32_t exec;
    uint64_t score;
};

static void look_at(pid_t pid, uint32_t exec, struct victim *worst)
{
    char path[64];
    uint64_t score;
    (void)snprintf(path, sizeof(path), "/proc/%d/oom_score", (int)pid);
    if (cgroup_read(AT_FDCWD, path, NULL, &score) == 0 && score > worst->score) {
        *worst = (struct victim){.pid = pid, .exec = exec, .score = score};
    }
}

static void look_in(const char *group, uint32_t exec, struct victim *worst)
{
    char path[300];
    int pid;
    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    int fd = openat(w.agent->container.boxfd, path, O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) {
        bx_close(&fd);
        return;
    }
    while (fscanf(f, "%d", &pid) == 1) {
        look_at(pid, exec, worst);
    }
    (void)fclose(f);
}

/* Of all execs, also of those that have ended and left processes behind. */
static struct victim find_worst(void)
{
    struct victim worst = {0};
    int fd = openat(w.agent->container.boxfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        bx_close(&fd);
        return worst;
    }
    struct dirent *d;
    while ((d = readdir(dir))) {
        unsigned exec;
        if (sscanf(d->d_name, "e%u", &exec) == 1) {
            look_in(d->d_name, exec, &worst);
        }
    }
    (void)closedir(dir);
    return worst;
}

static void kill_worst(uint64_t now)
{
    struct victim v = find_worst();
    if (v.pid <= 0) {
        agent_say("the box thrashes, but none of its processes is to blame");
        return;
    }
    bool again = w.last_kill > 0 && w.last_exec == v.exec && now - w.last_kill < AGAIN;
    agent_say("the box thrashes: killing %s %d of exec %u", again ? "all with process" : "process",
              (int)v.pid, v.exec);
    exec_out_of_memory(w.agent, v.exec);
    if (again) {
        (void)cgroup_kill_exec(&w.agent->container, v.exec);
    } else {
        (void)kill(v.pid, SIGKILL);
    }
    w.last_kill = now;
    w.last_exec = v.exec;
}

/* ---- when to -------------------------------------------------------------------------------------- */

static void disarm(void)
{
    w.stalled = 0;
    bx_source_set_deadline(w.timer, BX_NEVER);
    (void)bx_source_set_events(w.source, EPOLLPRI);
}

static bool thrashing(const struct sample *s, uint64_t stall)
{
    uint64_t limit = value("memory.max", NULL);
    uint64_t least = limit / CACHE_PART > CACHE_MIN ? limit / CACHE_PART : CACHE_MIN;
    uint64_t us = (s->when - w.last.when) / 1000;
    return s->cache < least && stall * 100 >= us * SHARE_PERCENT;
}

static void on_tick(void *data)
{
    struct sample s = {0};
    acknowledge();
    if (take(&s) < 0 || s.hits == w.last.hits) {
        disarm();
        return;
    }
    uint64_t stall = s.stall - w.last.stall;
    w.stalled = thrashing(&s, stall) ? w.stalled + stall : w.stalled / 2;
    if (w.stalled >= STALL_US) {
        kill_worst(s.when);
        w.stalled = 0;
    }
    w.last = s;
    bx_source_set_deadline(w.timer, bx_now_mono() + TICK);
}

static void on_limit(void *data, uint32_t events)
{
    acknowledge();
    (void)bx_source_set_events(w.source, 0);
    (void)take(&w.last);
    bx_source_set_deadline(w.timer, bx_now_mono() + TICK);
}

void pressure_watch(struct agent *a)
{
    struct sample s;
    w.agent = a;
    int r = take(&s);
    if (r == 0) {
        w.events = openat(a->container.boxfd, "memory.events", O_RDONLY | O_CLOEXEC);
        r = w.events < 0 ? -errno : 0;
    }
    r = r < 0 ? r : bx_loop_add_timer(a->loop, BX_NEVER, on_tick, NULL, &w.timer);
    if (r == 0) {
        acknowledge();
        r = bx_loop_add_fd(a->loop, w.events, EPOLLPRI, on_limit, NULL, &w.source);
    }
    if (r < 0) {
        agent_say("a box that thrashes is not ended: memory pressure: %s", strerror(-r));
    }
}
