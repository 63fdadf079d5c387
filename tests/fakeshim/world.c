/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.c: a boxlite-shim without a VM, for tests of the library and of what stands on it.
 *
 * The shim is the real one. Only its outside is not: the engine hands its end of the agent's
 * channel to an agent in the same process, whose commands are ordinary processes of this host. So
 * names, users and files are the host's, and everything else is as with a guest. The built-ins
 * tar-in and tar-out are the agent's own code. FAKE_SHIM in the environment makes it fail in a
 * chosen way.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/spawn.h"
#include "box/shim.h"
#include "box/shimproc.h"
#include "guest/files.h"
#include "guest/tar.h"

struct cmd {
    struct fake *fake;
    uint32_t number;
    int pidfd, in, out[2];
    pid_t pid;
    struct bx_source *child, *in_source, *out_source[2];
    struct bx_buf input;
    bool input_eof, exited;
    siginfo_t status;
    struct cmd *next;
};

struct fake {
    struct bx_loop *loop;
    const struct bx_vmm_events *events;
    void *data;
    struct bx_conn *conn;
    struct bx_conn_io *io;
    struct bx_source *later;
    bool ended, paused;
    struct cmd *cmds;
};

static bool mode_is(const char *mode)
{
    const char *asked = getenv("FAKE_SHIM");
    return asked && bx_streq(asked, mode);
}

/* Before main: failures that come before the shim has said a word. */
__attribute__((constructor)) static void early(void)
{
    if (mode_is("crash")) {
        (void)raise(SIGKILL);
    }
    if (mode_is("exit")) {
        (void)dprintf(2, "no way\n");
        _exit(3);
    }
    if (mode_is("hang")) {
        (void)signal(SIGTERM, SIG_IGN);
        for (;;) {
            (void)pause();
        }
    }
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void tell(struct fake *f, struct bx_buf *msg)
{
    (void)bx_conn_msg(f->conn, msg);
    bx_conn_io_kick(f->io);
}

static void tell_exited(struct cmd *c, int start_error)
{
    struct bx_buf msg = BX_BUF_INIT(4096);
    (void)bx_msg_begin(&msg, BX_AG_EXITED);
    (void)bx_msg_u64(&msg, BX_T_EXEC, c->number);
    if (start_error) {
        (void)bx_msg_u64(&msg, BX_T_START_ERROR, (uint64_t)start_error);
        (void)bx_msg_str(&msg, BX_T_ERROR, strerror(start_error));
        (void)bx_msg_u64(&msg, BX_T_CODE, start_error == ENOENT ? 127 : 126);
        (void)bx_msg_u64(&msg, BX_T_EXIT_FLAGS, BOXLITE_EXIT_NOT_STARTED);
    } else if (c->status.si_code == CLD_EXITED) {
        (void)bx_msg_u64(&msg, BX_T_CODE, (uint64_t)c->status.si_status);
    } else {
        (void)bx_msg_u64(&msg, BX_T_SIGNO, (uint64_t)c->status.si_status);
    }
    tell(c->fake, &msg);
    bx_buf_done(&msg);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void cmd_free(struct cmd *c)
{
    struct cmd **p = &c->fake->cmds;
    while (*p != c) {
        p = &(*p)->next;
    }
    *p = c->next;
    bx_source_free(c->child);
    bx_source_free(c->in_source);
    for (int i = 0; i < 2; i++) {
        bx_source_free(c->out_source[i]);
        bx_close(&c->out[i]);
    }
    bx_close(&c->in);
    bx_close(&c->pidfd);
    for (int i = 0; i < 3; i++) {
        bx_conn_close(c->fake->conn, BX_CHANNEL(c->number, i));
    }
    bx_buf_done(&c->input);
    free(c);
}

static void check_end(struct cmd *c)
{
    if (c->exited && c->out[0] < 0 && c->out[1] < 0) {
        tell_exited(c, 0);
        cmd_free(c);
    }
}

static void on_child(void *data, const siginfo_t *status)
{
    struct cmd *c = data;
    c->exited = true;
    c->status = *status;
    check_end(c);
}

/* One piece of output; true if there may be more. */
static bool relay(struct cmd *c, int i)
{
    static uint8_t piece[65536];
    uint32_t channel = BX_CHANNEL(c->number, i + BX_STREAM_OUT);
    size_t room = bx_conn_room(c->fake->conn, channel);
    if (room == 0) {
        bx_conn_want(c->fake->conn, channel);
        (void)bx_source_set_events(c->out_source[i], 0);
        return false;
    }
    ssize_t n = read(c->out[i], piece, room < sizeof(piece) ? room : sizeof(piece));
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n > 0) {
        (void)bx_conn_send(c->fake->conn, channel, piece, (size_t)n);
        return true;
    }
    (void)bx_conn_send_eof(c->fake->conn, channel);
    bx_source_free(steal_ptr(&c->out_source[i]));
    bx_close(&c->out[i]);
    return false;
}

static void on_output(struct cmd *c, int i)
{
    while (relay(c, i)) {
    }
    bx_conn_io_kick(c->fake->io);
    check_end(c);
}

static void on_stdout(void *data, uint32_t events)
{
    on_output(data, 0);
}

static void on_stderr(void *data, uint32_t events)
{
    on_output(data, 1);
}

static void feed(struct cmd *c)
{
    while (c->in >= 0 && c->input.len > 0) {
        ssize_t n = write(c->in, bx_buf_data(&c->input), c->input.len);
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            (void)bx_conn_send_reset(c->fake->conn, BX_CHANNEL(c->number, BX_STREAM_IN));
            c->input_eof = true;
            n = (ssize_t)c->input.len;
        }
        bx_buf_consume(&c->input, (size_t)n);
        (void)bx_conn_consumed(c->fake->conn, BX_CHANNEL(c->number, BX_STREAM_IN), (size_t)n);
    }
    bx_conn_io_kick(c->fake->io);
    if (c->in >= 0 && c->input.len == 0 && c->input_eof) {
        bx_source_free(steal_ptr(&c->in_source));
        bx_close(&c->in);
    } else if (c->in_source) {
        (void)bx_source_set_events(c->in_source, c->input.len ? EPOLLOUT : 0);
    }
}

