/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.c: system calls by kind of thread. The guest's first instruction runs behind these lists.
 *
 * A vCPU's thread enters the guest (the only ioctl it may make is KVM_RUN), rings eventfds and hands
 * on console lines. A disk's thread reads and writes at the places of descriptors that it has. The
 * main thread moves bytes between sockets, answers the shim, saves a snapshot to descriptors that it
 * is given; its ioctls are KVM's alone. None may open a file, make a socket, start a program or a
 * thread, map executable memory, or signal another process. A call outside of a list ends the process
 * at once: nothing here makes one, so it is somebody else's code that does.
 *
 * Before this, launch.c has changed the user, dropped all capabilities, set limits and no_new_privs and
 * handed over nothing but ready descriptors, and confine.c has entered namespaces where that is allowed.
 */
#include "vmm/kvm/jail.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

#define KVM_IOCTLS 0xae00u /* KVMIO in the second byte */

/* What libc needs for locks, thread ends and time. */
#define COMMON                                                                                     \
    __NR_futex, __NR_write, __NR_rt_sigreturn, __NR_rt_sigprocmask, __NR_madvise, __NR_exit,       \
        __NR_exit_group, __NR_clock_gettime, __NR_restart_syscall, __NR_sched_yield

static const int vcpu_calls[] = {COMMON, __NR_sendto, __NR_munmap};
static const int disk_calls[] = {COMMON,         __NR_read,      __NR_preadv, __NR_pwritev,
                                 __NR_fdatasync, __NR_fallocate, __NR_munmap};
static const int main_calls[] = {
    COMMON, __NR_read, __NR_epoll_wait, __NR_epoll_pwait, __NR_recvmsg, __NR_sendmsg, __NR_recvfrom,
    __NR_sendto, __NR_epoll_ctl, __NR_timerfd_settime, __NR_getrandom, __NR_tgkill, __NR_getpid,
    __NR_gettid,
    /* memory of the heap; executable mappings are refused below */
    __NR_mmap, __NR_munmap, __NR_mremap, __NR_brk,
    /* a snapshot, into descriptors that came with the request */
    __NR_pwrite64, __NR_pwritev, __NR_ftruncate, __NR_fstat, __NR_newfstatat, __NR_fsync,
    __NR_fdatasync, __NR_lseek, __NR_close, __NR_pread64, __NR_writev, __NR_mincore};

static const struct list {
    const int *calls;
    size_t n;
    uint32_t ioctl_mask, ioctl_value;
} lists[] = {
    [BX_JAIL_VCPU] = {vcpu_calls, BX_ARRAY_SIZE(vcpu_calls), ~0u, KVM_RUN},
    [BX_JAIL_DISK] = {disk_calls, BX_ARRAY_SIZE(disk_calls), 0, 1}, /* none */
    [BX_JAIL_MAIN] = {main_calls, BX_ARRAY_SIZE(main_calls), 0xff00, KVM_IOCTLS},
};

#define CODE_MAX 128

struct program {
    struct sock_filter code[CODE_MAX];
    unsigned short n;
};

static void add(struct program *p, struct sock_filter step)
{
    if (p->n == CODE_MAX) {
        abort();
    }
    p->code[p->n++] = step;
}

#define STEP(...) add(p, (struct sock_filter)__VA_ARGS__)
#define LOAD(field) STEP(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field)))
#define UNLESS_EQUAL_SKIP(value, n) STEP(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n)))
#define RETURN(what) STEP(BPF_STMT(BPF_RET | BPF_K, (what)))

/* A call whose argument, masked, must have one value. */
static void add_checked(struct program *p, uint32_t call, unsigned arg, uint32_t mask,
                        uint32_t value)
{
    UNLESS_EQUAL_SKIP(call, 5);
    STEP(BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                  (uint32_t)(offsetof(struct seccomp_data, args) + 8 * arg)));
    STEP(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    UNLESS_EQUAL_SKIP(value, 1);
    RETURN(SECCOMP_RET_ALLOW);
    RETURN(SECCOMP_RET_KILL_PROCESS);
}

static void build(struct program *p, const struct list *list)
{
    LOAD(arch);
    UNLESS_EQUAL_SKIP(AUDIT_ARCH_X86_64, 1);
    STEP(BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
    RETURN(SECCOMP_RET_KILL_PROCESS);
    LOAD(nr);
    add_checked(p, __NR_ioctl, 1, list->ioctl_mask, list->ioctl_value);
    add_checked(p, __NR_mmap, 2, PROT_EXEC, 0);
    for (size_t i = 0; i < list->n; i++) {
        UNLESS_EQUAL_SKIP((uint32_t)list->calls[i], 1);
        RETURN(SECCOMP_RET_ALLOW);
    }
    RETURN(SECCOMP_RET_KILL_PROCESS);
}

bool bx_vmm_jail_thread(enum bx_jail_kind kind)
{
    struct program p = {.n = 0};

    build(&p, &lists[kind]);
    const struct sock_fprog prog = {.len = p.n, .filter = p.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0) {
        if (errno != EINVAL && errno != ENOSYS) {
            abort();
        }
        return false;
    }
    return true;
}

#else

/* A sanitizer's runtime needs what the lists deny. */
bool bx_vmm_jail_thread(enum bx_jail_kind kind)
{
    (void)kind;
    return false;
}

#endif
