/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qemu.c: the life of one QEMU process.
 *
 * Four sources feed it: QMP, the guest's console, the program's own output, and the process itself.
 * Only the process' end is the end: what QMP said before only explains it. So when the child is
 * gone, the other three are read to their last byte, then the reason is settled once, in
 * settle(), and `ended` is the last thing that is done with the machine.
 *
 * The user may free the machine in any callback. After each of them it is looked at only if `gone`,
 * a flag on the stack of the function that called, says that it still is there.
 *
 * The guest must never wait for us: its console is read whenever there is something, and only a
 * tail is kept.
 */
#include "vmm/qemu/qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "vmm/console.h"
#include "vmm/outputs.h"
#include "vmm/qemu/launch.h"
#include "vmm/qemu/qmp.h"

#define AREA "qemu"

/* What QMP told about the guest. */
enum told { TOLD_NOTHING, TOLD_SHUTDOWN, TOLD_RESET, TOLD_PANIC, TOLD_SIGNAL };

struct bx_vmm {
    struct bx_qemu_proc proc;
    struct bx_source *child;
    struct bx_qmp *qmp;
    struct bx_outputs out;
    bool running, killed, paused;
    bool pausing;         /* the last command was stop */
    unsigned stops_asked; /* stop commands whose event is still to come */
    enum told told;
    boxlite_error *failure; /* why we ended it */
    const struct bx_vmm_events *events;
    void *data;
    const struct bx_log *log;
    bool *gone;
};

/* ---- The end ------------------------------------------------------------------------------ */

static void end_process(struct bx_vmm *vm)
{
    if (vm->proc.pidfd >= 0) {
        (void)bx_pidfd_signal(vm->proc.pidfd, SIGKILL);
    }
}

static void vmm_free(struct bx_vmm *vm)
{
    if (!vm) {
        return;
    }
    if (vm->gone) {
        *vm->gone = true;
    }
    bx_source_free(vm->child);
    if (vm->proc.pidfd >= 0) { /* not reaped by the loop yet */
        siginfo_t status;

        end_process(vm);
        while (waitid(P_PIDFD, (id_t)vm->proc.pidfd, &status, WEXITED) < 0 && errno == EINTR) {
        }
    }
    bx_qmp_free(vm->qmp);
    bx_outputs_done(&vm->out);
    bx_close(&vm->proc.pidfd);
    bx_close(&vm->proc.console);
    bx_close(&vm->proc.errors);
    boxlite_error_free(vm->failure);
    free(vm);
}

/* Ends a QEMU that does what it must not do. The first reason counts; takes error. */
static void give_up(struct bx_vmm *vm, boxlite_error *error)
{
    if (vm->failure || vm->killed) {
        boxlite_error_free(error);
        return;
    }
    vm->failure = error;
    end_process(vm);
}

static void fail_panic(const struct bx_vmm *vm, boxlite_error **err)
{
    _cleanup_free_ char *why = bx_console_panic(&vm->out.console_tail);

    (void)bx_fail(err, BOXLITE_E_GUEST, why ? "guest kernel panic: %s" : "the guest %s",
                  why ? why : "reset itself without a word on its console");
    bx_hint(err, "look at the end of the guest's console output");
}

/* QEMU ended by itself: the reason is in its last line, or in how it ended. */
static void fail_exit(const struct bx_vmm *vm, const siginfo_t *status, boxlite_error **err)
{
    _cleanup_free_ char *line = bx_last_line(&vm->out.errors_tail);

    if (status->si_code != CLD_EXITED) {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "qemu was killed by signal %d", status->si_status);
        bx_hint(err, status->si_status == SIGKILL
                         ? "something outside of BoxLite killed it; if the host ran out of memory, "
                           "the kernel log says so"
                         : "the engine's own output is in the box's log");
    } else if (vm->told == TOLD_SIGNAL) {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "qemu was told to end by a signal from outside");
    } else {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "qemu %s with status %d%s%s",
                      vm->running ? "ended" : "did not start: it ended", status->si_status,
                      line ? ": " : "", line ? line : "");
        bx_hint(err, vm->running ? "the engine's own output is in the box's log"
                                 : "QEMU 7.2 or later with the microvm machine is needed");
    }
}