static void on_in(void *data, uint32_t events)
{
    feed(data);
}

static int run_builtin(const struct bx_exec_spec *spec)
{
    char *const *argv = spec->argv.v;
    return bx_streq(spec->builtin, "tar-in")    ? tar_in(argv, spec->argv.n)
           : bx_streq(spec->builtin, "tar-out") ? tar_out(argv, spec->argv.n)
           : bx_streq(spec->builtin, "changes-drop") ? changes_drop(argv, spec->argv.n)
                                                : changes_out(argv, spec->argv.n);
}

/* In the child. */
static void __attribute__((noreturn))
become(const struct bx_exec_spec *spec, const struct bx_msg *m, const char *program,
       const int fds[3])
{
    struct failure failure = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* as a guest's process dies with its VM */
    (void)setpgid(0, 0);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 3; i++) {
        if (fds[i] < 0 || dup2(fds[i], i) < 0) {
            _exit(126);
        }
    }
    (void)bx_close_all(3, NULL, 0);
    if (spec->builtin) {
        _exit(run_builtin(spec));
    }
    if (spec->cwd && chdir(spec->cwd) < 0) {
        _exit(126);
    }
    if (files_write(m, &failure) < 0) {
        (void)dprintf(2, "%s\n", failure.text);
        _exit(126);
    }
    (void)execve(program, spec->argv.v, spec->env.v);
    _exit(127);
}

static struct cmd *cmd_find(struct fake *f, uint32_t number)
{
    struct cmd *c = f->cmds;
    while (c && c->number != number) {
        c = c->next;
    }
    return c;
}

static void watch_all(struct cmd *c)
{
    static const bx_fd_fn fns[2] = {on_stdout, on_stderr};
    (void)bx_loop_add_child(c->fake->loop, c->pidfd, on_child, c, &c->child);
    for (int i = 0; i < 2; i++) {
        (void)bx_set_nonblock(c->out[i], true);
        (void)bx_loop_add_fd(c->fake->loop, c->out[i], EPOLLIN, fns[i], c, &c->out_source[i]);
    }
    if (c->in >= 0) {
        (void)bx_set_nonblock(c->in, true);
        (void)bx_loop_add_fd(c->fake->loop, c->in, 0, on_in, c, &c->in_source);
    }
}

