/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.c: which devices a machine has, in which order, and how the host wakes them.
 *
 * The order is that of their addresses, which is the order in which Linux finds them: so the disks
 * become vda, vdb, … as they were given. Each device has one ioeventfd (on its QueueNotify register,
 * whatever the queue: a look at an idle queue is cheaper than one more registration) and one irqfd.
 */
#include <errno.h>
#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include "base/error.h"
#include "base/fd.h"
#include "vmm/kvm/jail.h"
#include "vmm/kvm/vm.h"

#define STACK (64u << 10)
#define SOCKET_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

static int add_irq(int vm_fd, unsigned line, int *ret, boxlite_error **err)
{
    struct kvm_irqfd irq = {.gsi = line};
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    irq.fd = (uint32_t)fd;
    if (fd < 0 || ioctl(vm_fd, KVM_IRQFD, &irq) < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: interrupt line %u", line);
    }
    *ret = fd;
    return 0;
}

/* A disk's worker sleeps in a read of its notifications; the others are watched by the loop. */
static int add_device(struct bx_vm *vm, struct bx_virtio *v, boxlite_error **err)
{
    unsigned i = vm->ndevices++;
    bool worker = v->ops->id == VIRTIO_ID_BLOCK;
    struct kvm_ioeventfd io = {
        .addr = BX_MMIO_BASE + (uint64_t)i * BX_VIRTIO_SPAN + BX_VIRTIO_NOTIFY, .len = 4};

    vm->devices[i] = v;
    v->notify_fd = eventfd(0, EFD_CLOEXEC | (worker ? 0 : EFD_NONBLOCK));
    io.fd = v->notify_fd;
    if (v->notify_fd < 0 || ioctl(vm->fd, KVM_IOEVENTFD, &io) < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: notifications of %s",
                             v->ops->name);
    }
    return add_irq(vm->fd, BX_IRQ_BASE + i, &v->irq_fd, err);
}

static void on_first_byte(void *data)
{
    bx_trace_reach(data, BX_STAGE_HELLO);
}

int bx_vm_add_devices(struct bx_vm *vm, boxlite_error **err)
{
    int r;

    bx_serial_init(&vm->serial, BX_KVM_FD_CONSOLE);
    if ((r = add_irq(vm->fd, BX_SERIAL_IRQ, &vm->serial.irq_fd, err)) < 0) {
        return r;
    }
    bx_console_init(&vm->console, &vm->mem, BX_KVM_FD_AGENT, BX_KVM_AGENT_PORT);
    vm->console.on_first_byte = on_first_byte;
    vm->console.data = &vm->trace;
    if ((r = add_device(vm, &vm->console.v, err)) < 0) {
        return r;
    }
    for (unsigned i = 0; i < vm->opt.ndisks; i++) {
        struct bx_blk *b = &vm->disks[i];

        r = bx_blk_init(b, &vm->mem, BX_KVM_FD_DISK0 + (int)i, vm->opt.disk_read_only[i], err);
        if (r < 0 || (r = add_device(vm, &b->v, err)) < 0) {
            return r;
        }
    }
    if (vm->opt.net) {
        r = bx_net_init(&vm->net, &vm->mem, BX_KVM_FD_NET, vm->opt.mac, err);
        if (r < 0 || (r = add_device(vm, &vm->net.v, err)) < 0) {
            return r;
        }
    }
    bx_rng_init(&vm->rng, &vm->mem);
    bx_balloon_init(&vm->balloon, &vm->mem);
    r = add_device(vm, &vm->rng, err);
    return r < 0 ? r : add_device(vm, &vm->balloon.v, err);
}

/* ---- who wakes them ------------------------------------------------------------------------------ */

static void on_notify(void *data, uint32_t events)
{
    (void)events;
    bx_virtio_notified(data);
}

static void on_agent(void *data, uint32_t events)
{
    bx_console_socket(data, events);
}

static void on_net(void *data, uint32_t events)
{
    bx_net_socket(data, events);
}

static void *run_disk(void *data)
{
    (void)bx_vmm_jail_thread(BX_JAIL_DISK);
    return bx_blk_worker(data);
}

static int start_disk(struct bx_blk *b, boxlite_error **err)
{
    pthread_attr_t attr;
    pthread_t thread;

    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int r = pthread_create(&thread, &attr, run_disk, b);
    (void)pthread_attr_destroy(&attr);
    return r ? bx_fail_errno(err, BOXLITE_E_ENGINE, r, "starting a disk's thread") : 0;
}

static int watch(struct bx_vm *vm, int fd, uint32_t events, bx_fd_fn fn, void *data,
                 boxlite_error **err)
{
    int r = bx_loop_add_fd(vm->loop, fd, events, fn, data, NULL);

    return r < 0 ? bx_fail_errno(err, BOXLITE_E_ENGINE, r, "watching a device") : 0;
}

int bx_vm_start_devices(struct bx_vm *vm, boxlite_error **err)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < vm->ndevices; i++) {
        struct bx_virtio *v = vm->devices[i];

        r = v->ops->id == VIRTIO_ID_BLOCK ? start_disk((struct bx_blk *)v, err)
                                          : watch(vm, v->notify_fd, EPOLLIN, on_notify, v, err);
    }
    if (r == 0) {
        r = watch(vm, BX_KVM_FD_AGENT, SOCKET_EVENTS, on_agent, &vm->console, err);
    }
    if (r == 0 && vm->opt.net) {
        r = watch(vm, BX_KVM_FD_NET, SOCKET_EVENTS, on_net, &vm->net, err);
    }
    return r;
}
