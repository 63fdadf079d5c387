/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_fixture.c: see shim_fixture.h.
 */
#include "shim_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/timeutil.h"
#include "box/shimproc.h"

static struct fx *the_fx; /* for the fakes without a data pointer */

uint8_t fx_pattern(uint64_t offset)
{
    return (uint8_t)(offset ^ offset >> 8 ^ offset >> 16 ^ offset >> 24);
}

/* ---- the loop */

uint64_t fx_deadline(void)
{
    return bx_deadline_ms(10000 * (int64_t)time_scale());
}

void fx_turn(struct fx *fx, uint64_t deadline, int line, const char *cond)
{
    if (bx_now_mono() >= deadline) {
        harness_fail("the test", line, "never came true: %s", cond);
    }
    ASSERT_OK(bx_loop_dispatch(fx->loop, bx_deadline_left_ms(deadline)));
}

void fx_settle(struct fx *fx)
{
    int r;
    while ((r = bx_loop_dispatch(fx->loop, 0)) > 0) {
    }
    ASSERT_OK(r);
}

/* ---- engine */

static int choose(const char *asked, int cache_fd, const struct bx_vmm_ops **ret,
                  boxlite_error **err);

static void vm_later(struct fx *fx, bx_call_fn fn)
{
    ASSERT_OK(bx_loop_add_defer(fx->loop, fn, fx->vm, &fx->vm->later));
}

static int vm_start(struct bx_loop *loop, const struct bx_vmm_config *config,
                    const struct bx_vmm_events *events, void *data, struct bx_vmm **ret,
                    boxlite_error **err);

static void vm_paused(void *data)
{
    struct fx_vm *vm = data;
    vm->later = NULL;
    vm->events->paused(vm->data, true);
}

static void vm_resumed(void *data)
{
    struct fx_vm *vm = data;
    vm->later = NULL;
    vm->events->paused(vm->data, false);
}

static int vm_pause(struct bx_vmm *vm, boxlite_error **err)
{
    if (the_fx->no_pause) {
        return bx_fail(err, BOXLITE_E_ENGINE, "no pause");
    }
    vm_later(the_fx, vm_paused);
    return 0;
}

static int vm_resume(struct bx_vmm *vm, boxlite_error **err)
{
    vm_later(the_fx, vm_resumed);
    return 0;
}

static void vm_killed(void *data)
{
    struct fx_vm *vm = data;
    vm->later = NULL;
    fx_vm_end(vm->fx, BX_VMM_KILLED, NULL);
}

static void vm_kill(struct bx_vmm *opaque)
{
    struct fx_vm *vm = (struct fx_vm *)opaque;
    vm->fx->kills++;
    vm->killed = true;
    if (!vm->fx->no_kill && !vm->ended) {
        bx_source_free(steal_ptr(&vm->later));
        vm_later(vm->fx, vm_killed);
    }
}

static pid_t vm_pid(const struct bx_vmm *vm)
{
    return getpid();
}

static void agent_gone(struct fx *fx)
{
    bx_conn_io_free(steal_ptr(&fx->agent_io));
    bx_conn_free(steal_ptr(&fx->agent));
}

static void vm_free(struct bx_vmm *opaque)
{
    struct fx_vm *vm = (struct fx_vm *)opaque;
    bx_source_free(vm->later);
    agent_gone(vm->fx);
    bx_close(&vm->agent_fd);
    vm->fx->vm = NULL;
    free(vm);
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
    if (the_fx->choose_error) {
        return bx_fail(err, the_fx->choose_error, "no engine here");
    }
    *ret = &fake_engine;
    return 0;
}

static void vm_off(void *data)
{
    struct fx_vm *vm = data;
    vm->later = NULL;
    fx_vm_end(vm->fx, BX_VMM_OFF, NULL);
}

