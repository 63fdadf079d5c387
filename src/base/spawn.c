/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.c: starting programs.
 *
 * The parent looks the program up, reserves a pipe for bad news, blocks all signals and clones. The
 * child is a copy of the calling thread alone, so that locks of other threads may be held for ever in
 * it: from there to exec only system calls are made. clone(2) is called directly, because it gives
 * the pidfd at birth (a host program that reaps everything with waitpid(-1) cannot make us watch a
 * recycled pid) and because fork(3)'s handlers are the host program's business, not ours.
 *
 * The child's steps, in an order that matters:
 *   1. parent-death signal, then a look whether the parent has died before it was set;
 *   2. every disposition to default, then the empty mask: blocked signals of the time in between hit
 *      the child with default dispositions, never the parent's handlers;
 *   3. session;
 *   4. descriptors: all sources are first copied above every target, then down to their targets, so
 *      that no order of the map overwrites a source; then everything else is closed;
 *   5. limits, no_new_privs, the caller's hook, exec.
 * A step that fails writes its number and errno to the pipe, which a successful exec closes.
 */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/timeutil.h"

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#define FDS_MAX 32
#define DRAIN_BLOCKS 256 /* 1 MiB, the most that a pipe holds for an ordinary user */
#define SYSTEM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

extern char **environ;

enum step { STEP_PARENT, STEP_SESSION, STEP_FDS, STEP_LIMITS, STEP_HOOK, STEP_EXEC };

static const char *const step_names[] = {
    [STEP_PARENT] = "parent-death signal",
    [STEP_SESSION] = "new session",
    [STEP_FDS] = "descriptors",
    [STEP_LIMITS] = "limits",
    [STEP_HOOK] = "set-up",
    [STEP_EXEC] = NULL,
};

struct bad_news {
    int32_t step;
    int32_t errnum;
};

struct child {
    const struct bx_spawn *spec;
    const char *path;
    char *const *envp;
    pid_t parent;
    int news; /* write end of the pipe */
};

/* ---- In the child: system calls only ---------------------------------------------------------- */

static void __attribute__((noreturn)) give_up(int news, enum step step, int r)
{
    struct bad_news bad = {.step = (int32_t)step, .errnum = -r};
    ssize_t n = write(news, &bad, sizeof(bad)); /* less than PIPE_BUF: whole or not at all */
    (void)n;
    _exit(127);
}

