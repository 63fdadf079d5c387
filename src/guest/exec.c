/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c: see exec.h.
 *
 * Life of an exec: `starting` until the child's report pipe ends, `running` until its process is reaped,
 * then `draining` until its outputs are at their end, then EXITED and gone. A command whose process
 * is over is given GRACE for outputs that something else holds open; then what is in them is the rest.
 * Its cgroup stays while processes live on in it, and is removed when it is found empty later.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <boxlite.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "guest/cgroup.h"
#include "guest/child.h"
#include "guest/exec.h"
#include "guest/streams.h"
#include "wire/proto.h"

#define GRACE_MS 250
#define PIPE_SIZE (256 * 1024)
/* Commands whose left-behind processes still have a group; more are simply not looked after. */
#define LINGER_MAX 1024

struct exec {
    struct agent *agent;
    struct exec *next;
    struct exec *prev;
    uint32_t id;
    pid_t pid;
    int pidfd;
    int cgroupfd;
    int reportfd;
    int ttyfd; /* master, for the window size; -1 without a terminal */
    bool reaped;
    bool told; /* STARTED or the reason why not has been sent */
    bool timed_out;
    bool thrashed;          /* the agent has killed in it because memory was short */
    struct failure failure; /* errnum 0: none */
    int status;
    struct rusage usage;
    uint64_t started;
    uint64_t ended;
    struct bx_source *process;
    struct bx_source *report;
    struct bx_source *timeout;
    struct bx_source *grace;
    struct in_stream in;
    struct out_stream out[2];
};

static uint32_t lingering[LINGER_MAX];
static size_t nlingering;

static void sweep(const struct container *c)
{
    for (size_t i = 0; i < nlingering;) {
        if (cgroup_remove_exec(c, lingering[i]) == -EBUSY) {
            i++;
        } else {
            lingering[i] = lingering[--nlingering];
        }
    }
}

static void remove_group(const struct container *c, uint32_t id)
{
    if (cgroup_remove_exec(c, id) == -EBUSY && nlingering < LINGER_MAX) {
        lingering[nlingering++] = id;
    }
}

static struct exec *find(struct agent *a, uint32_t id)
{
    struct exec *e = a->execs;
    while (e && e->id != id) {
        e = e->next;
    }
    return e;
}

static void open_channels(struct agent *a, uint32_t id)
{
    for (uint32_t stream = BX_STREAM_IN; stream <= BX_STREAM_ERR; stream++) {
        (void)bx_conn_open(a->conn, BX_CHANNEL(id, stream));
    }
}

static void close_channels(struct agent *a, uint32_t id)
{
    for (uint32_t stream = BX_STREAM_IN; stream <= BX_STREAM_ERR; stream++) {
        bx_conn_close(a->conn, BX_CHANNEL(id, stream));
    }
}

static void release(struct exec *e)
{
    struct agent *a = e->agent;
    in_stream_close(&e->in);
    for (size_t i = 0; i < BX_ARRAY_SIZE(e->out); i++) {
        out_stream_close(&e->out[i]);
    }
    bx_source_free(e->process);
    bx_source_free(e->report);
    bx_source_free(e->timeout);
    bx_source_free(e->grace);
    bx_close(&e->pidfd);
    bx_close(&e->cgroupfd);
    bx_close(&e->reportfd);
    bx_close(&e->ttyfd);
    if (e->next) {
        e->next->prev = e->prev;
    }
    *(e->prev ? &e->prev->next : &a->execs) = e->next;
    a->nexecs--;
    free(e);
}

/* ---- answers ------------------------------------------------------------------------------------ */

/* Fields are small and the buffer has room for them: a failure here means that memory has ended. */
static void put_u64(struct agent *a, uint16_t tag, uint64_t value)
{
    if (bx_msg_u64(&a->msg, tag, value) < 0) {
        agent_fatal(a, ENOMEM, "composing a message");
    }
}