void fx_vm_end(struct fx *fx, enum bx_vmm_end how, const char *error)
{
    struct fx_vm *vm = fx->vm;
    boxlite_error *err = NULL;
    if (error) {
        bx_fail(&err, how == BX_VMM_PANIC ? BOXLITE_E_GUEST : BOXLITE_E_ENGINE, "%s", error);
    }
    vm->ended = true;
    vm->events->ended(vm->data, how, err);
    boxlite_error_free(err);
}

void fx_console(struct fx *fx, const char *text)
{
    fx->vm->events->console(fx->vm->data, (const uint8_t *)text, strlen(text));
}

/* ---- agent */

static void put_pairs(struct bx_buf *b, uint16_t type, va_list ap)
{
    ASSERT_OK(bx_msg_begin(b, type));
    for (int tag; (tag = va_arg(ap, int)) != 0;) {
        ASSERT_OK(bx_msg_u64(b, (uint16_t)tag, va_arg(ap, uint64_t)));
    }
}

void fx_agent_msg(struct fx *fx, unsigned type, ...)
{
    struct bx_buf b = BX_BUF_INIT(4096);
    va_list ap;
    va_start(ap, type);
    put_pairs(&b, (uint16_t)type, ap);
    va_end(ap);
    ASSERT_OK(bx_conn_msg(fx->agent, &b));
    bx_conn_io_kick(fx->agent_io);
    bx_buf_done(&b);
}

void fx_agent_text(struct fx *fx, uint16_t type, uint16_t tag, const char *text)
{
    struct bx_buf b = BX_BUF_INIT(4096);
    ASSERT_OK(bx_msg_begin(&b, type));
    ASSERT_OK(bx_msg_str(&b, tag, text));
    ASSERT_OK(bx_conn_msg(fx->agent, &b));
    bx_conn_io_kick(fx->agent_io);
    bx_buf_done(&b);
}

static uint64_t get(const struct bx_msg *m, uint16_t tag)
{
    uint64_t v = 0;
    (void)bx_msg_get_u64(m, tag, UINT64_MAX, &v);
    return v;
}

static void on_exec(struct fx *fx, const struct bx_msg *m)
{
    fx->execs++;
    fx->exec = (uint32_t)get(m, BX_T_EXEC);
    bx_exec_spec_done(&fx->spec);
    ASSERT_OK(bx_exec_spec_from_msg(m, &fx->spec));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(bx_conn_open(fx->agent, BX_CHANNEL(fx->exec, i)));
    }
    if (!fx->no_started) {
        fx_agent_msg(fx, BX_AG_STARTED, BX_T_EXEC, (uint64_t)fx->exec, BX_T_PID, UINT64_C(7), 0);
    }
}

static int agent_msg(void *data, const struct bx_msg *m)
{
    struct fx *fx = data;
    switch (m->type) {
    case BX_AG_CONFIGURE:
        if (!fx->no_ready) {
            fx_agent_text(fx, BX_AG_READY, BX_T_RELEASE, "6.1-fake");
        }
        break;
    case BX_AG_EXEC:
        on_exec(fx, m);
        break;
    case BX_AG_SIGNAL:
        fx->signals++;
        fx->signal = (int)get(m, BX_T_SIGNO);
        fx->signal_exec = (uint32_t)get(m, BX_T_EXEC);
        break;
    case BX_AG_RESIZE:
        fx->rows = (unsigned)get(m, BX_T_ROWS);
        break;
    case BX_AG_CLOCK:
        fx->clocks++;
        break;
    case BX_AG_STATS:
        fx_agent_msg(fx, BX_AG_STATS_REPLY, BX_T_REQUEST, get(m, BX_T_REQUEST), BX_T_PIDS,
                     UINT64_C(5), 0);
        break;
    case BX_AG_SHUTDOWN:
        fx->shutdown = true;
        if (!fx->no_off) {
            vm_later(fx, vm_off);
        }
        break;
    default:
        FAIL("the agent got message %u", m->type);
    }
    return 0;
}

