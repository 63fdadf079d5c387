/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c: is KVM really usable?
 *
 * A child makes a machine that counts down in kernel mode (kvm_loop.c), counts the same here, and
 * reports both times through a pipe. The parent waits with a deadline and then kills the child by
 * its pidfd and reaps it, whatever happened. The child is cloned without an exit signal, so the
 * host program gets no SIGCHLD and its waitpid(-1) cannot take it; it makes system calls only, as
 * it may be the copy of one thread of many.
 *
 * Times are the child's CPU time, so that a busy host is not taken for a slow one. The deadline is
 * real time; a child that got too little of the processor until then to be called slow gives a
 * verdict that is not cached.
 *
 * The cache is outside input: anything unexpected in it is as if it were not there. Only verdicts
 * that cost a run are kept; whether the device may be opened is seen anew each time.
 */
#include "vmm/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json.h"
#include "base/timeutil.h"
#include "vmm/kvm_loop.h"

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#define DEVICE "/dev/kvm"
#define CACHE_FILE "kvm-probe"
#define CACHE_VERSION 1
#define CACHE_MAX 1024
#define ROUNDS 2000000u
#define SETUP_NS (2 * BX_SEC) /* a sound but slow or busy host; an emulating one is quick here */
#define RUN_NS (150 * BX_MS)
#define SLOW_RATIO 20
#define SLOW_FLOOR_NS (2 * BX_MS) /* set against the noise of entering a guest once */

/* What the child says, first after its set-up, then after the run. */
struct report {
    int32_t error; /* -errno */
    char step[28];
    uint64_t host_ns;
    uint64_t guest_ns; /* 0: still to come */
};

/* ---- In the child: system calls only --------------------------------------------------------- */

static uint64_t cpu_time(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * BX_SEC + (uint64_t)ts.tv_nsec;
}

static void say(int out, struct report *report, int error, const char *step)
{
    report->error = error;
    memset(report->step, 0, sizeof(report->step));
    for (size_t i = 0; step[i] && i + 1 < sizeof(report->step); i++) {
        report->step[i] = step[i];
    }
    ssize_t n = write(out, report, sizeof(*report)); /* less than PIPE_BUF: whole */
    (void)n;
}

static void __attribute__((noreturn)) child_main(int kvm, int out)
{
    struct report report = {0};
    struct bx_kvm_loop loop;
    const char *step = "";

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    uint64_t start = cpu_time();
    bx_host_loop_run(ROUNDS);
    report.host_ns = cpu_time() - start;
    int r = bx_kvm_loop_make(kvm, ROUNDS, &loop, &step);
    say(out, &report, r, step);
    if (r == 0) {
        start = cpu_time();
        r = bx_kvm_loop_run(&loop, &step);
        report.guest_ns = cpu_time() - start;
        report.guest_ns += report.guest_ns == 0;
        say(out, &report, r, step);
    }
    _exit(0);
}

/* ---- In the parent --------------------------------------------------------------------------- */

/* 0, or -ETIMEDOUT, -EPIPE (the child is gone), -errno. */
static int read_report(int in, uint64_t deadline, struct report *ret)
{
    struct pollfd p = {.fd = in, .events = POLLIN};
    struct report report;

    for (;;) {
        int r = poll(&p, 1, bx_deadline_left_ms(deadline));
        if (r == 0) {
            return -ETIMEDOUT;
        }
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            return -errno;
        }
        ssize_t n = read(in, &report, sizeof(report));
        if (n != (ssize_t)sizeof(report)) {
            return -EPIPE;
        }
        *ret = report;
        return 0;
    }
}

