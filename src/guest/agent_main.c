/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_main.c: boxlite-agent, PID 1 of the guest: boots it, then serves the link to the host.
 *
 * The host's end is the shim. When it goes away the guest has no purpose: the link's end, for whatever
 * reason, is a shutdown. See agent.h for what must hold, docs/wire.md for the messages.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "guest/agent.h"
#include "guest/boot.h"
#include "guest/config.h"
#include "guest/container.h"
#include "guest/exec.h"
#include "guest/net.h"
#include "guest/power.h"
#include "guest/pressure.h"
#include "guest/rootfs.h"
#include "guest/share.h"
#include "guest/stats.h"
#include "wire/proto.h"

#define PORT_WAIT_MS 10000
#define LAST_WORDS_MS 1000
/* Loading a module holds the processor for tens of milliseconds under emulation, whatever the loader's priority: the
 * first command goes first. */
#define LATE_MODULES (2 * BX_SEC)
#define SHUTDOWN_MS 4000
#define MSG_SMALL 65536

void agent_say(const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (n >= 0) {
        (void)dprintf(2, "boxlite-agent: %s\n", line);
    }
}

_Noreturn void agent_fatal(struct agent *a, int errnum, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    agent_say("%s", text);
    if (a->io && bx_msg_begin(&a->msg, BX_AG_FAILED) == 0 &&
        bx_msg_str(&a->msg, BX_T_ERROR, text) == 0 &&
        bx_msg_u64(&a->msg, BX_T_ERRNO, (uint64_t)(errnum < 0 ? -errnum : errnum)) == 0 &&
        bx_conn_msg(a->conn, &a->msg) == 0) {
        (void)bx_conn_io_flush(a->io, bx_deadline_ms(LAST_WORDS_MS));
    }
    power_shutdown(a);
}

void agent_send(struct agent *a)
{
    int r = bx_conn_msg(a->conn, &a->msg);
    if (r < 0) {
        agent_fatal(a, r, "the host takes no more messages");
    }
    bx_conn_io_kick(a->io);
}

/* ---- messages ----------------------------------------------------------------------------------- */

static void set_clock(uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / BX_SEC), .tv_nsec = (long)(ns % BX_SEC)};
    if (ns > 0 && clock_settime(CLOCK_REALTIME, &ts) < 0) {
        agent_say("setting the clock: %s", strerror(errno));
    }
}

static void send_ready(struct agent *a)
{
    struct utsname un;
    struct timespec up;
    (void)uname(&un);
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    uint64_t us = (uint64_t)up.tv_sec * 1000000 + (uint64_t)up.tv_nsec / 1000;
    if (bx_msg_begin(&a->msg, BX_AG_READY) < 0 ||
        bx_msg_str(&a->msg, BX_T_RELEASE, un.release) < 0 ||
        bx_msg_u64(&a->msg, BX_T_BOOT_US, us) < 0) {
        agent_fatal(a, ENOMEM, "composing a message");
    }
    agent_send(a);
}

static void on_container_end(void *data, uint32_t events)
{
    struct agent *a = data;
    if (a->stopping) {
        power_shutdown(a);
    }
    if (!a->configuring) { /* while it is being set up it has told why, or the end of its pipe does */
        agent_fatal(a, 0, "the container's init has ended");
    }
    bx_source_free(steal_ptr(&a->container_source));
}

static void on_deadline(void *data)
{
    struct agent *a = data;
    if (a->stopping) {
        power_shutdown(a);
    }
    agent_fatal(a, ETIMEDOUT, "setting the container up: %s", strerror(ETIMEDOUT));
}

/* The container stands, or does not. */
static void on_report(void *data, uint32_t events)
{
    struct agent *a = data;
    struct failure f = {0};
    int r = container_finish(a, a->report, &f);
    bx_source_free(steal_ptr(&a->report_source));
    bx_close(&a->report);
    if (r < 0) {
        agent_fatal(a, r, "%s", f.text);
    }
    bx_source_set_deadline(a->deadline, BX_NEVER);
    a->configuring = false;
    a->configured = true;
    pressure_watch(a);
    send_ready(a);
    if (a->late_timer) {
        bx_source_set_deadline(a->late_timer, bx_now_mono() + LATE_MODULES);
    }
}

static int watch_container(struct agent *a)
{
    int r = bx_loop_add_fd(a->loop, a->container.pidfd, EPOLLIN, on_container_end, a,
                           &a->container_source);
    r = r < 0 ? r : bx_loop_add_fd(a->loop, a->report, EPOLLIN, on_report, a, &a->report_source);
    return r < 0 ? r
                 : bx_loop_add_timer(a->loop, bx_deadline_ms(CONTAINER_SETUP_MS), on_deadline, a,
                                     &a->deadline);
}

