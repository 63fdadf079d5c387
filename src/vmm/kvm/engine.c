/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.c: the life of one boxlite-vmm process, seen from the shim.
 *
 * Only the process' end is the end. What it said before on the control socket explains it, and so do
 * the guest's console and the program's own words: when the process is gone, these are read to the
 * end, then the reason is settled once, and `ended` is the last thing that is done with the machine.
 *
 * The process may have been taken over by its guest: each message is bounded and checked, text is
 * escaped, and all that it can do here is to end its own box.
 *
 * The user may free the machine in any callback. After each of them it is looked at only if `gone`,
 * a flag on the stack of the function that called, says that it still is there.
 */
#include "vmm/kvm/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fd.h"
#include "vmm/console.h"
#include "vmm/kvm/launch.h"
#include "vmm/kvm/proto.h"
#include "vmm/outputs.h"

#define AREA "kvm"

struct bx_vmm {
    struct bx_kvm_proc proc;
    struct bx_source *child, *control;
    struct bx_outputs out;
    bool running, killed, paused;
    bool pausing;   /* the last request was to pause */
    uint32_t end;   /* enum bx_kvm_end; 0: it has said nothing */
    char *end_text; /* escaped */
    const struct bx_vmm_events *events;
    void *data;
    const struct bx_log *log;
    bool *gone;
};

/* ---- the end ------------------------------------------------------------------------------------ */

static void end_process(struct bx_vmm *vm)
{
    if (vm->proc.pidfd >= 0) {
        (void)bx_pidfd_signal(vm->proc.pidfd, SIGKILL);
    }
}

static void vmm_free(struct bx_vmm *vm)
{
    siginfo_t status;

    if (!vm) {
        return;
    }
    if (vm->gone) {
        *vm->gone = true;
    }
    bx_source_free(vm->child);
    if (vm->proc.pidfd >= 0) { /* not reaped by the loop yet */
        end_process(vm);
        while (waitid(P_PIDFD, (id_t)vm->proc.pidfd, &status, WEXITED) < 0 && errno == EINTR) {
        }
    }
    bx_source_free(vm->control);
    bx_outputs_done(&vm->out);
    bx_close(&vm->proc.pidfd);
    bx_close(&vm->proc.control);
    bx_close(&vm->proc.console);
    bx_close(&vm->proc.errors);
    free(vm->end_text);
    free(vm);
}

static void fail_guest(const struct bx_vmm *vm, boxlite_error **err)
{
    _cleanup_free_ char *why = bx_console_panic(&vm->out.console_tail);

    if (why) {
        (void)bx_fail(err, BOXLITE_E_GUEST, "guest kernel panic: %s", why);
    } else {
        (void)bx_fail(err, BOXLITE_E_GUEST, "the guest crashed: %s",
                      vm->end_text ? vm->end_text : "without a word");
    }
    bx_hint(err, "look at the end of the guest's console output");
}

/* The process ended by itself: the reason is what it said, its last line, or how it ended. */
static void fail_exit(const struct bx_vmm *vm, const siginfo_t *status, boxlite_error **err)
{
    _cleanup_free_ char *line = bx_last_line(&vm->out.errors_tail);

    if (vm->end == BX_KVM_END_FAILED) {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "%s", vm->end_text ? vm->end_text : "it gave up");
    } else if (status->si_code != CLD_EXITED) {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "%s was killed by signal %d", BX_KVM_PROGRAM,
                      status->si_status);
        bx_hint(err, status->si_status == SIGKILL
                         ? "something outside of BoxLite killed it; if the host ran out of memory, "
                           "the kernel log says so"
                     : status->si_status == SIGSYS
                         ? "it made a system call that it never makes: its guest may have taken it "
                           "over"
                         : "the engine's own output is in the box's log");
    } else {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "%s ended with status %d%s%s", BX_KVM_PROGRAM,
                      status->si_status, line ? ": " : "", line ? line : "");
        bx_hint(err, "the engine's own output is in the box's log");
    }
}

static enum bx_vmm_end settle(struct bx_vmm *vm, const siginfo_t *status, boxlite_error **err)
{
    _cleanup_free_ char *panic = NULL;