static enum bx_vmm_end settle(struct bx_vmm *vm, const siginfo_t *status, boxlite_error **err)
{
    if (vm->killed) {
        return BX_VMM_KILLED;
    }
    if (vm->failure) {
        *err = steal_ptr(&vm->failure);
        return BX_VMM_FAILED;
    }
    switch (vm->told) {
    case TOLD_SHUTDOWN:
        return BX_VMM_OFF;
    case TOLD_RESET:
        if (bx_console_says_reboot(&vm->out.console_tail)) {
            return BX_VMM_OFF;
        }
        fail_panic(vm, err);
        return BX_VMM_PANIC;
    case TOLD_PANIC:
        fail_panic(vm, err);
        return BX_VMM_PANIC;
    case TOLD_NOTHING:
    case TOLD_SIGNAL:
        break;
    }
    fail_exit(vm, status, err);
    return BX_VMM_FAILED;
}

/* ---- QMP ------------------------------------------------------------------------------------- */

static void on_shutdown(struct bx_vmm *vm, const json_t *value)
{
    static const struct {
        const char *reason;
        enum told told;
    } reasons[] = {
        {"guest-shutdown", TOLD_SHUTDOWN},
        {"guest-reset", TOLD_RESET},
        {"guest-panic", TOLD_PANIC},
        {"host-signal", TOLD_SIGNAL},
    };
    const char *reason = NULL;

    (void)bx_json_str(value, "reason", true, &reason, NULL);
    for (size_t i = 0; reason && i < BX_ARRAY_SIZE(reasons); i++) {
        if (bx_streq(reason, reasons[i].reason)) {
            vm->told = reasons[i].told;
        }
    }
}

static void on_resume(struct bx_vmm *vm)
{
    if (!vm->running) { /* it starts */
        vm->running = true;
        if (vm->events->running) {
            vm->events->running(vm->data);
        }
    } else if (vm->paused) {
        vm->paused = false;
        if (vm->events->paused) {
            vm->events->paused(vm->data, false);
        }
    }
}

/* QEMU stops the guest by itself when the virtual processor is in a state that it cannot run. */
static void on_stop(struct bx_vmm *vm)
{
    boxlite_error *err = NULL;

    if (vm->stops_asked > 0) {
        vm->stops_asked--;
        vm->paused = true;
        if (vm->events->paused) {
            vm->events->paused(vm->data, true);
        }
    } else if (vm->told == TOLD_NOTHING) {
        (void)bx_fail(&err, BOXLITE_E_ENGINE, "qemu stopped the guest by itself: internal error");
        give_up(vm, err);
    }
}

static void on_qmp_event(void *data, const char *name, const json_t *value)
{
    struct bx_vmm *vm = data;

    bx_debug(vm->log, AREA, "event %.64s", name);
    if (bx_streq(name, "SHUTDOWN")) {
        on_shutdown(vm, value);
    } else if (bx_streq(name, "GUEST_PANICKED")) {
        vm->told = TOLD_PANIC;
    } else if (bx_streq(name, "STOP")) {
        on_stop(vm);
    } else if (bx_streq(name, "RESUME")) {
        on_resume(vm);
    }
}

static void on_qmp_closed(void *data, const boxlite_error *error)
{
    boxlite_error *err = NULL;

    if (error) {
        (void)bx_fail_copy(&err, BOXLITE_E_ENGINE, 0, boxlite_error_message(error), NULL);
        give_up(data, err);
    }
}

static void on_reply(void *data, const boxlite_error *error)
{
    on_qmp_closed(data, error); /* stop and cont do not fail in a QEMU that is sound */
}

