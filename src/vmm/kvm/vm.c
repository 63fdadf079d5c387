/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.c: makes the machine, stops and ends it; see vm.h.
 *
 * The order of the making is the order of its costs: nothing is registered with KVM while vCPUs exist
 * (each registration then waits for them), and no thread is started before all of it is done.
 */
#include "vmm/kvm/vm.h"

#include <errno.h>
#include <linux/virtio_ids.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/error.h"
#include "vmm/kvm/snapshot.h"

static int create_machine(struct bx_vm *vm, boxlite_error **err)
{
    int size;

    if (ioctl(BX_KVM_FD_KVM, KVM_GET_API_VERSION, 0) != KVM_API_VERSION) {
        return bx_fail(err, BOXLITE_E_ENGINE, "this is not KVM, or of another version");
    }
    size = ioctl(BX_KVM_FD_KVM, KVM_GET_VCPU_MMAP_SIZE, 0);
    if (size < (int)sizeof(struct kvm_run)) {
        return bx_fail(err, BOXLITE_E_ENGINE, "KVM: the size of a vCPU");
    }
    vm->run_size = (size_t)size;
    do {
        vm->fd = ioctl(BX_KVM_FD_KVM, KVM_CREATE_VM, 0);
    } while (vm->fd < 0 && errno == EINTR);
    if (vm->fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: making a machine");
    }
    return bx_arch_vm_init(vm->fd, err);
}

static int add_memory(struct bx_vm *vm, boxlite_error **err)
{
    int r = bx_gmem_init(&vm->mem, vm->opt.memory, vm->opt.restore ? BX_KVM_FD_MEMORY : -1,
                         vm->opt.huge_pages, err);

    for (unsigned i = 0; r == 0 && i < vm->mem.n; i++) {
        const struct bx_gregion *g = &vm->mem.region[i];
        struct kvm_userspace_memory_region region = {.slot = i,
                                                     .guest_phys_addr = g->gpa,
                                                     .memory_size = g->size,
                                                     .userspace_addr = (uintptr_t)g->host};
        if (ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region) < 0) {
            r = bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: setting the memory");
        }
    }
    return r;
}

static int load(struct bx_vm *vm, uint64_t *ret_entry, boxlite_error **err)
{
    const struct bx_boot_image image = {
        .kernel_fd = BX_KVM_FD_KERNEL,
        .initramfs_fd = vm->opt.initramfs ? BX_KVM_FD_INITRAMFS : -1,
        .cmdline = vm->opt.cmdline,
        .cpus = vm->opt.cpus,
        .devices = vm->ndevices,
    };

    return vm->opt.restore ? 0 : bx_arch_load(&vm->mem, &image, ret_entry, err);
}

static int create_vcpus(struct bx_vm *vm, uint64_t entry, boxlite_error **err)
{
    int r = bx_cpuid_get(BX_KVM_FD_KVM, vm->fd, &vm->cpuid, err);

    vm->vcpus = calloc(vm->opt.cpus, sizeof(*vm->vcpus));
    if (r == 0 && !vm->vcpus) {
        return bx_fail_oom(err);
    }
    for (unsigned i = 0; r == 0 && i < vm->opt.cpus; i++) {
        r = bx_vcpu_create(vm, i, err);
        if (r == 0) {
            r = bx_cpuid_set(vm->vcpus[i].fd, vm->cpuid, i, vm->opt.cpus, err);
        }
        if (r == 0 && !vm->opt.restore) {
            r = bx_arch_vcpu_init(vm->vcpus[i].fd, i, entry, err);
        }
    }
    return r;
}

int bx_vm_create(struct bx_vm *vm, const struct bx_vm_options *opt, boxlite_error **err)
{
    uint64_t entry = 0;
    int r;

    vm->opt = *opt;
    (void)pthread_mutex_init(&vm->lock, NULL);
    (void)pthread_cond_init(&vm->changed, NULL);
    if ((r = bx_loop_new(&vm->loop)) < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, r, "making the event loop");
    }
    if ((r = create_machine(vm, err)) < 0) {
        return r;
    }
    bx_trace_reach(&vm->trace, BX_STAGE_VM);
    if ((r = add_memory(vm, err)) < 0) {
        return r;
    }
    bx_trace_reach(&vm->trace, BX_STAGE_MEMORY);
    if ((r = bx_vm_add_devices(vm, err)) < 0) {
        return r;
    }
    bx_trace_reach(&vm->trace, BX_STAGE_DEVICES);
    if ((r = load(vm, &entry, err)) < 0) {
        return r;
    }
    bx_trace_reach(&vm->trace, BX_STAGE_LOADED);
    if ((r = create_vcpus(vm, entry, err)) < 0) {
        return r;
    }
    if (vm->opt.restore && (r = bx_snapshot_load(vm, err)) < 0) {
        return r;
    }
    bx_trace_reach(&vm->trace, BX_STAGE_VCPUS);
    return 0;
}

int bx_vm_start_vcpus(struct bx_vm *vm, boxlite_error **err)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < vm->opt.cpus; i++) {
        r = bx_vcpu_start(&vm->vcpus[i], err);
    }
    return r;
}

void bx_vm_pause(struct bx_vm *vm)
{
    (void)pthread_mutex_lock(&vm->lock);
    __atomic_store_n(&vm->pausing, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < vm->opt.cpus; i++) {
        bx_vcpu_kick(&vm->vcpus[i]);
    }
    while (vm->parked < vm->opt.cpus && !vm->ended) {
        (void)pthread_cond_wait(&vm->changed, &vm->lock);
    }
    (void)pthread_mutex_unlock(&vm->lock);
}

void bx_vm_resume(struct bx_vm *vm)
{
    (void)pthread_mutex_lock(&vm->lock);
    __atomic_store_n(&vm->pausing, false, __ATOMIC_RELEASE);
    (void)pthread_cond_broadcast(&vm->changed);
    while (vm->parked > 0) {
        (void)pthread_cond_wait(&vm->changed, &vm->lock);
    }
    (void)pthread_mutex_unlock(&vm->lock);
}

void bx_vm_end(struct bx_vm *vm, enum bx_kvm_end how, const char *fmt, ...)
{
    va_list ap;

    (void)pthread_mutex_lock(&vm->lock);
    if (!vm->ended) {
        va_start(ap, fmt);
        (void)vsnprintf(vm->end_text, sizeof(vm->end_text), fmt, ap);
        va_end(ap);
        __atomic_store_n(&vm->ended, how, __ATOMIC_RELEASE);
        (void)pthread_cond_broadcast(&vm->changed);
        bx_loop_wakeup(vm->loop);
    }
    (void)pthread_mutex_unlock(&vm->lock);
}

void bx_vm_drain(struct bx_vm *vm)
{
    for (unsigned i = 0; i < vm->ndevices; i++) {
        struct bx_virtio *v = vm->devices[i];

        (void)pthread_mutex_lock(&v->lock);
        if (bx_virtio_live(v) && v->ops->id != VIRTIO_ID_BLOCK) {
            v->ops->work(v);
        }
        (void)pthread_mutex_unlock(&v->lock);
    }
    bx_serial_flush(&vm->serial);
}