static void agent_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    struct fx *fx = data;
    ASSERT_EQ(BX_CHANNEL_STREAM(channel), BX_STREAM_IN);
    ASSERT_OK(bx_buf_append(&fx->in, p, len));
    fx->in_bytes += len;
    if (!fx->in_hold) {
        ASSERT_OK(bx_conn_consumed(fx->agent, channel, len));
    }
}

static void agent_eof(void *data, uint32_t channel)
{
    struct fx *fx = data;
    fx->in_eof = true;
}

static void agent_writable(void *data, uint32_t channel)
{
    struct fx *fx = data;
    fx->writable++;
}

static void agent_closed(void *data, int error)
{
    struct fx *fx = data;
    fx->agent_closed = true;
}

static const struct bx_conn_ops agent_ops = {
    .msg = agent_msg, .bytes = agent_bytes, .eof = agent_eof, .writable = agent_writable};

static int vm_start(struct bx_loop *loop, const struct bx_vmm_config *config,
                    const struct bx_vmm_events *events, void *data, struct bx_vmm **ret,
                    boxlite_error **err)
{
    struct fx *fx = the_fx;
    if (fx->start_error) {
        return bx_fail(err, fx->start_error, "cannot start");
    }
    ASSERT_EQ(config->ndisks, 2);
    ASSERT(config->disks[0].read_only && !config->disks[1].read_only);
    fx->vm = calloc(1, sizeof(*fx->vm));
    *fx->vm = (struct fx_vm){.fx = fx,
                             .events = events,
                             .data = data,
                             .agent_fd = fcntl(config->agent_fd, F_DUPFD_CLOEXEC, 3)};
    if (!fx->no_agent) {
        ASSERT_OK(bx_conn_new(BX_ROLE_AGENT, BX_ROLE_SHIM, &agent_ops, fx, &fx->agent));
        ASSERT_OK(bx_conn_io_new(loop, steal_fd(&fx->vm->agent_fd), fx->agent, agent_closed, fx,
                                 &fx->agent_io));
    }
    *ret = (struct bx_vmm *)fx->vm;
    return 0;
}

size_t fx_output(struct fx *fx, uint32_t exec, int stream, const void *p, size_t len)
{
    ssize_t n = bx_conn_send(fx->agent, BX_CHANNEL(exec, stream), p, len);
    ASSERT_OK(n);
    bx_conn_io_kick(fx->agent_io);
    return (size_t)n;
}

void fx_output_pattern(struct fx *fx, uint32_t exec, uint64_t *at, uint64_t len)
{
    uint8_t piece[65536];
    for (uint64_t end = *at + len; *at < end;) {
        size_t n = end - *at < sizeof(piece) ? (size_t)(end - *at) : sizeof(piece);
        for (size_t i = 0; i < n; i++) {
            piece[i] = fx_pattern(*at + i);
        }
        size_t sent = fx_output(fx, exec, BX_STREAM_OUT, piece, n);
        *at += sent;
        if (sent < n) {
            unsigned before = fx->writable;
            FX_UNTIL(fx, fx->writable != before);
        }
    }
}

void fx_output_eof(struct fx *fx, uint32_t exec)
{
    ASSERT_OK(bx_conn_send_eof(fx->agent, BX_CHANNEL(exec, BX_STREAM_OUT)));
    ASSERT_OK(bx_conn_send_eof(fx->agent, BX_CHANNEL(exec, BX_STREAM_ERR)));
    bx_conn_io_kick(fx->agent_io);
}

void fx_exited(struct fx *fx, uint32_t exec, int code)
{
    fx_output_eof(fx, exec);
    fx_agent_msg(fx, BX_AG_EXITED, BX_T_EXEC, (uint64_t)exec, BX_T_CODE, (uint64_t)code, 0);
}

/* ---- clients */

static struct fx_stream *stream_of(struct fx_client *c, uint32_t channel)
{
    uint32_t n = BX_CHANNEL_NUMBER(channel);
    ASSERT(n < FX_ATTACHMENTS);
    return &c->streams[n][BX_CHANNEL_STREAM(channel)];
}