/* Kills and reaps: the processor time that the child used. */
static uint64_t end_child(int pidfd)
{
    struct rusage used = {0};
    siginfo_t status;

    (void)bx_pidfd_signal(pidfd, SIGKILL);
    while (syscall(SYS_waitid, P_PIDFD, pidfd, &status, WEXITED | __WALL, &used) < 0 &&
           errno == EINTR) {
    }
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * BX_SEC +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

__attribute__((format(printf, 3, 4))) static void judge(struct bx_kvm_verdict *v,
                                                        enum bx_kvm_state state, const char *fmt,
                                                        ...)
{
    va_list ap;

    v->state = state;
    va_start(ap, fmt);
    (void)vsnprintf(v->detail, sizeof(v->detail), fmt, ap);
    va_end(ap);
}

static bool is_slow(uint64_t guest_ns, uint64_t host_ns)
{
    return guest_ns > SLOW_RATIO * host_ns + SLOW_FLOOR_NS;
}

/* The verdict from the two times. */
static void judge_times(struct bx_kvm_verdict *v)
{
    bool slow = is_slow(v->guest_ns, v->host_ns);

    judge(v, slow ? BX_KVM_EMULATED : BX_KVM_USABLE,
          slow ? "guest kernel code is emulated: a loop of %.1f ms takes %.0f ms or more in a guest"
               : "a loop of %.1f ms takes %.1f ms in a guest",
          (double)v->host_ns / BX_MS, (double)v->guest_ns / BX_MS);
}

/* Follows the child. True if the verdict is worth keeping. */
static bool watch_child(int pidfd, int in, struct bx_kvm_verdict *v)
{
    struct report report = {0};
    int r = read_report(in, bx_now_mono() + SETUP_NS, &report);

    if (r == 0 && report.error == 0) {
        r = read_report(in, bx_now_mono() + RUN_NS, &report);
    } else if (r == -ETIMEDOUT) {
        r = -ETIME;
    }
    uint64_t used = end_child(pidfd);
    v->host_ns = report.host_ns;
    v->guest_ns = report.guest_ns;
    report.step[sizeof(report.step) - 1] = '\0';
    if (r == -ETIMEDOUT) {
        v->guest_ns = RUN_NS;
        judge_times(v);
        return is_slow(used, v->host_ns);
    }
    if (r == -ETIME) {
        judge(v, BX_KVM_BROKEN, "making a virtual machine took over %d ms",
              (int)(SETUP_NS / BX_MS));
    } else if (r < 0) {
        judge(v, BX_KVM_BROKEN, "the probe ended early (%s)", strerror(-r));
    } else if (report.error < 0) {
        judge(v, BX_KVM_BROKEN, "%s: %s", report.step, strerror(-report.error));
    } else {
        judge_times(v);
        return true;
    }
    return false;
}

static bool run_probe(int kvm, struct bx_kvm_verdict *v)
{
    int pipefd[2] = {-1, -1}, child = -1;
    bool keep = false;
    int r = bx_pipe(pipefd);

    if (r < 0) {
        judge(v, BX_KVM_BROKEN, "the probe could not be started: %s", strerror(-r));
        return false;
    }
    long pid = syscall(SYS_clone, (unsigned long)CLONE_PIDFD, NULL, &child, NULL, 0UL);
    if (pid == 0) {
        child_main(kvm, pipefd[1]);
    }
    bx_close(&pipefd[1]);
    if (pid < 0) {
        judge(v, BX_KVM_BROKEN, "the probe could not be started: %s", strerror(errno));
    } else {
        keep = watch_child(child, pipefd[0], v);
        bx_close(&child);
    }
    bx_close(&pipefd[0]);
    return keep;
}

/* ---- Cache ----------------------------------------------------------------------------------- */

/* What a verdict is valid for. */
struct key {
    char boot[40];
    uint64_t device;
    uint64_t euid;
};

static bool make_key(int kvm, struct key *ret)
{
    _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    struct stat st;
    ssize_t n = fd >= 0 ? bx_read_full(fd, ret->boot, sizeof(ret->boot) - 1) : -1;

    if (n != 37 || fstat(kvm, &st) < 0) { /* 36 characters and a line end */
        return false;
    }
    ret->boot[36] = '\0';
    ret->device = st.st_rdev;
    ret->euid = geteuid();
    return true;
}

static bool cache_load(int cache_fd, const struct key *key, struct bx_kvm_verdict *v)
{
    _cleanup_json_ json_t *root = NULL;
    uint64_t version = 0, device = 0, euid = 0, guest_ns = 0, host_ns = 0;
    const char *boot = "";

    if (bx_json_read(cache_fd, CACHE_FILE, CACHE_MAX, &root, NULL) < 0 ||
        bx_json_u64(root, "version", false, UINT64_MAX >> 1, &version, NULL) < 0 ||
        bx_json_str(root, "boot", false, &boot, NULL) < 0 ||
        bx_json_u64(root, "device", false, UINT64_MAX >> 1, &device, NULL) < 0 ||
        bx_json_u64(root, "euid", false, UINT32_MAX, &euid, NULL) < 0 ||
        bx_json_u64(root, "guest_ns", false, 10 * BX_SEC, &guest_ns, NULL) < 0 ||
        bx_json_u64(root, "host_ns", false, 10 * BX_SEC, &host_ns, NULL) < 0) {
        return false;
    }
    if (version != CACHE_VERSION || strcmp(boot, key->boot) != 0 || device != key->device ||
        euid != key->euid || guest_ns == 0 || host_ns == 0) {
        return false;
    }
    v->guest_ns = guest_ns;
    v->host_ns = host_ns;
    judge_times(v);
    return true;
}

/* Failing to keep it costs the next user a probe, no more. */
static void cache_store(int cache_fd, const struct key *key, const struct bx_kvm_verdict *v)
{
    char text[CACHE_MAX];
    int n = snprintf(text, sizeof(text),
                     "{\"version\":%d,\"boot\":\"%s\",\"device\":%" PRIu64 ",\"euid\":%" PRIu64
                     ",\"guest_ns\":%" PRIu64 ",\"host_ns\":%" PRIu64 "}\n",
                     CACHE_VERSION, key->boot, key->device, key->euid, v->guest_ns, v->host_ns);

    if (n > 0 && (size_t)n < sizeof(text)) {
        (void)bx_write_file(cache_fd, CACHE_FILE, text, (size_t)n, 0600);
    }
}

static void judge_open(struct bx_kvm_verdict *v, int error)
{
    switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
        judge(v, BX_KVM_ABSENT, DEVICE " does not exist");
        break;
    case EACCES:
    case EPERM:
        judge(v, BX_KVM_DENIED, "no permission to open " DEVICE);
        break;
    default:
        judge(v, BX_KVM_BROKEN, "opening " DEVICE ": %s", strerror(error));
    }
}

void bx_kvm_probe(int cache_fd, bool fresh, struct bx_kvm_verdict *ret)
{
    _cleanup_close_ int kvm = open(DEVICE, O_RDWR | O_CLOEXEC);
    struct key key = {0};

    *ret = (struct bx_kvm_verdict){0};
    if (kvm < 0) {
        judge_open(ret, errno);
        return;
    }
    bool cached = cache_fd >= 0 && make_key(kvm, &key);
    if (cached && !fresh && cache_load(cache_fd, &key, ret)) {
        return;
    }
    if (run_probe(kvm, ret) && cached) {
        cache_store(cache_fd, &key, ret);
    }
}