static int on_configure(struct agent *a, const struct bx_msg *msg)
{
    _cleanup_config_ struct config cfg = {0};
    struct failure f = {0};
    if (a->configured || a->configuring) {
        return -EPROTO;
    }
    int r = config_parse(msg, &cfg);
    if (r < 0) {
        return r;
    }
    set_clock(cfg.clock_ns);
    if (cfg.net_addr && a->modules >= 0) {
        boot_modules(a->modules, BOOT_NET);
    }
    r = rootfs_mount(&cfg, &f);
    r = r < 0 ? r : net_setup(&cfg, &f);
    r = r < 0 ? r : share_mount_all(a, &cfg, &f);
    r = r < 0 ? r : container_start(a, &cfg, &a->report, &f);
    r = r < 0 ? r : watch_container(a);
    if (r < 0) {
        agent_fatal(a, r, "%s", f.errnum ? f.text : strerror(-r));
    }
    a->hostname = steal_ptr(&cfg.hostname);
    a->configuring = true;
    return 0;
}

static int on_exec(struct agent *a, const struct bx_msg *msg)
{
    _cleanup_spec_ struct spec s = {0};
    int r = spec_parse(msg, &s);
    return r < 0 ? r : exec_start(a, &s);
}

static int get_exec(const struct bx_msg *msg, uint32_t *id)
{
    uint64_t v;
    int r = bx_msg_get_u64(msg, BX_T_EXEC, BX_EXEC_MAX, &v);
    if (r == 0) {
        *id = (uint32_t)v;
    }
    return r < 0 ? -EPROTO : 0;
}

static int on_signal(struct agent *a, const struct bx_msg *msg)
{
    uint32_t id;
    uint64_t signo;
    if (get_exec(msg, &id) < 0 || bx_msg_get_u64(msg, BX_T_SIGNO, 64, &signo) < 0) {
        return -EPROTO;
    }
    exec_signal(a, id, (int)signo);
    return 0;
}

static int on_resize(struct agent *a, const struct bx_msg *msg)
{
    uint32_t id;
    uint64_t rows, cols;
    if (get_exec(msg, &id) < 0 || bx_msg_get_u64(msg, BX_T_ROWS, UINT16_MAX, &rows) < 0 ||
        bx_msg_get_u64(msg, BX_T_COLS, UINT16_MAX, &cols) < 0) {
        return -EPROTO;
    }
    exec_resize(a, id, (unsigned)rows, (unsigned)cols);
    return 0;
}

static int on_clock(struct agent *a, const struct bx_msg *msg)
{
    uint64_t ns;
    if (bx_msg_get_u64(msg, BX_T_CLOCK_NS, INT64_MAX, &ns) < 0) {
        return -EPROTO;
    }
    set_clock(ns);
    return 0;
}

/* With shared folders the loop goes on until the container is gone: its processes end only when the host
 * has answered what they asked, and what they have written by way of memory is written out then. */
static int on_shutdown(struct agent *a, const struct bx_msg *msg)
{
    if (!a->shares || !a->configured) {
        power_shutdown(a);
    }
    a->stopping = true;
    (void)bx_pidfd_signal(a->container.pidfd, SIGKILL);
    bx_source_set_deadline(a->deadline, bx_deadline_ms(SHUTDOWN_MS));
    return 0;
}

static int answer(struct agent *a, const struct bx_msg *msg, uint16_t type)
{
    uint64_t request;
    if (bx_msg_get_u64(msg, BX_T_REQUEST, UINT64_MAX, &request) < 0) {
        return -EPROTO;
    }
    if (bx_msg_begin(&a->msg, type) < 0 || bx_msg_u64(&a->msg, BX_T_REQUEST, request) < 0 ||
        (type == BX_AG_STATS_REPLY && stats_append(a) < 0)) {
        agent_fatal(a, ENOMEM, "composing a message");
    }
    agent_send(a);
    return 0;
}

static int on_ping(struct agent *a, const struct bx_msg *msg)
{
    return answer(a, msg, BX_AG_PONG);
}

static int on_stats(struct agent *a, const struct bx_msg *msg)
{
    return answer(a, msg, BX_AG_STATS_REPLY);
}

typedef int (*msg_fn)(struct agent *a, const struct bx_msg *msg);

static const struct {
    msg_fn fn;
    bool early; /* allowed before CONFIGURE */
} msg_fns[] = {
    [BX_AG_CONFIGURE] = {on_configure, true}, [BX_AG_EXEC] = {on_exec, false},
    [BX_AG_SIGNAL] = {on_signal, false},      [BX_AG_RESIZE] = {on_resize, false},
    [BX_AG_CLOCK] = {on_clock, true},         [BX_AG_SHUTDOWN] = {on_shutdown, true},
    [BX_AG_PING] = {on_ping, true},           [BX_AG_STATS] = {on_stats, false},
};