static void on_state(struct fx_client *c, const struct bx_msg *m)
{
    c->state = (int)get(m, BX_T_STATE);
    c->code = -(int)get(m, BX_T_CODE_NEG);
    char **texts[] = {&c->error, &c->hint, &c->engine};
    static const uint16_t tags[] = {BX_T_ERROR, BX_T_HINT, BX_T_ENGINE};
    for (size_t i = 0; i < 3; i++) {
        free(steal_ptr(texts[i]));
        (void)bx_msg_get_str(m, tags[i], texts[i]);
    }
}

static int client_msg(void *data, const struct bx_msg *m)
{
    struct fx_client *c = data;
    if (c->ignore) {
        return 0;
    }
    switch (m->type) {
    case BX_SH_STATE:
        on_state(c, m);
        break;
    case BX_SH_STARTED:
        c->started++;
        break;
    case BX_SH_REPLY:
    case BX_SH_REPLY_ERROR:
        c->refused = m->type == BX_SH_REPLY_ERROR;
        c->answered = get(m, BX_T_REQUEST);
        bx_buf_clear(&c->reply);
        ASSERT_OK(bx_buf_append(&c->reply, m->p, m->left));
        break;
    default:
        FAIL("a client got message %u", m->type);
    }
    return 0;
}

static void client_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    struct fx_client *c = data;
    if (c->ignore) {
        (void)bx_conn_consumed(c->conn, channel, len);
        return;
    }
    struct fx_stream *st = stream_of(c, channel);
    for (size_t i = 0; c->check && i < len; i++) {
        if (p[i] != fx_pattern(c->at + i)) {
            FAIL("a wrong byte at %" PRIu64, c->at + i);
        }
    }
    c->at += len;
    st->bytes += len;
    if (c->keep) {
        ASSERT_OK(bx_buf_append(&st->got, p, len));
    }
    if (c->hold) {
        st->held += len;
    } else {
        ASSERT_OK(bx_conn_consumed(c->conn, channel, len));
    }
}

static void client_eof(void *data, uint32_t channel)
{
    struct fx_client *c = data;
    if (!c->ignore) {
        stream_of(c, channel)->eof = true;
    }
}

static void client_writable(void *data, uint32_t channel)
{
}

static void client_reset(void *data, uint32_t channel)
{
    struct fx_client *c = data;
    if (!c->ignore) {
        stream_of(c, channel)->reset = true;
    }
}

static void client_closed(void *data, int error)
{
    struct fx_client *c = data;
    c->closed = true;
}

static const struct bx_conn_ops client_ops = {.msg = client_msg,
                                              .bytes = client_bytes,
                                              .eof = client_eof,
                                              .writable = client_writable,
                                              .reset = client_reset};

static struct fx_client *client_on(struct fx *fx, int fd)
{
    ASSERT(fx->nclients < FX_CLIENTS);
    struct fx_client *c = &fx->clients[fx->nclients++];
    c->fx = fx;
    c->keep = true;
    c->state = -1;
    c->reply = (struct bx_buf)BX_BUF_INIT(65536);
    for (int a = 0; a < FX_ATTACHMENTS; a++) {
        for (int i = 0; i < 3; i++) {
            c->streams[a][i].got = (struct bx_buf)BX_BUF_INIT(64u << 20);
        }
    }
    ASSERT_OK(bx_conn_new(BX_ROLE_CLIENT, BX_ROLE_SHIM, &client_ops, c, &c->conn));
    ASSERT_OK(bx_conn_io_new(fx->loop, fd, c->conn, client_closed, c, &c->io));
    return c;
}

struct fx_client *fx_connect(struct fx *fx)
{
    int fd = bx_unix_connect(fx->box_fd, BX_CONTROL_SOCKET);
    ASSERT_OK(fd);
    return client_on(fx, fd);
}

void fx_disconnect(struct fx_client *c)
{
    bx_conn_io_free(steal_ptr(&c->io));
    bx_conn_free(steal_ptr(&c->conn));
}