static int child_signals(const struct child *c)
{
    if (c->spec->death_signal) {
        if (prctl(PR_SET_PDEATHSIG, c->spec->death_signal) < 0) {
            return -errno;
        }
        if (getppid() != c->parent) {
            return -ESRCH;
        }
    }
    /* The kernel's struct sigaction, all zero: SIG_DFL. libc's call refuses the two signals that it keeps for itself, and
     * those can come to us ignored, too. */
    static const unsigned long dfl[16];
    for (int signo = 1; signo < NSIG; signo++) {
        (void)syscall(SYS_rt_sigaction, signo, dfl, NULL, (size_t)8); /* fails for KILL and STOP */
    }
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

/* The number above all targets and standard streams. */
static int above_targets(const struct bx_spawn *spec)
{
    int top = 3;
    for (size_t i = 0; i < spec->nfds; i++) {
        top = spec->fds[i].to >= top ? spec->fds[i].to + 1 : top;
    }
    return top;
}

/* Gives 0, 1 and 2 that the map does not name /dev/null. */
static int fill_stdio(const int *targets, size_t n)
{
    for (int fd = 0; fd <= 2; fd++) {
        bool named = false;
        for (size_t i = 0; i < n; i++) {
            named = named || targets[i] == fd;
        }
        if (named) {
            continue;
        }
        int null = open("/dev/null", O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (null < 0) {
            return -errno;
        }
        int r = null == fd ? bx_set_cloexec(fd, false) : dup2(null, fd) < 0 ? -errno : 0;
        if (null != fd) {
            (void)close(null);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Puts the descriptors in their places. Moves *news out of the way. */
static int child_fds(const struct bx_spawn *spec, int *news)
{
    int top = above_targets(spec);
    int from[FDS_MAX], keep[FDS_MAX + 1];
    int moved = fcntl(*news, F_DUPFD_CLOEXEC, top);
    if (moved < 0) {
        return -errno;
    }
    *news = moved;
    for (size_t i = 0; i < spec->nfds; i++) {
        from[i] = fcntl(spec->fds[i].from, F_DUPFD_CLOEXEC, top);
        if (from[i] < 0) {
            return -errno;
        }
    }
    for (size_t i = 0; i < spec->nfds; i++) {
        keep[i] = spec->fds[i].to;
        if (dup2(from[i], keep[i]) < 0) { /* without close-on-exec, as it should be */
            return -errno;
        }
    }
    int r = fill_stdio(keep, spec->nfds);
    if (r < 0) {
        return r;
    }
    keep[spec->nfds] = moved;
    return bx_close_all(3, keep, spec->nfds + 1);
}

static int child_limits(const struct bx_spawn *spec)
{
    for (size_t i = 0; i < spec->nlimits; i++) {
        if (setrlimit((unsigned)spec->limits[i].resource, &spec->limits[i].limit) < 0) {
            return -errno;
        }
    }
    if (spec->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return -errno;
    }
    return 0;
}

static void __attribute__((noreturn)) child_main(const struct child *c)
{
    const struct bx_spawn *spec = c->spec;
    int news = c->news;
    int r = child_signals(c);
    if (r < 0) {
        give_up(news, STEP_PARENT, r);
    }
    if (spec->new_session && setsid() < 0) {
        give_up(news, STEP_SESSION, -errno);
    }
    r = child_fds(spec, &news);
    if (r < 0) {
        give_up(news, STEP_FDS, r);
    }
    r = child_limits(spec);
    if (r < 0) {
        give_up(news, STEP_LIMITS, r);
    }
    r = spec->child ? spec->child(spec->child_data) : 0;
    if (r < 0) {
        give_up(news, STEP_HOOK, r);
    }
    execve(c->path, (char *const *)spec->argv, c->envp);
    give_up(news, STEP_EXEC, -errno);
}

/* ---- In the parent ---------------------------------------------------------------------------- */

static int check_spec(const struct bx_spawn *spec, boxlite_error **err)
{
    if (!spec->path || !spec->argv || !spec->argv[0]) {
        return bx_fail(err, BOXLITE_E_INVALID, "spawn: no program or no arguments");
    }
    if (spec->nfds > FDS_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "spawn: more than %d descriptors", FDS_MAX);
    }
    for (size_t i = 0; i < spec->nfds; i++) {
        if (spec->fds[i].from < 0 || spec->fds[i].to < 0) {
            return bx_fail(err, BOXLITE_E_INVALID, "spawn: a descriptor is negative");
        }
    }
    return 0;
}

/* A copy of this process, like fork(2), with its pidfd: the pid, 0 in the child, -errno. */
static pid_t clone_process(int *ret_pidfd)
{
    int pidfd = -1;
    long pid = syscall(SYS_clone, (unsigned long)(CLONE_PIDFD | SIGCHLD), NULL, &pidfd, NULL, NULL);
    if (pid < 0) {
        return -errno;
    }
    if (pid > 0) {
        *ret_pidfd = pidfd;
    }
    return (pid_t)pid;
}

static void reap(int pidfd)
{
    siginfo_t si;
    while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &si, WEXITED) < 0 && errno == EINTR) {
    }
}

static int fail_step(const struct bx_spawn *spec, struct bad_news bad, boxlite_error **err)
{
    size_t i = (size_t)bad.step;
    const char *step = i < BX_ARRAY_SIZE(step_names) ? step_names[i] : NULL;
    return bx_fail_errno(err, BOXLITE_E_IO, bad.errnum, "starting %s%s%s", spec->path,
                         step ? ": " : "", step ? step : "");
}

/* Waits for the exec (end of file) or bad news. */
static int await_exec(const struct bx_spawn *spec, int news, boxlite_error **err)
{
    struct bad_news bad = {0};
    ssize_t n;
    do {
        n = read(news, &bad, sizeof(bad));
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(bad) ? fail_step(spec, bad, err) : 0;
}

int bx_spawn(const struct bx_spawn *spec, pid_t *ret_pid, int *ret_pidfd, boxlite_error **err)
{
    int r = check_spec(spec, err);
    if (r < 0) {
        return r;
    }
    _cleanup_free_ char *path = bx_find_program(spec->path);
    if (!path) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "starting %s: no such program", spec->path);
    }
    int news[2];
    r = bx_pipe(news);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "starting %s: pipe", spec->path);
    }
    _cleanup_close_ int news_read = news[0];
    _cleanup_close_ int news_write = news[1];
    struct child c = {.spec = spec,
                      .path = path,
                      .envp = spec->envp ? (char *const *)spec->envp : environ,
                      .parent = getpid(),
                      .news = news_write};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    _cleanup_close_ int pidfd = -1;
    pid_t pid = clone_process(&pidfd);
    if (pid == 0) {
        child_main(&c);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, pid, "starting %s: clone", spec->path);
    }
    bx_close(&news_write);
    r = await_exec(spec, news_read, err);
    if (r < 0) {
        reap(pidfd);
        return r;
    }
    if (ret_pid) {
        *ret_pid = pid;
    }
    *ret_pidfd = steal_fd(&pidfd);
    return 0;
}

/* ---- Running to the end ----------------------------------------------------------------------- */

struct capture {
    struct bx_buf *buf; /* NULL: this stream is not collected */
    int fd;
};

/* Takes what is there; what the buffer has no room for is dropped. Bounded, so that a program that
 * writes without end cannot keep us from seeing its end or the deadline. */
