/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.h: the processor's side of a snapshot; as arch.h, for each architecture.
 */
#ifndef BX_VMM_KVM_X86_64_SAVE_H
#define BX_VMM_KVM_X86_64_SAVE_H

#include "vmm/kvm/state.h"

int bx_arch_vm_save(int vm_fd, struct bx_state *out, boxlite_error **err);
int bx_arch_vm_load(int vm_fd, struct bx_state *in, boxlite_error **err);
int bx_arch_vcpu_save(int vcpu_fd, struct bx_state *out, boxlite_error **err);
int bx_arch_vcpu_load(int vcpu_fd, struct bx_state *in, boxlite_error **err);

#endif
