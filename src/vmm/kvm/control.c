/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c: what the shim asks for, in the device thread, one after the other.
 *
 * The shim is trusted; a message that makes no sense (an older or newer shim's) is ignored. When the
 * socket ends, the machine has no owner any more and ends as well.
 */
#include "vmm/kvm/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "vmm/kvm/snapshot.h"

void bx_control_tell(uint32_t type, uint32_t value, const char *text)
{
    const struct {
        uint32_t type, value;
    } head = {type, value};
    size_t len = strnlen(text, BX_KVM_TEXT_MAX);
    struct iovec iov[2] = {{(void *)&head, sizeof(head)}, {(void *)text, len}};
    const struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    while (sendmsg(BX_KVM_FD_CONTROL, &msg, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

static void on_pause(struct bx_vm *vm, uint32_t value)
{
    if (!vm->pausing) {
        bx_vm_pause(vm);
    }
    bx_control_tell(BX_KVM_PAUSED, 0, "");
}

static void on_resume(struct bx_vm *vm, uint32_t value)
{
    if (vm->pausing) {
        bx_vm_resume(vm);
    }
    bx_control_tell(BX_KVM_RESUMED, 0, "");
}

static void on_stats(struct bx_vm *vm, uint32_t value)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(BX_KVM_TEXT_MAX);

    bx_control_tell(BX_KVM_STATS_TEXT, 0, bx_vm_stats(vm, &out) == 0 ? bx_buf_str(&out) : "{}");
}

static void on_balloon(struct bx_vm *vm, uint32_t value)
{
    bx_balloon_resize(&vm->balloon, (uint64_t)value << 20);
}

/* fds: state, memory; the message without them is none. */
static void on_snapshot(struct bx_vm *vm, const int *fds)
{
    _cleanup_error_ boxlite_error *err = NULL;

    if (fds[0] < 0 || fds[1] < 0 || !vm->pausing) {
        bx_control_tell(BX_KVM_SNAPSHOT_DONE, 1, "the machine does not stand still");
    } else if (bx_snapshot_save(vm, fds[0], fds[1], &err) < 0) {
        bx_control_tell(BX_KVM_SNAPSHOT_DONE, 1, boxlite_error_message(err));
    } else {
        bx_control_tell(BX_KVM_SNAPSHOT_DONE, 0, "");
    }
}

static void on_message(struct bx_vm *vm, uint32_t type, uint32_t value, const int *fds)
{
    static void (*const fns[])(struct bx_vm * vm, uint32_t value) = {
        [BX_KVM_PAUSE] = on_pause,
        [BX_KVM_RESUME] = on_resume,
        [BX_KVM_STATS] = on_stats,
        [BX_KVM_BALLOON] = on_balloon,
    };

    if (type == BX_KVM_SNAPSHOT) {
        on_snapshot(vm, fds);
    } else if (type < BX_ARRAY_SIZE(fns) && fns[type]) {
        fns[type](vm, value);
    }
}

/* A message and the descriptors that came with it: two, or none (-1). */
static ssize_t receive(void *head, size_t size, int fds[2])
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov = {head, size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(BX_KVM_FD_CONTROL, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

    fds[0] = fds[1] = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(2 * sizeof(int))) {
        memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
    }
    return n;
}

static void on_control(void *data, uint32_t events)
{
    struct bx_vm *vm = data;
    struct {
        uint32_t type, value;
    } head = {0, 0};
    int fds[2];
    ssize_t n = receive(&head, sizeof(head), fds);

    if (n == (ssize_t)sizeof(head)) {
        on_message(vm, head.type, head.value, fds);
        bx_close(&fds[0]);
        bx_close(&fds[1]);
    } else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        bx_vm_end(vm, BX_KVM_END_FAILED, "the supervisor is gone");
    }
}

int bx_control_start(struct bx_vm *vm, boxlite_error **err)
{
    int r = bx_loop_add_fd(vm->loop, BX_KVM_FD_CONTROL, EPOLLIN, on_control, vm, NULL);

    return r < 0 ? bx_fail_errno(err, BOXLITE_E_ENGINE, r, "watching the control socket") : 0;
}
