/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiet.c: see quiet.h.
 */
#include "box/quiet.h"

#include "base/error.h"

#define STOP_MS 10000

int bx_quiet_begin(boxlite_box *box, struct bx_quiet *ret, boxlite_error **err)
{
    int state = bx_box_state(box, err);

    if (state < 0) {
        return state;
    }
    ret->box = NULL;
    if (state != BOXLITE_BOX_CREATED && state != BOXLITE_BOX_STOPPED) {
        return 0; /* what does not fit a command is told when it is started */
    }
    box->quiet = true;
    int r = bx_box_start(box, err);
    box->quiet = false;
    if (r == 0) {
        ret->box = box;
    }
    return r;
}

int bx_quiet_end(struct bx_quiet *q, boxlite_error **err)
{
    boxlite_box *box = steal_ptr(&q->box);
    return box ? bx_box_stop(box, STOP_MS, err) : 0;
}
