/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.h: what the guest uses.
 */
#ifndef BX_GUEST_STATS_H
#define BX_GUEST_STATS_H

#include "guest/agent.h"

/* Appends the fields of STATS_REPLY to a->msg: 0 or -errno. */
int stats_append(struct agent *a);

#endif