static int on_msg(void *data, const struct bx_msg *msg)
{
    struct agent *a = data;
    if (msg->type >= BX_ARRAY_SIZE(msg_fns) || !msg_fns[msg->type].fn) {
        return 0; /* a newer host's */
    }
    if (!a->configured && !msg_fns[msg->type].early) {
        return -EPROTO;
    }
    return msg_fns[msg->type].fn(a, msg);
}

static void on_bytes(void *data, uint32_t channel, const uint8_t *p, size_t len)
{
    if (channel == BX_CHANNEL_SHARE_ANSWER) {
        share_bytes(data, p, len);
    } else {
        exec_bytes(data, channel, p, len);
    }
}

static void on_eof(void *data, uint32_t channel)
{
    if (channel == BX_CHANNEL_SHARE_ANSWER) {
        share_eof(data);
    } else {
        exec_eof(data, channel);
    }
}

static void on_writable(void *data, uint32_t channel)
{
    if (channel == BX_CHANNEL_SHARE_REQUEST) {
        share_writable(data);
    } else {
        exec_writable(data, channel);
    }
}

static void on_reset(void *data, uint32_t channel)
{
    if (channel != BX_CHANNEL_SHARE_REQUEST) {
        exec_reset(data, channel);
    }
}

static const struct bx_conn_ops conn_ops = {
    .msg = on_msg,
    .bytes = on_bytes,
    .eof = on_eof,
    .writable = on_writable,
    .reset = on_reset,
};

static void on_link_end(void *data, int error)
{
    struct agent *a = data;
    if (error) {
        agent_say("the link to the host failed: %s", strerror(-error));
    }
    power_shutdown(a);
}

/* ---- modules that no boot waits for --------------------------------------------------------------- */

static void on_late_end(void *data, const siginfo_t *status)
{
    struct agent *a = data;
    bx_source_free(steal_ptr(&a->late_source));
    bx_close(&a->late_pid);
    bx_close(&a->modules);
}

static void on_late_time(void *data)
{
    struct agent *a = data;
    bx_close(&a->late_go); /* the word to go */
}

static void prepare_late_modules(struct agent *a)
{
    a->late_pid = boot_modules_later(a->modules, &a->late_go);
    int r = a->late_pid < 0 ? a->late_pid
                            : bx_loop_add_timer(a->loop, BX_NEVER, on_late_time, a, &a->late_timer);
    r = r < 0 ? r : bx_loop_add_child(a->loop, a->late_pid, on_late_end, a, &a->late_source);
    if (r < 0) {
        agent_say("cannot load further modules: %s", strerror(-r));
    }
}

/* ---- start -------------------------------------------------------------------------------------- */

static void open_link(struct agent *a)
{
    struct failure f = {0};
    size_t len;
    int fd = -1;
    int r = bx_conn_new(BX_ROLE_AGENT, BX_ROLE_SHIM, &conn_ops, a, &a->conn);
    if (r < 0) {
        agent_fatal(a, r, "memory for the link");
    }
    const uint8_t *hello = bx_conn_pending(a->conn, &len);
    if (boot_open_port(hello, len, bx_deadline_ms(PORT_WAIT_MS), &fd, &f) < 0) {
        agent_fatal(a, f.errnum, "%s", f.text);
    }
    bx_conn_written(a->conn, len);
    r = bx_conn_io_new(a->loop, fd, a->conn, on_link_end, a, &a->io);
    if (r < 0) {
        agent_fatal(a, r, "watching the link: %s", strerror(-r));
    }
}

int main(void)
{
    static struct agent agent = {
        .container = {.pidfd = -1, .ptsfd = -1, .boxfd = -1},
        .late_go = -1,
        .report = -1,
        .late_pid = -1,
        .msg = BX_BUF_INIT(MSG_SMALL),
    };
    struct agent *a = &agent;
    struct failure f = {0};
    if (getpid() != 1) {
        agent_say("this is the first process of a BoxLite guest; it does nothing elsewhere");
        return 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(022);
    a->modules = open("/modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (boot_mounts(&f) < 0) {
        agent_fatal(a, f.errnum, "%s", f.text);
    }
    boot_protect_self();
    if (a->modules >= 0) {
        boot_modules(a->modules, BOOT_ROOT);
    }
    int r = bx_loop_new(&a->loop);
    if (r < 0) {
        agent_fatal(a, r, "making the event loop: %s", strerror(-r));
    }
    if (a->modules >= 0) {
        prepare_late_modules(a);
    }
    open_link(a);
    for (;;) {
        r = bx_loop_dispatch(a->loop, -1);
        if (r < 0) {
            agent_fatal(a, r, "event loop: %s", strerror(-r));
        }
    }
}