    if (vm->killed) {
        return BX_VMM_KILLED;
    }
    switch (vm->end) {
    case BX_KVM_END_OFF:
        return BX_VMM_OFF;
    case BX_KVM_END_RESET: /* a panic ends in a reset as well */
        panic = bx_console_panic(&vm->out.console_tail);
        if (!panic) {
            return BX_VMM_OFF;
        }
        fail_guest(vm, err);
        return BX_VMM_PANIC;
    case BX_KVM_END_TRIPLE:
    case BX_KVM_END_CRASH:
        fail_guest(vm, err);
        return BX_VMM_PANIC;
    default:
        fail_exit(vm, status, err);
        return BX_VMM_FAILED;
    }
}

/* ---- the control socket -------------------------------------------------------------------------- */

static void on_running(struct bx_vmm *vm)
{
    if (!vm->running) {
        vm->running = true;
        if (vm->events->running) {
            vm->events->running(vm->data);
        }
    }
}

static void on_paused(struct bx_vmm *vm, bool paused)
{
    if (vm->paused != paused) {
        vm->paused = paused;
        if (vm->events->paused) {
            vm->events->paused(vm->data, paused);
        }
    }
}

static void on_stats(struct bx_vmm *vm, const char *text, size_t len)
{
    _cleanup_free_ char *json = vm->events->stats ? strndup(text, len) : NULL;

    if (json) {
        vm->events->stats(vm->data, json);
    }
}

static void on_saved(struct bx_vmm *vm, bool good, const char *text, size_t len)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_free_ char *why = good ? NULL : bx_escape(text, len, 500);

    if (!good) {
        (void)bx_fail(&err, BOXLITE_E_ENGINE, "%s", why ? why : "saving the machine failed");
    }
    if (vm->events->saved) {
        vm->events->saved(vm->data, err);
    }
}

static void on_message(struct bx_vmm *vm, const struct bx_kvm_msg *msg, size_t text_len)
{
    switch (msg->type) {
    case BX_KVM_RUNNING:
        on_running(vm);
        break;
    case BX_KVM_PAUSED:
    case BX_KVM_RESUMED:
        on_paused(vm, msg->type == BX_KVM_PAUSED);
        break;
    case BX_KVM_STATS_TEXT:
        on_stats(vm, msg->text, text_len);
        break;
    case BX_KVM_SNAPSHOT_DONE:
        on_saved(vm, msg->value == 0, msg->text, text_len);
        break;
    case BX_KVM_ENDED:
        if (vm->end == 0) {
            vm->end = msg->value;
            vm->end_text = bx_escape(msg->text, text_len, 500);
        }
        break;
    default:
        bx_debug(vm->log, AREA, "unknown message %u", msg->type);
    }
}

/* Reads one message. False: nothing there. */
static bool read_control(struct bx_vmm *vm)
{
    struct bx_kvm_msg msg;
    ssize_t n = vm->control ? recv(vm->proc.control, &msg, sizeof(msg), MSG_DONTWAIT) : 0;

    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n < (ssize_t)BX_KVM_MSG_HEAD) { /* its end, or nonsense: the process' end follows */
        bx_source_free(steal_ptr(&vm->control));
        if (n > 0) {
            end_process(vm);
        }
        return false;
    }
    on_message(vm, &msg, (size_t)n - BX_KVM_MSG_HEAD);
    return true;
}

static void on_control(void *data, uint32_t events)
{
    (void)read_control(data);
}

static int ask(struct bx_vmm *vm, uint32_t type, boxlite_error **err)
{
    const uint32_t msg[2] = {type, 0};

    if (send(vm->proc.control, msg, sizeof(msg), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "asking the engine");
    }
    return 0;
}

static int change(struct bx_vmm *vm, bool pausing, boxlite_error **err)
{
    if (!vm->running) {
        return bx_fail(err, BOXLITE_E_STATE, "the engine does not run yet");
    }
    int r = pausing == vm->pausing ? 0 : ask(vm, pausing ? BX_KVM_PAUSE : BX_KVM_RESUME, err);
    if (r == 0) {
        vm->pausing = pausing;
    }
    return r;
}

static int vmm_pause(struct bx_vmm *vm, boxlite_error **err)
{
    return change(vm, true, err);
}

static int vmm_resume(struct bx_vmm *vm, boxlite_error **err)
{
    return change(vm, false, err);
}

