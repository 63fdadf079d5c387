/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.h: one virtual machine: memory, vCPUs, devices, and the loop that serves them.
 *
 * Threads: the main thread is the device thread, an event loop with the control socket, the agent's
 * channel, the network and the notifications of all devices but disks; one thread a vCPU; one worker a
 * disk. A vCPU thread does nothing but run the guest and answer register accesses.
 *
 * The end: whoever sees it first says so by bx_vm_end(), which wakes the main thread; that hands on
 * what the guest has still to say, tells the shim, and exits the process. Nothing is taken apart: the
 * kernel does that.
 */
#ifndef BX_VMM_KVM_VM_H
#define BX_VMM_KVM_VM_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/loop.h"
#include "vmm/kvm/dev/balloon.h"
#include "vmm/kvm/dev/blk.h"
#include "vmm/kvm/dev/console.h"
#include "vmm/kvm/dev/net.h"
#include "vmm/kvm/dev/rng.h"
#include "vmm/kvm/dev/serial.h"
#include "vmm/kvm/options.h"
#include "vmm/kvm/trace.h"
#include "vmm/kvm/x86_64/arch.h"

struct bx_vm;

/* Why vCPUs came out of the guest. */
enum bx_exit { BX_EXIT_IO, BX_EXIT_MMIO, BX_EXIT_SIGNAL, BX_EXIT_OTHER, BX_EXITS };

struct bx_vcpu {
    struct bx_vm *vm;
    unsigned id;
    int fd;
    struct kvm_run *run;
    pthread_t thread;
    uint64_t exits[BX_EXITS];
};

struct bx_vm {
    struct bx_vm_options opt;
    int fd; /* KVM's machine */
    struct bx_gmem mem;
    struct bx_loop *loop;
    struct bx_trace trace;

    int pagemap_fd; /* /proc/self/pagemap, opened before the confinement; -1 */
    struct kvm_cpuid2 *cpuid;
    struct bx_vcpu *vcpus;
    size_t run_size;      /* of a struct kvm_run with its page of data */
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    unsigned parked; /* vCPUs that stand still */
    bool pausing;    /* read without the lock as well */

    struct bx_virtio *devices[BX_DEVICES_MAX]; /* in the order of their addresses */
    unsigned ndevices;
    struct bx_serial serial;
    struct bx_console console;
    struct bx_blk disks[BX_KVM_DISKS_MAX];
    struct bx_net net;
    struct bx_virtio rng;
    struct bx_balloon balloon;

    uint32_t ended; /* enum bx_kvm_end; 0: not yet */
    char end_text[256];
};

/* Everything up to the guest's first instruction. */
int bx_vm_create(struct bx_vm *vm, const struct bx_vm_options *opt, boxlite_error **err);
/* Makes the devices and their descriptors (vm_devices.c). */
int bx_vm_add_devices(struct bx_vm *vm, boxlite_error **err);
/* Starts the disks' workers and watches the devices in the loop. */
int bx_vm_start_devices(struct bx_vm *vm, boxlite_error **err);
int bx_vm_start_vcpus(struct bx_vm *vm, boxlite_error **err);
/* Main thread: makes all vCPUs stand still between two instructions, and go on. */
void bx_vm_pause(struct bx_vm *vm);
void bx_vm_resume(struct bx_vm *vm);
/* The machine is over; any thread, the first one counts. */
void bx_vm_end(struct bx_vm *vm, enum bx_kvm_end how, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Main thread: what the guest wrote before its end goes out. */
void bx_vm_drain(struct bx_vm *vm);

/* vcpu.c */
int bx_vcpu_create(struct bx_vm *vm, unsigned id, boxlite_error **err);
int bx_vcpu_start(struct bx_vcpu *v, boxlite_error **err);
void bx_vcpu_kick(struct bx_vcpu *v); /* makes it look at vm->pausing */

/* Accesses of a vCPU to the address space (bus.c, x86_64/pio.c). */
void bx_bus_access(struct bx_vm *vm, uint64_t addr, void *data, unsigned len, bool write);
void bx_pio_access(struct bx_vm *vm, uint16_t port, void *data, unsigned len, bool write);

/* stats.c: a JSON object with counters and the stages of the boot. 0 or -errno. */
int bx_vm_stats(struct bx_vm *vm, struct bx_buf *out);

#endif