static void send_request(struct fx_client *c, uint16_t type, va_list ap)
{
    struct bx_buf b = BX_BUF_INIT(4096);
    put_pairs(&b, (uint16_t)type, ap);
    ASSERT_OK(bx_msg_u64(&b, BX_T_REQUEST, ++c->request));
    ASSERT_OK(bx_conn_msg(c->conn, &b));
    bx_conn_io_kick(c->io);
    bx_buf_done(&b);
}

void fx_send(struct fx_client *c, unsigned type, ...)
{
    va_list ap;
    va_start(ap, type);
    send_request(c, type, ap);
    va_end(ap);
}

int fx_ask(struct fx_client *c, unsigned type, ...)
{
    va_list ap;
    va_start(ap, type);
    send_request(c, type, ap);
    va_end(ap);
    FX_UNTIL(c->fx, c->answered == c->request);
    return fx_answer_code(c);
}

static struct bx_msg reply_of(const struct fx_client *c)
{
    return (struct bx_msg){.type = BX_SH_REPLY, .p = bx_buf_data(&c->reply), .left = c->reply.len};
}

uint64_t fx_answer(const struct fx_client *c, uint16_t tag)
{
    struct bx_msg m = reply_of(c);
    return get(&m, tag);
}

int fx_answer_code(const struct fx_client *c)
{
    return c->refused ? -(int)fx_answer(c, BX_T_CODE_NEG) : 0;
}

char *fx_answer_text(const struct fx_client *c, uint16_t tag)
{
    char *s = NULL;
    struct bx_msg m = reply_of(c);
    (void)bx_msg_get_str(&m, tag, &s);
    return s;
}

void fx_open(struct fx_client *c, uint32_t attachment)
{
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(bx_conn_open(c->conn, BX_CHANNEL(attachment, i)));
    }
}

int fx_attach(struct fx_client *c, uint32_t attachment, uint32_t exec, uint64_t offset)
{
    fx_open(c, attachment);
    return fx_ask(c, BX_SH_ATTACH, BX_T_EXEC, (uint64_t)exec, BX_T_ATTACHMENT, (uint64_t)attachment,
                  BX_T_OFFSET_OUT, offset, 0);
}

int fx_exec(struct fx_client *c, bool detached, bool stdin_open)
{
    struct bx_buf b = BX_BUF_INIT(4096);
    ASSERT_OK(bx_msg_begin(&b, BX_SH_EXEC));
    ASSERT_OK(bx_msg_u64(&b, BX_T_REQUEST, ++c->request));
    ASSERT_OK(bx_msg_str(&b, BX_T_ARG, "true"));
    ASSERT_OK(bx_msg_str(&b, BX_T_ENV, "B=own"));
    ASSERT_OK(bx_msg_u64(&b, BX_T_DETACHED, detached));
    ASSERT_OK(bx_msg_u64(&b, BX_T_FLAGS, stdin_open ? BX_EXEC_STDIN : 0));
    ASSERT_OK(bx_conn_msg(c->conn, &b));
    bx_conn_io_kick(c->io);
    bx_buf_done(&b);
    unsigned before = c->fx->execs;
    FX_UNTIL(c->fx, c->answered == c->request);
    if (c->refused) {
        return fx_answer_code(c);
    }
    FX_UNTIL(c->fx, c->fx->execs != before);
    return (int)fx_answer(c, BX_T_EXEC);
}

/* ---- the box */

static int check_root(int fd, const char *what, boxlite_error **err)
{
    char c;
    return read(fd, &c, 1) == 1 ? 0 : bx_fail(err, BOXLITE_E_INTEGRITY, "%s: damaged", what);
}

static void no_passt(struct bx_passt *p)
{
}

static void put_file(int dirfd, const char *name)
{
    ASSERT_OK(bx_write_file(dirfd, name, "x", 1, 0600));
}

