/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine.h: what the process gives up before it makes its machine.
 */
#ifndef BX_VMM_KVM_CONFINE_H
#define BX_VMM_KVM_CONFINE_H

#include <stdbool.h>

/* Goes through the stages. A stage that this host does not allow is no failure: told(name, on) hears
 * of each (may be NULL). Single-threaded still; everything that is needed must be open. */
void bx_confine(void (*told)(const char *name, bool on));

#endif