static void drain(struct capture *c)
{
    uint8_t block[4096];
    for (int blocks = 0; blocks < DRAIN_BLOCKS; blocks++) {
        ssize_t n = read(c->fd, block, sizeof(block));
        if (n > 0) {
            size_t room = c->buf->max - c->buf->len;
            (void)bx_buf_append(c->buf, block, (size_t)n < room ? (size_t)n : room);
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            bx_close(&c->fd);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

/* Reads both streams until the child has ended: 0, or -ETIME past the deadline. A grandchild that
 * keeps a stream open does not keep us. */
static int pump(int pidfd, struct capture cap[2], uint64_t deadline)
{
    for (;;) {
        struct pollfd p[3] = {{.fd = pidfd, .events = POLLIN},
                              {.fd = cap[0].fd, .events = POLLIN},
                              {.fd = cap[1].fd, .events = POLLIN}};
        int n = poll(p, 3, bx_deadline_left_ms(deadline));
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        for (int i = 0; n > 0 && i < 2; i++) {
            if (cap[i].fd >= 0 && (p[i + 1].revents || p[0].revents)) {
                drain(&cap[i]);
            }
        }
        if (n > 0 && p[0].revents) {
            return 0;
        }
        if (bx_deadline_left_ms(deadline) == 0) {
            return -ETIME;
        }
    }
}

static int await_end(const struct bx_spawn *spec, int pidfd, struct capture cap[2],
                     uint64_t deadline, int *ret_status, boxlite_error **err)
{
    int r = pump(pidfd, cap, deadline);
    if (r < 0) {
        (void)bx_pidfd_signal(pidfd, SIGKILL);
        reap(pidfd);
        return r == -ETIME ? bx_fail(err, BOXLITE_E_TIMEOUT, "%s: took too long", spec->path)
                           : bx_fail_errno(err, BOXLITE_E_IO, r, "%s: poll", spec->path);
    }
    siginfo_t si = {0};
    while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &si, WEXITED) < 0) {
        if (errno != EINTR) {
            return bx_fail_errno(err, BOXLITE_E_IO, errno, "%s: waiting for its end", spec->path);
        }
    }
    *ret_status = si.si_code == CLD_EXITED ? si.si_status : 128 + si.si_status;
    return 0;
}

int bx_run(const struct bx_spawn *spec, struct bx_buf *out, struct bx_buf *errout,
           uint64_t deadline, int *ret_status, boxlite_error **err)
{
    struct bx_spawn_fd map[FDS_MAX];
    struct bx_spawn with = *spec;
    if (spec->nfds + 2 > FDS_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "spawn: more than %d descriptors", FDS_MAX - 2);
    }
    if (spec->nfds) {
        memcpy(map, spec->fds, spec->nfds * sizeof(map[0]));
    }
    with.fds = map;
    struct capture cap[2] = {{.buf = out, .fd = -1}, {.buf = errout, .fd = -1}};
    int theirs[2] = {-1, -1};
    int r = 0;
    for (int i = 0; i < 2 && r == 0; i++) {
        int p[2];
        if (!cap[i].buf) {
            continue;
        }
        r = bx_pipe(p);
        if (r < 0) {
            r = bx_fail_errno(err, BOXLITE_E_IO, r, "starting %s: pipe", spec->path);
            break;
        }
        cap[i].fd = p[0];
        theirs[i] = p[1];
        (void)bx_set_nonblock(p[0], true);
        map[with.nfds++] = (struct bx_spawn_fd){.from = p[1], .to = 1 + i};
    }
    _cleanup_close_ int pidfd = -1;
    if (r == 0) {
        r = bx_spawn(&with, NULL, &pidfd, err);
    }
    bx_close(&theirs[0]);
    bx_close(&theirs[1]);
    if (r == 0) {
        r = await_end(spec, pidfd, cap, deadline, ret_status, err);
    }
    bx_close(&cap[0].fd);
    bx_close(&cap[1].fd);
    return r;
}

/* ---- Looking programs up ---------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static char *find_in(const char *folders, const char *name)
{
    for (const char *p = folders; *p;) {
        size_t n = strcspn(p, ":");
        if (n > 0 && *p == '/') { /* a relative folder would depend on where the user stands */
            _cleanup_free_ char *dir = strndup(p, n);
            _cleanup_free_ char *path = dir ? bx_path_join(dir, name) : NULL;
            if (path && is_program(path)) {
                return steal_ptr(&path);
            }
        }
        p += n;
        p += *p == ':';
    }
    return NULL;
}

char *bx_find_program(const char *name)
{
    if (strchr(name, '/')) {
        return strdup(name);
    }
    const char *path = *name ? getenv("PATH") : NULL;
    char *found = path ? find_in(path, name) : NULL;
    return found || !*name ? found : find_in(SYSTEM_PATH, name);
}
