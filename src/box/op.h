/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op.h: an asynchronous call: something is under way, and one user function is told its end, once,
 * from a deferred call of the loop. It lives in the runtime, not in a box handle, so the handle may
 * be freed meanwhile. What is under way when the runtime is freed ends with CANCELLED.
 */
#ifndef BX_BOX_OP_H
#define BX_BOX_OP_H

#include <boxlite.h>
#include <stdbool.h>

#include "box/client.h"
#include "box/runtime.h"

struct bx_op {
    boxlite_runtime *rt;
    struct bx_client *client; /* a reference, or NULL */
    struct bx_watch watch;
    boxlite_done_fn fn;
    void *data;
    void (*check)(struct bx_op *op); /* looks at the client; calls bx_op_finish() when it is over */
    char *id, *name;                 /* of the box */
    int box_fd;                      /* its folder, owned, or -1 */
    bool retried, finished;
    uint64_t request;
    struct bx_source *timer; /* of those who give up after a while, or try again */
    uint64_t join_by;        /* of a start that joins another's */
    int result;
    boxlite_error *error;
    struct bx_source *defer;
    struct bx_op *next;
};

/* A new one in the runtime's list. */
int bx_op_new(boxlite_runtime *rt, const char *id, const char *name, int box_fd, boxlite_done_fn fn,
              void *data, struct bx_op **ret, boxlite_error **err);
/* Takes the reference of client, and calls check on its every change. */
void bx_op_follow(struct bx_op *op, struct bx_client *take_client, void (*check)(struct bx_op *op));
/* The end: fn is called in the next dispatch. take_error may be NULL for result 0. The first end
 * counts. */
void bx_op_finish(struct bx_op *op, int result, boxlite_error *take_error);
/* Drops it without a call; for an op that could not be started. */
void bx_op_free(struct bx_op *op);
void bx_ops_cancel(boxlite_runtime *rt); /* all: CANCELLED, called at once */

/* Runs an asynchronous call to its end: begin(arg, fn, data) starts it. A wake-up gives CANCELLED
 * and leaves the call to itself. */
struct bx_blocking;
typedef int (*bx_op_begin)(void *arg, boxlite_done_fn fn, void *data, boxlite_error **err);
int bx_op_run(boxlite_runtime *rt, bx_op_begin begin, void *arg, const char *what,
              boxlite_error **err);

#endif