static void start(struct cmd *c, const struct bx_exec_spec *spec, const struct bx_msg *m)
{
    struct bx_buf msg = BX_BUF_INIT(256);
    _cleanup_free_ char *program = spec->builtin || strchr(spec->argv.v[0], '/')
                                       ? strdup(spec->argv.v[0])
                                       : bx_find_program(spec->argv.v[0]);
    int in[2] = {-1, -1}, out[2], err[2];
    if (!program || (!spec->builtin && access(program, X_OK) < 0)) {
        int why = program ? errno : ENOENT;
        for (int i = BX_STREAM_OUT; i <= BX_STREAM_ERR; i++) {
            (void)bx_conn_send_eof(c->fake->conn, BX_CHANNEL(c->number, i));
        }
        tell_exited(c, why);
        cmd_free(c);
        return;
    }
    if (spec->flags & BX_EXEC_STDIN) {
        (void)bx_pipe(in);
    } else {
        in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    (void)bx_pipe(out);
    (void)bx_pipe(err);
    c->pid = fork();
    if (c->pid == 0) {
        become(spec, m, program, (int[]){in[0], out[1], err[1]});
    }
    (void)setpgid(c->pid, c->pid);
    c->pidfd = bx_pidfd_open(c->pid);
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    c->in = in[1];
    c->out[0] = out[0];
    c->out[1] = err[0];
    (void)bx_msg_begin(&msg, BX_AG_STARTED);
    (void)bx_msg_u64(&msg, BX_T_EXEC, c->number);
    (void)bx_msg_u64(&msg, BX_T_PID, (uint64_t)c->pid);
    tell(c->fake, &msg);
    bx_buf_done(&msg);
    watch_all(c);
}

/* ---- The agent ------------------------------------------------------------------------------- */

static void vm_off(void *data)
{
    struct fake *f = data;
    f->later = NULL;
    f->ended = true;
    f->events->ended(f->data, BX_VMM_OFF, NULL);
}

static void vm_ended(void *data)
{
    struct fake *f = data;
    _cleanup_error_ boxlite_error *error = NULL;
    f->later = NULL;
    f->ended = true;
    if (mode_is("panic")) {
        (void)bx_fail(&error, BOXLITE_E_GUEST, "the kernel panicked");
    }
    f->events->ended(f->data, error ? BX_VMM_PANIC : BX_VMM_KILLED, error);
}

static void later(struct fake *f, bx_call_fn fn)
{
    if (!f->ended) {
        bx_source_free(steal_ptr(&f->later));
        (void)bx_loop_add_defer(f->loop, fn, f, &f->later);
    }
}

static void kill_all(struct fake *f)
{
    while (f->cmds) {
        struct cmd *c = f->cmds;
        siginfo_t status;
        if (c->pid > 0 && !c->exited) {
            (void)kill(-c->pid, SIGKILL);
            (void)waitid((idtype_t)P_PIDFD, (id_t)c->pidfd, &status, WEXITED);
        }
        cmd_free(c);
    }
}

static void on_exec(struct fake *f, const struct bx_msg *m)
{
    struct bx_exec_spec spec = {0};
    uint64_t number = 0;
    struct cmd *c = calloc(1, sizeof(*c));
    (void)bx_msg_get_u64(m, BX_T_EXEC, BX_EXEC_MAX, &number);
    *c = (struct cmd){.fake = f,
                      .number = (uint32_t)number,
                      .pidfd = -1,
                      .in = -1,
                      .out = {-1, -1},
                      .input = BX_BUF_INIT(BX_WIRE_WINDOW),
                      .next = f->cmds};
    f->cmds = c;
    for (int i = 0; i < 3; i++) {
        (void)bx_conn_open(f->conn, BX_CHANNEL(number, i));
    }
    if (bx_exec_spec_from_msg(m, &spec) == 0) {
        start(c, &spec, m);
    }
    bx_exec_spec_done(&spec);
}

static void on_signal(struct fake *f, const struct bx_msg *m)
{
    uint64_t number = 0, signo = 0;
    (void)bx_msg_get_u64(m, BX_T_EXEC, BX_EXEC_MAX, &number);
    (void)bx_msg_get_u64(m, BX_T_SIGNO, 64, &signo);
    struct cmd *c = cmd_find(f, (uint32_t)number);
    if (c && c->pid > 0) {
        (void)kill(signo == SIGKILL ? -c->pid : c->pid, (int)signo);
    }
}

static void reply_ready(struct fake *f)
{
    struct bx_buf msg = BX_BUF_INIT(256);
    (void)bx_msg_begin(&msg, BX_AG_READY);
    (void)bx_msg_str(&msg, BX_T_RELEASE, "6.1-fake");
    (void)bx_msg_u64(&msg, BX_T_BOOT_US, 1000);
    tell(f, &msg);
    bx_buf_done(&msg);
}

static int on_msg(void *data, const struct bx_msg *m)
{
    struct fake *f = data;
    switch (m->type) {
    case BX_AG_CONFIGURE:
        if (mode_is("panic")) {
            later(f, vm_ended);
        } else if (!mode_is("silent")) {
            reply_ready(f);
        }
        break;
    case BX_AG_EXEC:
        on_exec(f, m);
        break;
    case BX_AG_SIGNAL:
        on_signal(f, m);
        break;
    case BX_AG_SHUTDOWN:
        kill_all(f);
        later(f, vm_off);
        break;
    default:
        break;
    }
    return 0;
}

static void on_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    struct cmd *c = cmd_find(data, BX_CHANNEL_NUMBER(channel));
    if (c && c->in >= 0) {
        (void)bx_buf_append(&c->input, p, len);
        feed(c);
    } else {
        (void)bx_conn_consumed(((struct fake *)data)->conn, channel, len);
    }
}

