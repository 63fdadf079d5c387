/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvm_loop.c: a virtual machine that starts in long mode at privilege level 0 and counts down.
 *
 * Why kernel mode: some nested hosts run a guest's user code directly, but interpret its kernel
 * code. A loop in user mode, or in real mode, would not notice. The state is set by KVM_SET_SREGS,
 * no boot code runs: one 2 MiB page maps the guest's memory onto itself, and HLT, which leaves
 * KVM_RUN while there is no interrupt controller, ends the loop.
 */
#include "vmm/kvm_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#if defined(__x86_64__)
enum {
    PML4 = 0x1000,
    PDPT = 0x2000,
    PD = 0x3000,
    CODE = 0x4000,
    MEMORY_SIZE = 0x8000,
};

#define PTE_P_W 0x3 /* present, writable */
#define PTE_LARGE 0x80
#define CR0_PE_ET_NE_WP_PG 0x80010031
#define CR4_PAE 0x20
#define EFER_LME_LMA 0x500

static void put64(uint8_t *memory, size_t at, uint64_t v)
{
    memcpy(memory + at, &v, sizeof(v));
}

static void fill_memory(uint8_t *memory, uint32_t rounds)
{
    uint8_t code[] = {
        0xb9, 0,    0,    0, 0, /* mov $rounds, %ecx */
        0x48, 0xff, 0xc9,       /* 1: dec %rcx */
        0x75, 0xfb,             /* jnz 1b */
        0xf4,                   /* hlt */
    };

    memcpy(code + 1, &rounds, sizeof(rounds));
    memcpy(memory + CODE, code, sizeof(code));
    put64(memory, PML4, PDPT | PTE_P_W);
    put64(memory, PDPT, PD | PTE_P_W);
    put64(memory, PD, 0 | PTE_P_W | PTE_LARGE);
}

static int set_state(int vcpu)
{
    const struct kvm_segment code = {
        .limit = 0xffffffff, .selector = 8, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1};
    const struct kvm_segment data = {
        .limit = 0xffffffff, .selector = 16, .type = 3, .present = 1, .s = 1, .db = 1, .g = 1};
    const struct kvm_regs regs = {.rip = CODE, .rflags = 2, .rsp = MEMORY_SIZE};
    struct kvm_sregs s;

    if (ioctl(vcpu, KVM_GET_SREGS, &s) < 0) {
        return -errno;
    }
    s.cs = code;
    s.ds = s.es = s.fs = s.gs = s.ss = data;
    s.cr0 = CR0_PE_ET_NE_WP_PG;
    s.cr3 = PML4;
    s.cr4 = CR4_PAE;
    s.efer = EFER_LME_LMA;
    if (ioctl(vcpu, KVM_SET_SREGS, &s) < 0 || ioctl(vcpu, KVM_SET_REGS, &regs) < 0) {
        return -errno;
    }
    return 0;
}

static int map_memory(int vm, struct bx_kvm_loop *loop, uint32_t rounds)
{
    loop->memory =
        mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (loop->memory == MAP_FAILED) {
        return -errno;
    }
    fill_memory(loop->memory, rounds);
    const struct kvm_userspace_memory_region region = {.memory_size = MEMORY_SIZE,
                                                       .userspace_addr = (uintptr_t)loop->memory};
    return ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0 ? -errno : 0;
}

int bx_kvm_loop_make(int kvm, uint32_t rounds, struct bx_kvm_loop *ret, const char **ret_step)
{
    struct bx_kvm_loop loop = {.vcpu = -1};

    *ret_step = "KVM_GET_API_VERSION";
    if (ioctl(kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION) {
        return -ENOTTY;
    }
    *ret_step = "KVM_CREATE_VM";
    int vm = ioctl(kvm, KVM_CREATE_VM, 0);
    if (vm < 0) {
        return -errno;
    }
    *ret_step = "KVM_SET_USER_MEMORY_REGION";
    int r = map_memory(vm, &loop, rounds);
    if (r < 0) {
        return r;
    }
    *ret_step = "KVM_CREATE_VCPU";
    loop.vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
    if (loop.vcpu < 0) {
        return -errno;
    }
    *ret_step = "mapping the vCPU";
    int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    if (size < (int)sizeof(struct kvm_run)) {
        return -EIO;
    }
    loop.run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, loop.vcpu, 0);
    if (loop.run == MAP_FAILED) {
        return -errno;
    }
    *ret_step = "KVM_SET_SREGS";
    r = set_state(loop.vcpu);
    if (r == 0) {
        *ret = loop;
    }
    return r;
}

int bx_kvm_loop_run(const struct bx_kvm_loop *loop, const char **ret_step)
{
    const struct kvm_run *run = loop->run;

    *ret_step = "KVM_RUN";
    while (ioctl(loop->vcpu, KVM_RUN, 0) < 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return run->exit_reason == KVM_EXIT_HLT ? 0 : -EPROTO;
}

void bx_host_loop_run(uint32_t rounds)
{
    uint64_t n = rounds;

    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(n)::"cc");
}
#else
int bx_kvm_loop_make(int kvm, uint32_t rounds, struct bx_kvm_loop *ret, const char **ret_step)
{
    *ret_step = "a probe for this architecture";
    return -ENOSYS;
}

int bx_kvm_loop_run(const struct bx_kvm_loop *loop, const char **ret_step)
{
    *ret_step = "a probe for this architecture";
    return -ENOSYS;
}

void bx_host_loop_run(uint32_t rounds)
{
}
#endif
