/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiet.h: work in a box that is not running: its VM is started for that, without main command,
 * network or traces of a run, and stopped after. Nobody else can use the box meanwhile (BUSY). A box
 * that runs is used as it is.
 */
#ifndef BX_BOX_QUIET_H
#define BX_BOX_QUIET_H

#include "box/box.h"

struct bx_quiet {
    boxlite_box *box; /* that was started for this, or NULL */
};

int bx_quiet_begin(boxlite_box *box, struct bx_quiet *ret, boxlite_error **err);
/* Stops it, its disk synced. Does nothing the second time. */
int bx_quiet_end(struct bx_quiet *q, boxlite_error **err);
static inline void bx_quiet_done(struct bx_quiet *q)
{
    (void)bx_quiet_end(q, NULL);
}
#define _cleanup_quiet_ _cleanup_(bx_quiet_done)

#endif