bool fx_exists(struct fx *fx, const char *name)
{
    return faccessat(fx->box_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static char *text(const char *s)
{
    return strdup(s);
}

void fx_init(struct fx *fx)
{
    fx_init_again(fx, false);
}

void fx_init_again(struct fx *fx, bool again)
{
    *fx = (struct fx){.in = BX_BUF_INIT(64u << 20)};
    the_fx = fx;
    ASSERT_OK(bx_loop_new(&fx->loop));
    static const char *const dirs[] = {"box", "home", "home/kernels", "home/kernels/default",
                                       "home/rootfs"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(dirs) && !again; i++) {
        ASSERT_OK(mkdirat(tmpdir_fd(), dirs[i], 0700));
    }
    fx->box_fd = openat(tmpdir_fd(), "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fx->home_fd = openat(tmpdir_fd(), "home", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put_file(fx->home_fd, "kernels/default/vmlinux");
    put_file(fx->home_fd, "kernels/default/initramfs");
    put_file(fx->home_fd, "rootfs/r.sqfs");
    put_file(fx->box_fd, "upper.img");
    fx->world = (struct bx_shim_world){.choose = choose,
                                       .passt_free = no_passt,
                                       .rootfs_check = check_root,
                                       .spool_max = 4u << 20,
                                       .boot_quiet_ms = 60000,
                                       .boot_ms = 60000,
                                       .panic_ms = 60000,
                                       .shutdown_ms = 60000,
                                       .kill_ms = 60000,
                                       .follow_ms = 60000,
                                       .drain_ms = 60000,
                                       .stuck_ms = 60000};
    fx->config = (struct bx_box_config){.id = text("0123456789abcdef"),
                                        .name = text("b"),
                                        .hostname = text("b"),
                                        .image = text("img:1"),
                                        .rootfs = text("rootfs/r.sqfs"),
                                        .kernel = text("default"),
                                        .engine = text("auto"),
                                        .cpus = 1,
                                        .memory = 256u << 20,
                                        .disk = 1u << 30,
                                        .workdir = text("/work"),
                                        .user = text("app")};
    ASSERT_OK(bx_strv_add(&fx->config.env, "A=box"));
    ASSERT_OK(bx_strv_add(&fx->config.env, "B=box"));
}

struct fx_client *fx_start(struct fx *fx)
{
    int pair[2];
    struct bx_log log = {0};
    ASSERT_OK(bx_box_config_write(&fx->config, fx->box_fd, ERR));
    ASSERT_OK(bx_socketpair(SOCK_STREAM, pair));
    struct bx_shim_args args = {.box_fd = fcntl(fx->box_fd, F_DUPFD_CLOEXEC, 3),
                                .home_fd = fcntl(fx->home_fd, F_DUPFD_CLOEXEC, 3),
                                .control_fd = pair[0],
                                .owner_pidfd = -1};
    ASSERT_OK(bx_shim_new(fx->loop, &log, &fx->world, &args, &fx->shim));
    struct fx_client *c = client_on(fx, pair[1]);
    bx_shim_start(fx->shim);
    return c;
}

struct fx_client *fx_run(struct fx *fx)
{
    struct fx_client *c = fx_start(fx);
    FX_UNTIL(fx, c->state == BOXLITE_BOX_RUNNING);
    return c;
}

void fx_forget(struct fx_client *c)
{
    fx_disconnect(c);
    free(c->error);
    free(c->hint);
    free(c->engine);
    bx_buf_done(&c->reply);
    for (int a = 0; a < FX_ATTACHMENTS; a++) {
        for (int i = 0; i < 3; i++) {
            bx_buf_done(&c->streams[a][i].got);
        }
    }
    *c = (struct fx_client){0};
}

void fx_done(struct fx *fx)
{
    for (size_t i = 0; i < fx->nclients; i++) {
        fx_forget(&fx->clients[i]);
    }
    bx_shim_free(fx->shim);
    agent_gone(fx);
    bx_exec_spec_done(&fx->spec);
    bx_buf_done(&fx->in);
    bx_box_config_done(&fx->config);
    bx_close(&fx->box_fd);
    bx_close(&fx->home_fd);
    bx_loop_free(fx->loop);
}
