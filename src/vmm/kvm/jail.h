/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.h: what each thread of boxlite-vmm may still do once the guest runs.
 */
#ifndef BX_VMM_KVM_JAIL_H
#define BX_VMM_KVM_JAIL_H

#include <stdbool.h>

enum bx_jail_kind { BX_JAIL_VCPU, BX_JAIL_DISK, BX_JAIL_MAIN };

/* Installs the calling thread's list of system calls. False: this kernel has no such lists (or this
 * is a build with a sanitizer). Ends the process if the list is refused otherwise. */
bool bx_vmm_jail_thread(enum bx_jail_kind kind);

#endif