/* The request goes with its two descriptors. */
static int vmm_snapshot(struct bx_vmm *vm, int state_fd, int memory_fd, boxlite_error **err)
{
    const int fds[2] = {state_fd, memory_fd};
    uint32_t head[2] = {BX_KVM_SNAPSHOT, 0};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(fds))];
    } control = {.room = {0}};
    struct iovec iov = {head, sizeof(head)};
    const struct msghdr msg = {.msg_iov = &iov,
                               .msg_iovlen = 1,
                               .msg_control = &control,
                               .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    if (!vm->paused) {
        return bx_fail(err, BOXLITE_E_STATE, "the machine is not paused");
    }
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    if (sendmsg(vm->proc.control, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "asking the engine");
    }
    return 0;
}

static int vmm_stats(struct bx_vmm *vm, boxlite_error **err)
{
    return ask(vm, BX_KVM_STATS, err);
}

/* ---- the process --------------------------------------------------------------------------------- */

/* Reads all that the dead process left. False if the user freed the machine meanwhile. */
static bool drain(struct bx_vmm *vm)
{
    bool gone = false;
    bool *outer = vm->gone;

    vm->gone = &gone;
    while (!gone && read_control(vm)) {
    }
    while (!gone && bx_outputs_read_errors(&vm->out)) {
    }
    while (!gone && bx_outputs_read_console(&vm->out)) {
    }
    if (!gone) {
        vm->gone = outer;
    } else if (outer) {
        *outer = true;
    }
    return !gone;
}

static void on_child(void *data, const siginfo_t *status)
{
    _cleanup_error_ boxlite_error *err = NULL;
    struct bx_vmm *vm = data;

    bx_source_free(steal_ptr(&vm->child));
    bx_close(&vm->proc.pidfd); /* it is reaped */
    if (!drain(vm)) {
        return;
    }
    enum bx_vmm_end how = settle(vm, status, &err);
    bx_debug(vm->log, AREA, "ended: %s", err ? boxlite_error_message(err) : "as it should");
    vm->events->ended(vm->data, how, err);
}

static void vmm_kill(struct bx_vmm *vm)
{
    vm->killed = vm->killed || (vm->child && vm->end == 0);
    end_process(vm);
}

static pid_t vmm_pid(const struct bx_vmm *vm)
{
    return vm->proc.pid;
}

static void on_console(void *data, const uint8_t *p, size_t len)
{
    const struct bx_vmm *vm = data;

    vm->events->console(vm->data, p, len);
}

static int watch(struct bx_loop *loop, struct bx_vmm *vm, int copy_fd, boxlite_error **err)
{
    vm->out.on_console = vm->events->console ? on_console : NULL;
    vm->out.data = vm;
    int r = bx_loop_add_child(loop, vm->proc.pidfd, on_child, vm, &vm->child);
    if (r == 0) {
        r = bx_loop_add_fd(loop, vm->proc.control, EPOLLIN, on_control, vm, &vm->control);
    }
    if (r == 0) {
        r = bx_outputs_start(&vm->out, loop, steal_fd(&vm->proc.console),
                             steal_fd(&vm->proc.errors), copy_fd);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "watching the engine") : 0;
}

static int start(struct bx_loop *loop, const struct bx_vmm_config *config,
                 const struct bx_vmm_events *events, void *data, struct bx_vmm **ret,
                 boxlite_error **err)
{
    struct bx_vmm *vm = calloc(1, sizeof(*vm));

    if (!vm) {
        return bx_fail_oom(err);
    }
    *vm = (struct bx_vmm){
        .proc = {.pidfd = -1, .control = -1, .console = -1, .errors = -1},
        .events = events,
        .data = data,
        .log = config->log,
    };
    bx_outputs_init(&vm->out);
    int r = bx_kvm_launch(config, &vm->proc, err);
    if (r == 0) {
        r = watch(loop, vm, config->console_fd, err);
    }
    if (r < 0) {
        vmm_free(vm);
        return r;
    }
    *ret = vm;
    return 0;
}

const struct bx_vmm_ops bx_kvm_ops = {
    .name = "kvm",
    .start = start,
    .pause = vmm_pause,
    .resume = vmm_resume,
    .snapshot = vmm_snapshot,
    .stats = vmm_stats,
    .kill = vmm_kill,
    .pid = vmm_pid,
    .free = vmm_free,
};
