/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvm_loop.h: the smallest virtual machine: one vCPU that counts down in 64-bit kernel mode.
 */
#ifndef BX_VMM_KVM_LOOP_H
#define BX_VMM_KVM_LOOP_H

#include <stdint.h>

struct bx_kvm_loop {
    int vcpu;
    void *memory;
    void *run; /* struct kvm_run, mapped */
};

/* Both are made for a forked child that ends soon: only system calls, nothing is freed on failure.
 * 0 or -errno; *ret_step names the step that failed. */
int bx_kvm_loop_make(int kvm, uint32_t rounds, struct bx_kvm_loop *ret, const char **ret_step);
int bx_kvm_loop_run(const struct bx_kvm_loop *loop, const char **ret_step);
/* The same loop here. */
void bx_host_loop_run(uint32_t rounds);

#endif
