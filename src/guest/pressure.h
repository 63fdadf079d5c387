/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure.h: the end of a box that thrashes.
 */
#ifndef BX_GUEST_PRESSURE_H
#define BX_GUEST_PRESSURE_H

#include "guest/agent.h"

/* Watches the container's memory from now on. A kernel that cannot tell how long tasks wait for memory
 * is said on the console: nothing is watched then. */
void pressure_watch(struct agent *a);

#endif
