/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qemu.h: the engine that is QEMU's microvm machine, with each of its accelerators.
 */
#ifndef BX_VMM_QEMU_QEMU_H
#define BX_VMM_QEMU_QEMU_H

#include "vmm/vmm.h"

extern const struct bx_vmm_ops bx_qemu_tcg_ops;
extern const struct bx_vmm_ops bx_qemu_kvm_ops;

#endif
