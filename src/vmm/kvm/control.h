/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h: the program's end of the control socket (proto.h).
 */
#ifndef BX_VMM_KVM_CONTROL_H
#define BX_VMM_KVM_CONTROL_H

#include "vmm/kvm/vm.h"

/* One message to the shim; blocks until the socket takes it. A shim that is gone is the end. */
void bx_control_tell(uint32_t type, uint32_t value, const char *text);
/* Answers the shim's messages from the loop on. */
int bx_control_start(struct bx_vm *vm, boxlite_error **err);

#endif
