/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c: boxlite-vmm: one virtual machine on KVM, from descriptors that its starter made ready.
 *
 * A newcomer reads in this order: proto.h (what comes in), vm.h (threads and their rules), vm.c (how
 * a machine is made), x86_64/boot.c (how Linux starts in it), vcpu.c (how it runs), virtqueue.h and
 * virtio.h (how devices talk), dev/ (the devices), jail.c (what all of this may do).
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/timeutil.h"
#include "vmm/kvm/confine.h"
#include "vmm/kvm/control.h"
#include "vmm/kvm/jail.h"

static struct bx_vm machine; /* static: a jump out of main() never makes it invalid */

static _Noreturn void fail(const boxlite_error *error)
{
    bx_control_tell(BX_KVM_ENDED, BX_KVM_END_FAILED, boxlite_error_message(error));
    (void)dprintf(STDERR_FILENO, "%s: %s\n", BX_KVM_PROGRAM, boxlite_error_message(error));
    _exit(1);
}

static void print_trace(const struct bx_trace *t)
{
    for (unsigned i = 0; i < BX_STAGES; i++) {
        (void)dprintf(STDERR_FILENO, "trace-boot: %-8s %8llu us\n", bx_trace_name(i),
                      (unsigned long long)bx_trace_us(t, i));
    }
}

static void print_stage(const char *name, bool on)
{
    (void)dprintf(STDOUT_FILENO, "%c %s\n", on ? '+' : '-', name);
}

/* For `boxlite doctor`: goes through the stages of confinement and tells of them, no more. */
static int tell_stages(void)
{
    bx_confine(print_stage);
    print_stage("system calls", bx_vmm_jail_thread(BX_JAIL_MAIN));
    return 0;
}

static int start(struct bx_vm *vm, boxlite_error **err)
{
    int r = bx_vm_start_devices(vm, err);

    if (r == 0) {
        r = bx_control_start(vm, err);
    }
    if (r == 0) {
        bx_control_tell(BX_KVM_RUNNING, 0, "");
        r = bx_vm_start_vcpus(vm, err);
    }
    return r;
}

int main(int argc, char **argv)
{
    struct bx_vm *vm = &machine;
    struct bx_vm_options opt;
    boxlite_error *err = NULL;

    vm->trace.start = bx_now_mono();
    bx_trace_reach(&vm->trace, BX_STAGE_EXEC);
    if (bx_vm_options_parse(argc, argv, &opt, &err) < 0) {
        (void)dprintf(STDERR_FILENO, "%s: %s\n", BX_KVM_PROGRAM, boxlite_error_message(err));
        return 2;
    }
    if (opt.started > 0 && opt.started < vm->trace.start) {
        vm->trace.start = opt.started;
    }
    if (opt.tell_stages) {
        return tell_stages();
    }
    vm->pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC); /* its own, for snapshots */
    bx_confine(NULL);
    bx_trace_reach(&vm->trace, BX_STAGE_CONFINED);
    if (bx_vm_create(vm, &opt, &err) < 0 || start(vm, &err) < 0) {
        fail(err);
    }
    (void)bx_vmm_jail_thread(BX_JAIL_MAIN);
    while (!__atomic_load_n(&vm->ended, __ATOMIC_ACQUIRE)) {
        (void)bx_loop_dispatch(vm->loop, -1);
    }
    bx_vm_drain(vm);
    if (opt.trace_boot) {
        print_trace(&vm->trace);
    }
    bx_control_tell(BX_KVM_ENDED, vm->ended, vm->end_text);
    _exit(0);
}
