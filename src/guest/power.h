/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power.h: the end of the guest.
 */
#ifndef BX_GUEST_POWER_H
#define BX_GUEST_POWER_H

#include "guest/agent.h"

/* Kills the container, writes everything to the disk, ends the machine. */
_Noreturn void power_shutdown(struct agent *a);
/* Ends the machine at once, after a sync. */
_Noreturn void power_off(void);

#endif
