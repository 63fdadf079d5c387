/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcpu.c: a thread that runs one vCPU, and what it does when the guest comes out.
 *
 * Standing still: `pausing` is set, then each thread gets a signal whose handler sets
 * immediate_exit, so that KVM_RUN returns at once even if the signal came just before it. The loop
 * clears immediate_exit, then looks at `pausing`, then enters: whichever way these and the signal
 * interleave, no wish is missed. An access that the guest has begun is finished first (KVM does that
 * on the next entry, which immediate_exit then cuts short), so a vCPU always stands between two
 * instructions and its state is whole.
 *
 * The guest controls the exit reasons and all of struct kvm_run's payload: addresses, ports, lengths,
 * values. A port access of many elements is bounded by the page it lies in, as KVM itself says.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/error.h"
#include "vmm/kvm/jail.h"
#include "vmm/kvm/vm.h"

#define KICK SIGUSR1
#define STACK (64u << 10)

static _Thread_local struct kvm_run *own_run;

static void on_kick(int signo)
{
    (void)signo;
    if (own_run) {
        __atomic_store_n(&own_run->immediate_exit, 1, __ATOMIC_RELAXED);
    }
}

void bx_vcpu_kick(struct bx_vcpu *v)
{
    (void)pthread_kill(v->thread, KICK);
}

int bx_vcpu_create(struct bx_vm *vm, unsigned id, boxlite_error **err)
{
    struct bx_vcpu *v = &vm->vcpus[id];
    int fd = ioctl(vm->fd, KVM_CREATE_VCPU, (unsigned long)id);

    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: making vCPU %u", id);
    }
    *v = (struct bx_vcpu){.vm = vm, .id = id, .fd = fd};
    v->run = mmap(NULL, vm->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (v->run == MAP_FAILED) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: mapping vCPU %u", id);
    }
    return 0;
}

/* ---- exits --------------------------------------------------------------------------------------- */

static void on_io(struct bx_vcpu *v)
{
    struct kvm_run *run = v->run;
    uint8_t *data = (uint8_t *)run + run->io.data_offset;
    uint64_t bytes = (uint64_t)run->io.size * run->io.count;

    v->exits[BX_EXIT_IO]++;
    if (run->io.data_offset > v->vm->run_size || bytes > v->vm->run_size - run->io.data_offset) {
        bx_vm_end(v->vm, BX_KVM_END_FAILED, "KVM: an I/O exit outside of its page");
        return;
    }
    for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size) {
        bx_pio_access(v->vm, run->io.port, data, run->io.size,
                      run->io.direction == KVM_EXIT_IO_OUT);
    }
}

static void on_mmio(struct bx_vcpu *v)
{
    struct kvm_run *run = v->run;
    uint32_t len = run->mmio.len < sizeof(run->mmio.data) ? run->mmio.len : sizeof(run->mmio.data);

    v->exits[BX_EXIT_MMIO]++;
    bx_bus_access(v->vm, run->mmio.phys_addr, run->mmio.data, len, run->mmio.is_write);
}

static void on_system_event(struct bx_vcpu *v)
{
    uint32_t type = v->run->system_event.type;

    bx_vm_end(v->vm,
              type == KVM_SYSTEM_EVENT_SHUTDOWN ? BX_KVM_END_OFF
              : type == KVM_SYSTEM_EVENT_RESET  ? BX_KVM_END_RESET
                                                : BX_KVM_END_CRASH,
              "system event %u", type);
}

static void on_other(struct bx_vcpu *v)
{
    const struct kvm_run *run = v->run;

    v->exits[BX_EXIT_OTHER]++;
    switch (run->exit_reason) {
    case KVM_EXIT_SHUTDOWN:
        bx_vm_end(v->vm, BX_KVM_END_TRIPLE, "triple fault on vCPU %u", v->id);
        break;
    case KVM_EXIT_SYSTEM_EVENT:
        on_system_event(v);
        break;
    case KVM_EXIT_FAIL_ENTRY:
        bx_vm_end(v->vm, BX_KVM_END_FAILED, "KVM: vCPU %u cannot be entered: 0x%llx", v->id,
                  (unsigned long long)run->fail_entry.hardware_entry_failure_reason);
        break;
    case KVM_EXIT_INTERNAL_ERROR:
        bx_vm_end(v->vm, BX_KVM_END_FAILED, "KVM: internal error %u on vCPU %u",
                  run->internal.suberror, v->id);
        break;
    case KVM_EXIT_HLT: /* not with KVM's own interrupt controller */
    case KVM_EXIT_INTR:
    case KVM_EXIT_IRQ_WINDOW_OPEN:
        break;
    default:
        bx_vm_end(v->vm, BX_KVM_END_FAILED, "KVM: unknown exit %u on vCPU %u", run->exit_reason,
                  v->id);
    }
}

/* One stay in the guest. False: it was cut short by a signal. */
static bool run_once(struct bx_vcpu *v)
{
    if (ioctl(v->fd, KVM_RUN, 0) < 0) {
        if (errno == EINTR || errno == EAGAIN) {
            v->exits[BX_EXIT_SIGNAL]++;
        } else {
            bx_vm_end(v->vm, BX_KVM_END_FAILED, "KVM: running vCPU %u: %s", v->id, strerror(errno));
        }
        return false;
    }
    switch (v->run->exit_reason) {
    case KVM_EXIT_IO:
        on_io(v);
        break;
    case KVM_EXIT_MMIO:
        on_mmio(v);
        break;
    default:
        on_other(v);
    }
    return true;
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static bool pausing(const struct bx_vm *vm)
{
    return __atomic_load_n(&vm->pausing, __ATOMIC_ACQUIRE);
}

static bool over(const struct bx_vm *vm)
{
    return __atomic_load_n(&vm->ended, __ATOMIC_ACQUIRE) != 0;
}

/* Finishes what the guest has begun, then stands still. */
static void park(struct bx_vcpu *v)
{
    struct bx_vm *vm = v->vm;

    do {
        __atomic_store_n(&v->run->immediate_exit, 1, __ATOMIC_RELAXED);
    } while (run_once(v) && !over(vm));
    (void)pthread_mutex_lock(&vm->lock);
    vm->parked++;
    (void)pthread_cond_broadcast(&vm->changed);
    while (vm->pausing) {
        (void)pthread_cond_wait(&vm->changed, &vm->lock);
    }
    vm->parked--;
    (void)pthread_cond_broadcast(&vm->changed);
    (void)pthread_mutex_unlock(&vm->lock);
}

static void *run_vcpu(void *data)
{
    struct bx_vcpu *v = data;

    own_run = v->run;
    (void)bx_vmm_jail_thread(BX_JAIL_VCPU);
    bx_trace_reach(&v->vm->trace, BX_STAGE_ENTER);
    while (!over(v->vm)) {
        __atomic_store_n(&v->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
        if (pausing(v->vm)) {
            park(v);
            continue;
        }
        (void)run_once(v);
    }
    return NULL;
}

int bx_vcpu_start(struct bx_vcpu *v, boxlite_error **err)
{
    const struct sigaction action = {.sa_handler = on_kick};
    pthread_attr_t attr;

    (void)sigaction(KICK, &action, NULL);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK);
    int r = pthread_create(&v->thread, &attr, run_vcpu, v);
    (void)pthread_attr_destroy(&attr);
    return r ? bx_fail_errno(err, BOXLITE_E_ENGINE, r, "starting the thread of vCPU %u", v->id) : 0;
}