static void on_eof(void *data, uint32_t channel)
{
    struct cmd *c = cmd_find(data, BX_CHANNEL_NUMBER(channel));
    if (c) {
        c->input_eof = true;
        feed(c);
    }
}

static void on_writable(void *data, uint32_t channel)
{
    struct cmd *c = cmd_find(data, BX_CHANNEL_NUMBER(channel));
    int i = (int)BX_CHANNEL_STREAM(channel) - BX_STREAM_OUT;
    if (c && i >= 0 && c->out_source[i]) {
        (void)bx_source_set_events(c->out_source[i], EPOLLIN);
    }
}

static void on_closed(void *data, int error)
{
}

static const struct bx_conn_ops agent_ops = {
    .msg = on_msg, .bytes = on_bytes, .eof = on_eof, .writable = on_writable};

/* ---- The engine ------------------------------------------------------------------------------ */

static int vm_start(struct bx_loop *loop, const struct bx_vmm_config *config,
                    const struct bx_vmm_events *events, void *data, struct bx_vmm **ret,
                    boxlite_error **err)
{
    struct fake *f = calloc(1, sizeof(*f));
    if (!f) {
        return bx_fail_oom(err);
    }
    *f = (struct fake){.loop = loop, .events = events, .data = data};
    int fd = fcntl(config->agent_fd, F_DUPFD_CLOEXEC, 3);
    if (bx_conn_new(BX_ROLE_AGENT, BX_ROLE_SHIM, &agent_ops, f, &f->conn) < 0 ||
        bx_conn_io_new(loop, fd, f->conn, on_closed, f, &f->io) < 0) {
        return bx_fail_oom(err);
    }
    *ret = (struct bx_vmm *)f;
    return 0;
}

static void vm_paused(void *data)
{
    struct fake *f = data;
    f->later = NULL;
    f->events->paused(f->data, f->paused);
}

static int vm_pause(struct bx_vmm *vm, boxlite_error **err)
{
    ((struct fake *)vm)->paused = true;
    later((struct fake *)vm, vm_paused);
    return 0;
}

static int vm_resume(struct bx_vmm *vm, boxlite_error **err)
{
    ((struct fake *)vm)->paused = false;
    later((struct fake *)vm, vm_paused);
    return 0;
}

static void vm_kill(struct bx_vmm *vm)
{
    kill_all((struct fake *)vm);
    later((struct fake *)vm, vm_ended);
}

static pid_t vm_pid(const struct bx_vmm *vm)
{
    return getpid();
}

static void vm_free(struct bx_vmm *vm)
{
    struct fake *f = (struct fake *)vm;
    kill_all(f);
    bx_source_free(f->later);
    bx_conn_io_free(f->io);
    bx_conn_free(f->conn);
    free(f);
}

static const struct bx_vmm_ops fake_engine = {
    .name = "fake",
    .start = vm_start,
    .pause = vm_pause,
    .resume = vm_resume,
    .kill = vm_kill,
    .pid = vm_pid,
    .free = vm_free,
};

static int choose(const char *asked, int cache_fd, const struct bx_vmm_ops **ret,
                  boxlite_error **err)
{
    if (mode_is("engine")) {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "there is no engine here");
        bx_hint(err, "install one");
        return BOXLITE_E_ENGINE;
    }
    *ret = &fake_engine;
    return 0;
}

static int passt_start(struct bx_loop *loop, const struct bx_log *log, int log_fd,
                       bx_passt_ended_fn ended, void *data, struct bx_passt **ret, int *ret_fd,
                       struct bx_passt_net *ret_net, boxlite_error **err)
{
    return bx_fail(err, BOXLITE_E_UNSUPPORTED, "no network here");
}

static void passt_free(struct bx_passt *p)
{
}

static int rootfs_check(int fd, const char *what, boxlite_error **err)
{
    return 0;
}

const struct bx_shim_world bx_shim_real_world = {
    .choose = choose,
    .passt_start = passt_start,
    .passt_free = passt_free,
    .rootfs_check = rootfs_check,
    .spool_max = BX_SPOOL_MAX,
    .boot_quiet_ms = 60000,
    .boot_ms = 300000,
    .panic_ms = 500,
    .shutdown_ms = 5000,
    .kill_ms = 2000,
    .follow_ms = 10000,
    .drain_ms = 30000,
    .stuck_ms = 30000,
};

void bx_shim_jail_early(const struct bx_log *log)
{
}
