/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_main.c: boxlite-shim, one process per box (box/shimproc.h has its contract).
 *
 * Only what a process has once is here: arguments, signals, the log, the loop. The log is stderr,
 * the box's shim.log, with a bound on what one run may write. SIGTERM stops the box as `stop`
 * would; a terminal's signals do not come here, because the shim is the leader of a session of its
 * own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/timeutil.h"
#include "box/shim.h"
#include "box/shimproc.h"

#define LOG_MAX (1u << 20)
#define SIGTERM_MS 10000
#define EXIT_USAGE 125

static void log_line(void *data, int level, const char *area, const char *message)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    static size_t written;
    char when[32], line[1024];
    int n = snprintf(line, sizeof(line), "%s %s %s: %s\n",
                     bx_format_rfc3339((int64_t)(bx_now_real() / BX_SEC), when, sizeof(when)),
                     names[level & 3], area, message);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1;
    if (written + len <= LOG_MAX) {
        written += len;
        (void)bx_write_full(STDERR_FILENO, line, len);
    }
}

static const struct {
    const char *name;
    bool required;
} options[] = {
    {"--box-fd", true},       {"--home-fd", true},    {"--control-fd", true},
    {"--owner-pidfd", false}, {"--log-level", false}, {"--quiet", false},
};

/* Values by the order of `options`; -1: not given. */
static bool parse(int argc, char **argv, int values[BX_ARRAY_SIZE(options)])
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(options); i++) {
        values[i] = -1;
    }
    for (int a = 1; a + 1 < argc; a += 2) {
        uint64_t n;
        size_t i = 0;
        while (i < BX_ARRAY_SIZE(options) && !bx_streq(argv[a], options[i].name)) {
            i++;
        }
        if (i == BX_ARRAY_SIZE(options) || bx_parse_u64(argv[a + 1], 1 << 20, &n) < 0) {
            return false;
        }
        values[i] = (int)n;
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(options); i++) {
        if (options[i].required && values[i] < 0) {
            return false;
        }
    }
    return argc % 2 == 1;
}

/* What was inherited is ours alone from here on. */
static bool take_fds(const struct bx_shim_args *args)
{
    const int fds[] = {args->box_fd, args->home_fd, args->control_fd, args->owner_pidfd};
    for (size_t i = 0; i < BX_ARRAY_SIZE(fds); i++) {
        if (fds[i] >= 0 && (fds[i] <= STDERR_FILENO || bx_set_cloexec(fds[i], true) < 0)) {
            return false;
        }
    }
    return true;
}

struct signals {
    int fd;
    struct bx_shim *shim;
};

static void on_signal(void *data, uint32_t events)
{
    const struct signals *sig = data;
    struct signalfd_siginfo info;
    if (read(sig->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        bx_shim_stop(sig->shim, BX_STOP_SIGNAL, SIGTERM_MS);
    }
}

static int open_signals(void)
{
    sigset_t set;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL); /* a size limit is an error of write, not our death */
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0) {
        return -errno;
    }
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int run(const struct bx_shim_args *args, const struct bx_log *log)
{
    _cleanup_loop_ struct bx_loop *loop = NULL;
    struct bx_source *source = NULL;
    struct bx_shim *s = NULL;
    _cleanup_close_ int fd = open_signals();
    if (fd < 0 || bx_loop_new(&loop) < 0 ||
        bx_shim_new(loop, log, &bx_shim_real_world, args, &s) < 0) {
        bx_log(log, BOXLITE_LOG_ERROR, "shim", "cannot begin: out of memory or descriptors");
        return EXIT_USAGE;
    }
    struct signals sig = {fd, s};
    int r = bx_loop_add_fd(loop, fd, EPOLLIN, on_signal, &sig, &source);
    if (r == 0) {
        bx_shim_start(s);
    }
    while (r >= 0 && !bx_shim_done(s)) {
        r = bx_loop_dispatch(loop, -1);
    }
    bx_source_free(source);
    bx_shim_free(s);
    return r < 0 ? EXIT_USAGE : 0;
}

int main(int argc, char **argv)
{
    int v[BX_ARRAY_SIZE(options)];
    struct bx_log log = {.fn = log_line, .level = BOXLITE_LOG_INFO};
    if (bx_fix_stdio() < 0) {
        return EXIT_USAGE;
    }
    bx_shim_jail_early(&log);
    if (!parse(argc, argv, v)) {
        bx_log(&log, BOXLITE_LOG_ERROR, "shim",
               "usage: boxlite-shim --box-fd N --home-fd N "
               "--control-fd N [--owner-pidfd N] [--log-level N] [--quiet N]");
        return EXIT_USAGE;
    }
    const struct bx_shim_args args = {.box_fd = v[0],
                                      .home_fd = v[1],
                                      .control_fd = v[2],
                                      .owner_pidfd = v[3],
                                      .quiet = v[5] > 0};
    if (v[4] >= 0) {
        log.level = v[4];
    }
    if (!take_fds(&args)) {
        bx_log(&log, BOXLITE_LOG_ERROR, "shim", "a descriptor of the arguments is not open");
        return EXIT_USAGE;
    }
    return run(&args, &log);
}
