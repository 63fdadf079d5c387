/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h: the object behind boxlite_transfer: a pull or push in a thread of its own, told of in the runtime's loop.
 */
#ifndef BX_BOX_TRANSFER_H
#define BX_BOX_TRANSFER_H

#include <boxlite.h>

#include "box/runtime.h"
#include "oci/transfer.h"

struct boxlite_transfer_options {
    struct bx_transfer_options o;
    boxlite_transfer_fn progress;
    void *progress_data;
};

/* What the thread does: one of the calls of oci/transfer.h. */
typedef int (*bx_transfer_work)(const struct bx_transfer *t, const char *ref, const char *to,
                                struct bx_transfer_result *ret, boxlite_error **err);

/* to and options may be NULL. The handle is the caller's. */
int bx_transfer_start(boxlite_runtime *rt, bx_transfer_work work, const char *ref, const char *to,
                      const boxlite_transfer_options *options, boxlite_done_fn fn, void *data,
                      boxlite_transfer **ret, boxlite_error **err);
/* Starts one and waits for its end; a wake-up cancels it. ret is filled on success only. */
int bx_transfer_run(boxlite_runtime *rt, bx_transfer_work work, const char *ref, const char *to,
                    const boxlite_transfer_options *options, struct bx_transfer_result *ret,
                    boxlite_error **err);
void bx_transfer_cancel(boxlite_transfer *t);
void bx_transfer_free(boxlite_transfer *t);
/* Goes on by itself: nobody has its handle. */
void bx_transfer_disown(boxlite_transfer *t);
const struct bx_transfer_result *bx_transfer_result(const boxlite_transfer *t);
/* All of a runtime that ends: their functions are called with CANCELLED, their threads are gone after it. */
void bx_transfers_cancel(boxlite_runtime *rt);

#endif
