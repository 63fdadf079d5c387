/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container.c: see container.h.
 *
 * The container's init is a copy of the agent that makes the mounts, tells that it stands (or why not)
 * over a pipe, and then only reaps orphans. As PID 1 of its namespace it ignores every signal that it
 * has no handler for; its capabilities are given up and it cannot be traced, so nothing inside can end
 * it. It is exempt from the OOM killer as the agent is, whose score it inherits.
 *
 * Commands are children of the agent, not of this init: setns(2) with CLONE_NEWPID once makes the
 * agent's later children members of that PID namespace. Their orphans go to the container's init.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/timeutil.h"
#include "guest/caps.h"
#include "guest/cgroup.h"
#include "guest/container.h"
#include "guest/openat2.h"

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP)

static _Noreturn void init_loop(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_SETMASK, &set,
                      NULL); /* so that none is missed between reaping and waiting */
    (void)prctl(PR_SET_NAME, "init", 0, 0, 0);
    (void)caps_drop_all();
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (;;) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        int sig;
        (void)sigwait(&set, &sig);
    }
}

static _Noreturn void init_main(const struct config *cfg, int report)
{
    struct failure f = {0};
    /* The port above all must not live on in here. */
    (void)bx_close_all(3, &report, 1);
    (void)setsid();
    int r = container_setup(cfg, &f);
    if (r < 0) {
        (void)bx_write_full(report, &f, sizeof(f));
        _exit(1);
    }
    for (int i = 0; i < 3; i++) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(null, i);
        bx_close(&null);
    }
    (void)bx_write_full(report, &f, sizeof(f)); /* errnum 0: it stands */
    (void)close(report);
    init_loop();
}

static int spawn_init(struct container *c, const struct config *cfg, int report, struct failure *f)
{
    struct clone_args args = {
        .flags = NAMESPACES | CLONE_PIDFD | CLONE_INTO_CGROUP,
        .pidfd = (uint64_t)(uintptr_t)&c->pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t)c->boxfd, /* so that /box is the root that the container sees */
    };
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0) {
        return failure_set(f, errno, "making the container's namespaces");
    }
    if (pid == 0) {
        init_main(cfg, report);
    }
    c->pid = (pid_t)pid;
    return 0;
}

static int read_report(int fd, struct failure *f)
{
    struct failure got = {0};
    if (bx_read_full(fd, &got, sizeof(got)) != (ssize_t)sizeof(got)) {
        return failure_say(f, EIO, "setting the container up: its init died");
    }
    if (got.errnum != 0) {
        got.text[sizeof(got.text) - 1] = 0;
        *f = got;
    }
    return -got.errnum;
}

/* /dev/pts as the container sees it, without following any link out of its root. */
static int open_pts(const struct container *c)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)c->pid);
    _cleanup_close_ int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -errno : open_in_root(root, "dev/pts", O_RDONLY | O_DIRECTORY, 0);
}

int container_start(struct agent *a, const struct config *cfg, int *ret_report, struct failure *f)
{
    struct container *c = &a->container;
    _cleanup_close_ int read_end = -1;
    _cleanup_close_ int write_end = -1;
    int fds[2];
    int r = cgroup_make_box(c, f);
    if (r == 0 && bx_pipe(fds) < 0) {
        r = failure_set(f, errno, "making a pipe");
    }
    if (r < 0) {
        return r;
    }
    read_end = fds[0];
    write_end = fds[1];
    r = spawn_init(c, cfg, write_end, f);
    if (r < 0) {
        return r;
    }
    *ret_report = steal_fd(&read_end);
    return 0;
}

int container_finish(struct agent *a, int report, struct failure *f)
{
    struct container *c = &a->container;
    int r = read_report(report, f);
    r = r < 0 ? r : cgroup_settle_init(c, f);
    if (r < 0) {
        return r;
    }
    c->ptsfd = open_pts(c);
    if (c->ptsfd < 0) {
        return failure_set(f, c->ptsfd, "opening the container's /dev/pts");
    }
    if (setns(c->pidfd, CLONE_NEWPID) < 0) {
        return failure_set(f, errno, "joining the container's PID namespace");
    }
    return 0;
}

int container_enter(const struct container *c, struct failure *f)
{
    if (setns(c->pidfd, CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP) < 0) {
        return failure_set(f, errno, "entering the container");
    }
    return 0;
}

void container_kill(struct container *c, uint64_t deadline)
{
    if (c->pid <= 0) {
        return;
    }
    /* Its death takes the whole PID namespace with it; it is over when all have been reaped here. */
    (void)kill(c->pid, SIGKILL);
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid == c->pid || (pid < 0 && errno == ECHILD)) {
            return;
        }
        if (pid == 0) {
            struct pollfd p = {.fd = c->pidfd, .events = POLLIN};
            if (bx_now_mono() >= deadline) {
                agent_say("processes in the container do not end");
                return;
            }
            /* The pidfd tells of the init only; its children are looked for now and then. */
            (void)poll(&p, 1, 2);
        }
    }
}
