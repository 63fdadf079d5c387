/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h: a machine that stands still, as two files: its state and its memory.
 */
#ifndef BX_VMM_KVM_SNAPSHOT_H
#define BX_VMM_KVM_SNAPSHOT_H

#include "vmm/kvm/vm.h"

/* Writes both, from the descriptors' beginning; memory becomes a sparse file of the memory's size.
 * All vCPUs must be parked. */
int bx_snapshot_save(struct bx_vm *vm, int state_fd, int memory_fd, boxlite_error **err);
/* Gives a machine, fresh but for its memory, the state in BX_KVM_FD_STATE. INTEGRITY: damaged;
 * UNSUPPORTED: of another version, machine or processor. */
int bx_snapshot_load(struct bx_vm *vm, boxlite_error **err);

#endif