static int command(struct bx_vmm *vm, bool pausing, boxlite_error **err)
{
    int r = bx_qmp_command(vm->qmp, pausing ? "stop" : "cont", on_reply, err);

    if (r == 0) {
        vm->pausing = pausing;
        vm->stops_asked += pausing;
    }
    return r;
}

/* The guest's first instruction, now that its end will be told. */
static void on_qmp_ready(void *data)
{
    boxlite_error *err = NULL;

    if (command(data, false, &err) < 0) {
        give_up(data, err);
    }
}

/* stop and cont are sent in turn, so that each stop has its event. */
static int change(struct bx_vmm *vm, bool pausing, boxlite_error **err)
{
    if (!vm->running) {
        return bx_fail(err, BOXLITE_E_STATE, "the engine does not run yet");
    }
    return pausing == vm->pausing ? 0 : command(vm, pausing, err);
}

static int vmm_pause(struct bx_vmm *vm, boxlite_error **err)
{
    return change(vm, true, err);
}

static int vmm_resume(struct bx_vmm *vm, boxlite_error **err)
{
    return change(vm, false, err);
}

/* ---- Process --------------------------------------------------------------------------------- */

/* Reads all that the dead process left. False if the user freed the machine meanwhile. */
static bool drain(struct bx_vmm *vm)
{
    bool gone = false;
    bool *outer = vm->gone;

    vm->gone = &gone;
    bx_qmp_drain(vm->qmp);
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
    vm->killed = vm->killed || (vm->child && vm->told == TOLD_NOTHING && !vm->failure);
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
    static const struct bx_qmp_events qmp_events = {
        .ready = on_qmp_ready, .event = on_qmp_event, .closed = on_qmp_closed};
    int r = bx_loop_add_child(loop, vm->proc.pidfd, on_child, vm, &vm->child);

    if (r == 0) {
        vm->out.on_console = vm->events->console ? on_console : NULL;
        vm->out.data = vm;
        r = bx_outputs_start(&vm->out, loop, steal_fd(&vm->proc.console),
                             steal_fd(&vm->proc.errors), copy_fd);
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "watching the engine");
    }
    return bx_qmp_new(loop, steal_fd(&vm->proc.qmp), &qmp_events, vm, &vm->qmp, err);
}

static int start(enum bx_qemu_accel accel, struct bx_loop *loop, const struct bx_vmm_config *config,
                 const struct bx_vmm_events *events, void *data, struct bx_vmm **ret,
                 boxlite_error **err)
{
    struct bx_vmm *vm = calloc(1, sizeof(*vm));

    if (!vm) {
        return bx_fail_oom(err);
    }
    *vm = (struct bx_vmm){
        .proc = {.pidfd = -1, .qmp = -1, .console = -1, .errors = -1},
        .events = events,
        .data = data,
        .log = config->log,
    };
    bx_outputs_init(&vm->out);
    int r = bx_qemu_launch(config, accel, &vm->proc, err);
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

static int start_tcg(struct bx_loop *loop, const struct bx_vmm_config *config,
                     const struct bx_vmm_events *events, void *data, struct bx_vmm **ret,
                     boxlite_error **err)
{
    return start(BX_QEMU_TCG, loop, config, events, data, ret, err);
}

static int start_kvm(struct bx_loop *loop, const struct bx_vmm_config *config,
                     const struct bx_vmm_events *events, void *data, struct bx_vmm **ret,
                     boxlite_error **err)
{
    return start(BX_QEMU_KVM, loop, config, events, data, ret, err);
}

#define QEMU_OPS(NAME, START)                                                                      \
    {                                                                                              \
        .name = NAME, .start = START, .pause = vmm_pause, .resume = vmm_resume, .kill = vmm_kill,  \
        .pid = vmm_pid, .free = vmm_free,                                                          \
    }

const struct bx_vmm_ops bx_qemu_tcg_ops = QEMU_OPS("qemu-tcg", start_tcg);
const struct bx_vmm_ops bx_qemu_kvm_ops = QEMU_OPS("qemu-kvm", start_kvm);