static void begin(struct agent *a, uint16_t type, uint32_t id)
{
    if (bx_msg_begin(&a->msg, type) < 0) {
        agent_fatal(a, ENOMEM, "composing a message");
    }
    put_u64(a, BX_T_EXEC, id);
}

static void send_not_started(struct agent *a, uint32_t id, const struct failure *f, uint64_t flags)
{
    begin(a, BX_AG_EXITED, id);
    put_u64(a, BX_T_CODE, f->code ? (uint64_t)f->code : 126);
    put_u64(a, BX_T_START_ERROR, (uint64_t)f->errnum);
    put_u64(a, BX_T_EXIT_FLAGS, flags | BOXLITE_EXIT_NOT_STARTED);
    (void)bx_msg_str(&a->msg, BX_T_ERROR, f->text);
    agent_send(a);
}

static uint64_t exit_flags(const struct exec *e)
{
    uint64_t killed = 0;
    (void)cgroup_read(e->cgroupfd, "memory.events", "oom_kill", &killed);
    return (killed > 0 || e->thrashed ? BOXLITE_EXIT_OOM_KILLED : 0) |
           (e->timed_out ? BOXLITE_EXIT_TIMED_OUT : 0);
}

static uint64_t usec(struct timeval tv)
{
    return (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec;
}

static void send_exited(struct exec *e)
{
    struct agent *a = e->agent;
    begin(a, BX_AG_EXITED, e->id);
    if (e->timed_out) {
        put_u64(a, BX_T_CODE, 124);
    } else if (WIFSIGNALED(e->status)) {
        put_u64(a, BX_T_SIGNO, (uint64_t)WTERMSIG(e->status));
    } else {
        put_u64(a, BX_T_CODE, (uint64_t)WEXITSTATUS(e->status));
    }
    put_u64(a, BX_T_EXIT_FLAGS, exit_flags(e));
    put_u64(a, BX_T_WALL_US, (e->ended - e->started) / 1000);
    put_u64(a, BX_T_USER_US, usec(e->usage.ru_utime));
    put_u64(a, BX_T_SYSTEM_US, usec(e->usage.ru_stime));
    put_u64(a, BX_T_MAX_RSS, (uint64_t)e->usage.ru_maxrss * 1024);
    agent_send(a);
}

static void end_if_done(struct exec *e)
{
    struct agent *a = e->agent;
    if (!e->reaped || e->out[0].fd >= 0 || e->out[1].fd >= 0) {
        return;
    }
    if (e->failure.errnum) {
        send_not_started(a, e->id, &e->failure, exit_flags(e));
    } else {
        send_exited(e);
    }
    uint32_t id = e->id;
    release(e);
    close_channels(a, id);
    remove_group(&a->container, id);
}

/* ---- events ------------------------------------------------------------------------------------- */

/* True when all has been read that the child tells. */
static bool read_report(struct exec *e)
{
    struct child_report r;
    ssize_t n;
    while ((n = read(e->reportfd, &r, sizeof(r))) > 0) {
        if (n == (ssize_t)sizeof(r) && r.failure.errnum) {
            r.failure.text[sizeof(r.failure.text) - 1] = 0;
            e->failure = r.failure;
        } else if (n == (ssize_t)sizeof(r)) {
            e->pid = r.pid;
        }
    }
    return n == 0 || errno != EAGAIN;
}

static void tell_started(struct exec *e)
{
    bx_source_free(steal_ptr(&e->report));
    if (!e->told && !e->failure.errnum) {
        begin(e->agent, BX_AG_STARTED, e->id);
        put_u64(e->agent, BX_T_PID, (uint64_t)e->pid);
        agent_send(e->agent);
    }
    e->told = true;
}

static void on_report(void *data, uint32_t events)
{
    struct exec *e = data;
    if (read_report(e)) {
        tell_started(e);
    }
}

static void on_grace(void *data)
{
    struct exec *e = data;
    /* Each may end the exec, which frees it: the second only if the first has not been the last. */
    bool second = e->out[1].fd >= 0;
    if (e->out[0].fd >= 0 && second) {
        out_stream_finish(&e->out[0]);
        out_stream_finish(&e->out[1]);
    } else {
        out_stream_finish(&e->out[second ? 1 : 0]);
    }
}

static void on_process(void *data, uint32_t events)
{
    struct exec *e = data;
    siginfo_t info = {0};
    if (syscall(SYS_waitid, P_PIDFD, e->pidfd, &info, WEXITED | WNOHANG, &e->usage) < 0 ||
        info.si_pid == 0) {
        return;
    }
    e->status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status & 0x7f;
    e->reaped = true;
    e->ended = bx_now_mono();
    bx_source_free(steal_ptr(&e->process));
    bx_source_free(steal_ptr(&e->timeout));
    in_stream_close(&e->in);
    (void)read_report(e);
    tell_started(e);
    bool open = e->out[0].fd >= 0 || e->out[1].fd >= 0;
    if (open &&
        bx_loop_add_timer(e->agent->loop, bx_deadline_ms(GRACE_MS), on_grace, e, &e->grace) < 0) {
        on_grace(e); /* no memory for patience */
        return;
    }
    end_if_done(e);
}

static void on_timeout(void *data)
{
    struct exec *e = data;
    e->timed_out = true;
    (void)cgroup_kill_exec(&e->agent->container, e->id);
}

static void on_output_end(void *data)
{
    end_if_done(data);
}

/* ---- start -------------------------------------------------------------------------------------- */

/* The child's three descriptors, and the agent's ends of them. */
struct plumbing {
    int child[3];
    int in;
    int out[2];
};

static void plumbing_close(struct plumbing *p)
{
    for (int i = 0; i < 3; i++) {
        bx_close(&p->child[i]);
    }
    bx_close(&p->in);
    bx_close(&p->out[0]);
    bx_close(&p->out[1]);
}

/* A pipe of which one end (0 or 1) is the agent's and does not block. */
static int make_pipe(int agent_end, int *agent_fd, int *child_fd)
{
    int fds[2];
    int r = bx_pipe(fds);
    if (r < 0) {
        return r;
    }
    *agent_fd = fds[agent_end];
    *child_fd = fds[!agent_end];
    (void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_SIZE);
    return bx_set_nonblock(*agent_fd, true);
}

static int plumb_pipes(const struct spec *s, struct plumbing *p)
{
    int r;
    if (s->flags & BX_EXEC_STDIN) {
        r = make_pipe(1, &p->in, &p->child[0]);
    } else {
        p->child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        r = p->child[0] < 0 ? -errno : 0;
    }
    r = r < 0 ? r : make_pipe(0, &p->out[0], &p->child[1]);
    return r < 0 ? r : make_pipe(0, &p->out[1], &p->child[2]);
}

static int plumb_terminal(const struct container *c, const struct spec *s, struct plumbing *p)
{
    struct winsize size = {.ws_row = (unsigned short)(s->rows ? s->rows : 24),
                           .ws_col = (unsigned short)(s->cols ? s->cols : 80)};
    int unlock = 0;
    p->out[0] = openat(c->ptsfd, "ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (p->out[0] < 0 || ioctl(p->out[0], TIOCSPTLCK, &unlock) < 0) {
        return -errno;
    }
    (void)ioctl(p->out[0], TIOCSWINSZ, &size);
    p->child[0] = ioctl(p->out[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    for (int i = 1; i < 3 && p->child[i - 1] >= 0; i++) {
        p->child[i] = fcntl(p->child[0], F_DUPFD_CLOEXEC, 3);
    }
    p->in = fcntl(p->out[0], F_DUPFD_CLOEXEC, 3);
    return p->child[2] < 0 || p->in < 0 ? -errno : 0;
}

static int spawn(struct exec *e, const struct spec *s, const struct plumbing *p)
{
    int report[2];
    int r = bx_pipe(report);
    if (r < 0) {
        return r;
    }
    struct child child = {.agent = e->agent, .spec = s, .report = report[1]};
    memcpy(child.stdio, p->child, sizeof(child.stdio));
    struct clone_args args = {
        .flags = CLONE_PIDFD | CLONE_INTO_CGROUP,
        .pidfd = (uint64_t)(uintptr_t)&e->pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t)e->cgroupfd,
    };
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        child_main(&child);
    }
    r = pid < 0 ? -errno : bx_set_nonblock(report[0], true);
    (void)close(report[1]);
    e->reportfd = report[0];
    return r;
}

static int watch(struct exec *e, const struct spec *s, struct plumbing *p)
{
    struct agent *a = e->agent;
    bool tty = s->flags & BX_EXEC_TTY;
    int r = bx_loop_add_fd(a->loop, e->pidfd, EPOLLIN, on_process, e, &e->process);
    r = r < 0 ? r : bx_loop_add_fd(a->loop, e->reportfd, EPOLLIN, on_report, e, &e->report);
    if (r == 0 && s->timeout_ms > 0) {
        r = bx_loop_add_timer(a->loop, bx_deadline_ms((int64_t)s->timeout_ms), on_timeout, e,
                              &e->timeout);
    }
    if (r == 0 && p->in >= 0) {
        r = in_stream_open(&e->in, a, steal_fd(&p->in), BX_CHANNEL(e->id, BX_STREAM_IN), tty);
        if (r == 0 && !(s->flags & BX_EXEC_STDIN)) {
            in_stream_eof(&e->in); /* a terminal that nobody types at reads its end */
        }
    }
    for (uint32_t i = 0; r == 0 && i < 2; i++) {
        uint32_t channel = BX_CHANNEL(e->id, BX_STREAM_OUT + i);
        if (p->out[i] >= 0) {
            r = out_stream_open(&e->out[i], a, steal_fd(&p->out[i]), channel, on_output_end, e);
        } else {
            (void)bx_conn_send_eof(a->conn, channel); /* a terminal has one output */
        }
    }
    return r;
}

static struct exec *make(struct agent *a, uint32_t id)
{
    struct exec *e = calloc(1, sizeof(*e));
    if (!e) {
        return NULL;
    }
    *e = (struct exec){.agent = a,
                       .id = id,
                       .pidfd = -1,
                       .cgroupfd = -1,
                       .reportfd = -1,
                       .ttyfd = -1,
                       .started = bx_now_mono(),
                       .in.fd = -1,
                       .out = {{.fd = -1}, {.fd = -1}}};
    e->next = a->execs;
    if (e->next) {
        e->next->prev = e;
    }
    a->execs = e;
    a->nexecs++;
    return e;
}

/* Everything up to the running child. On failure *what says at which step. */
static int start(struct exec *e, const struct spec *s, struct plumbing *p, const char **what)
{
    struct container *c = &e->agent->container;
    *what = s->flags & BX_EXEC_TTY ? "making a terminal" : "making pipes";
    int r = s->flags & BX_EXEC_TTY ? plumb_terminal(c, s, p) : plumb_pipes(s, p);
    if (r == 0 && (s->flags & BX_EXEC_TTY)) {
        e->ttyfd = fcntl(p->out[0], F_DUPFD_CLOEXEC, 3);
    }
    if (r == 0) {
        *what = "making a cgroup";
        e->cgroupfd = cgroup_make_exec(c, s->id);
        r = e->cgroupfd < 0 ? e->cgroupfd : 0;
    }
    if (r == 0) {
        *what = "starting a process";
        r = spawn(e, s, p);
    }
    return r;
}

static void abandon(struct agent *a, struct exec *e, uint32_t id, int errnum, const char *what)
{
    struct failure f = {.code = 126};
    (void)failure_set(&f, errnum, "%s", what);
    (void)bx_conn_send_eof(a->conn, BX_CHANNEL(id, BX_STREAM_OUT));
    (void)bx_conn_send_eof(a->conn, BX_CHANNEL(id, BX_STREAM_ERR));
    if (e) {
        if (e->pidfd >= 0) { /* it runs but cannot be watched */
            (void)cgroup_kill_exec(&a->container, id);
            (void)waitid(P_PIDFD, (id_t)e->pidfd, &(siginfo_t){0}, WEXITED);
        }
        release(e);
    }
    send_not_started(a, id, &f, 0);
    close_channels(a, id);
    remove_group(&a->container, id);
}

int exec_start(struct agent *a, struct spec *s)
{
    struct plumbing p = {.child = {-1, -1, -1}, .in = -1, .out = {-1, -1}};
    const char *what = "starting a command";
    if (find(a, s->id)) {
        return -EPROTO;
    }
    sweep(&a->container);
    open_channels(a, s->id);
    struct exec *e = a->nexecs < EXECS_MAX ? make(a, s->id) : NULL;
    int r = e ? start(e, s, &p, &what) : a->nexecs < EXECS_MAX ? -ENOMEM : -EAGAIN;
    for (int i = 0; i < 3; i++) {
        bx_close(&p.child[i]); /* the child's alone now: else no end would ever be seen */
    }
    r = r < 0 ? r : watch(e, s, &p);
    if (r < 0) {
        abandon(a, e, s->id, r, what);
    }
    plumbing_close(&p);
    return 0;
}

/* ---- from the host ------------------------------------------------------------------------------ */

void exec_signal(struct agent *a, uint32_t id, int signo)
{
    struct exec *e = find(a, id);
    if (signo == SIGKILL) {
        (void)cgroup_kill_exec(&a->container, id); /* also what an ended command left behind */
    } else if (e && !e->reaped) {
        (void)bx_pidfd_signal(e->pidfd, signo);
    }
}

void exec_out_of_memory(struct agent *a, uint32_t id)
{
    struct exec *e = find(a, id);
    if (e) {
        e->thrashed = true;
    }
}

void exec_resize(struct agent *a, uint32_t id, unsigned rows, unsigned cols)
{
    struct exec *e = find(a, id);
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    if (e && e->ttyfd >= 0) {
        (void)ioctl(e->ttyfd, TIOCSWINSZ, &size);
    }
}

static struct out_stream *find_out(struct agent *a, uint32_t channel)
{
    struct exec *e = find(a, BX_CHANNEL_NUMBER(channel));
    uint32_t stream = BX_CHANNEL_STREAM(channel);
    return e && stream != BX_STREAM_IN ? &e->out[stream - BX_STREAM_OUT] : NULL;
}

void exec_bytes(struct agent *a, uint32_t channel, const uint8_t *p, size_t len)
{
    struct exec *e = find(a, BX_CHANNEL_NUMBER(channel));
    if (e && BX_CHANNEL_STREAM(channel) == BX_STREAM_IN) {
        e->in.agent = a;
        e->in.channel = channel;
        in_stream_bytes(&e->in, p, len);
    } else {
        (void)bx_conn_send_reset(a->conn, channel); /* nobody writes to a command's output */
    }
}

void exec_eof(struct agent *a, uint32_t channel)
{
    struct exec *e = find(a, BX_CHANNEL_NUMBER(channel));
    if (e && BX_CHANNEL_STREAM(channel) == BX_STREAM_IN) {
        in_stream_eof(&e->in);
    }
}

void exec_writable(struct agent *a, uint32_t channel)
{
    struct out_stream *s = find_out(a, channel);
    if (s) {
        out_stream_writable(s);
    }
}

void exec_reset(struct agent *a, uint32_t channel)
{
    struct out_stream *s = find_out(a, channel);
    if (s) {
        out_stream_reset(s);
    }
}
