/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caps.h: capabilities of commands: Docker's default 14 for root, none for others (who can still gain
 * those 14, and no more, from set-user-ID programs).
 */
#ifndef BX_GUEST_CAPS_H
#define BX_GUEST_CAPS_H

#include "guest/text.h"

/* While still root with everything: the bounding set, no ambient ones. */
int caps_bound(struct failure *f);
/* For a command that stays root: permitted and effective are the bounding set. */
int caps_root(struct failure *f);
int caps_drop_all(void); /* 0 or -errno */

#endif
