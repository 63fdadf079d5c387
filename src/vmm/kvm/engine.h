/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: the engine that is our own VMM on KVM.
 */
#ifndef BX_VMM_KVM_ENGINE_H
#define BX_VMM_KVM_ENGINE_H

#include "vmm/vmm.h"

extern const struct bx_vmm_ops bx_kvm_ops;

#endif
