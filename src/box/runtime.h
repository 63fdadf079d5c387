/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime.h: the object behind boxlite_runtime: one home, one database connection, one loop, and
 * the connections to shims (client.h) that its boxes share.
 *
 * Invariants:
 *  - callbacks of the user run only out of bx_runtime_dispatch() or a blocking call, always from a
 *    deferred call of the loop, never from inside a connection's own callbacks. So they may free
 *    boxes, execs and their connections.
 *  - a blocking call inside a callback is refused (STATE), never a nested loop.
 *  - an attached box' connection belongs to the runtime, not to the box handle: it ends with the
 *    runtime, and the box with it.
 */
#ifndef BX_BOX_RUNTIME_H
#define BX_BOX_RUNTIME_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/loop.h"
#include "oci/images.h"
#include "state/home.h"
#include "state/store.h"

struct bx_client;
struct bx_op;

struct boxlite_runtime {
    struct bx_home *home;
    struct bx_store *store;
    struct bx_loop *loop;
    struct bx_log log;
    struct bx_images images;   /* the same home, store, log and progress for src/oci */
    char *libexec_asked;       /* from the options, or NULL */
    struct bx_client *clients; /* all connections, linked by client.c */
    struct bx_op *ops;         /* asynchronous calls under way, linked by op.c */
    boxlite_transfer *transfers; /* under way, linked by transfer.c */
    bool dispatching;
};

int bx_runtime_new(const boxlite_runtime_options *options, boxlite_runtime **ret,
                   boxlite_error **err);
void bx_runtime_free(boxlite_runtime *rt);

/* One batch of events: 0 or an error code. */
int bx_runtime_dispatch(boxlite_runtime *rt, int timeout_ms, boxlite_error **err);

/* Dispatches until done(data) holds: 0, TIMEOUT, CANCELLED (wake-up), STATE (inside a callback).
 * What is waited for is named by `what` in the error. */
typedef bool (*bx_done_test)(void *data);
int bx_runtime_wait(boxlite_runtime *rt, bx_done_test done, void *data, uint64_t deadline,
                    const char *what, boxlite_error **err);

/* The folder of boxlite-shim and boxlite-agent (libexec.c): caller frees. NOT_FOUND with a hint. */
int bx_libexec_find(const char *asked, char **ret, boxlite_error **err);

/* Clears what crashed processes left (sweep.c): half-made boxes, folders without row, rows without
 * folder, boxes that were to be removed when they stop, temporary files. Skips what is in use. */
int bx_sweep(boxlite_runtime *rt, boxlite_error **err);
/* Removes a stopped box that is marked for removal; nothing if it is running or not marked. */
void bx_sweep_box(boxlite_runtime *rt, const char *id);
/* Moves a box' folder out of the way and deletes it; absent is 0. */
int bx_box_discard(boxlite_runtime *rt, const char *id, boxlite_error **err);

#endif
