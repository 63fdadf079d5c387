/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op.c: asynchronous calls. See op.h.
 */
#include "box/op.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/timeutil.h"

int bx_op_new(boxlite_runtime *rt, const char *id, const char *name, int box_fd, boxlite_done_fn fn,
              void *data, struct bx_op **ret, boxlite_error **err)
{
    struct bx_op *op = calloc(1, sizeof(*op));
    if (!op) {
        return bx_fail_oom(err);
    }
    *op = (struct bx_op){.rt = rt, .fn = fn, .data = data, .box_fd = -1, .next = rt->ops};
    rt->ops = op;
    op->id = strdup(id);
    op->name = strdup(name);
    op->box_fd = fcntl(box_fd, F_DUPFD_CLOEXEC, 3);
    if (!op->id || !op->name || op->box_fd < 0) {
        int r = op->box_fd < 0 && errno != ENOMEM
                    ? bx_fail_errno(err, BOXLITE_E_IO, errno, "box %s", name)
                    : bx_fail_oom(err);
        bx_op_free(op);
        return r;
    }
    *ret = op;
    return 0;
}

static void drop_client(struct bx_op *op)
{
    if (op->client) {
        bx_request_forget(op->client, op->request);
        op->request = 0;
        bx_client_unwatch(&op->watch);
        bx_client_unref(steal_ptr(&op->client));
    }
}

void bx_op_free(struct bx_op *op)
{
    for (struct bx_op **p = &op->rt->ops; *p; p = &(*p)->next) {
        if (*p == op) {
            *p = op->next;
            break;
        }
    }
    drop_client(op);
    bx_source_free(op->defer);
    bx_source_free(op->timer);
    boxlite_error_free(op->error);
    bx_close(&op->box_fd);
    free(op->id);
    free(op->name);
    free(op);
}

static void on_change(void *data)
{
    struct bx_op *op = data;
    if (!op->finished) {
        op->check(op);
    }
}

void bx_op_follow(struct bx_op *op, struct bx_client *take_client, void (*check)(struct bx_op *op))
{
    drop_client(op);
    op->client = take_client;
    op->check = check;
    bx_client_watch(op->client, &op->watch, on_change, op);
}

/* Tells the user. The op is gone before, so that the function may do anything. */
static void tell(void *data)
{
    struct bx_op *op = data;
    boxlite_done_fn fn = op->fn;
    void *user = op->data;
    int result = op->result;
    _cleanup_error_ boxlite_error *error = steal_ptr(&op->error);

    op->defer = NULL; /* frees itself after this call */
    bx_op_free(op);
    if (fn) {
        fn(user, result, error);
    }
}

void bx_op_finish(struct bx_op *op, int result, boxlite_error *take_error)
{
    if (op->finished) {
        boxlite_error_free(take_error);
        return;
    }
    op->finished = true;
    op->result = result;
    op->error = take_error;
    if (bx_loop_add_defer(op->rt->loop, tell, op, &op->defer) < 0) {
        op->defer = NULL;
        op->result = BOXLITE_E_NO_MEMORY; /* told when the runtime ends */
    }
}

void bx_ops_cancel(boxlite_runtime *rt)
{
    while (rt->ops) {
        struct bx_op *op = rt->ops;
        if (!op->finished) {
            op->result = bx_fail(&op->error, BOXLITE_E_CANCELLED, "box %s: the runtime was closed",
                                 op->name);
        }
        bx_source_free(steal_ptr(&op->defer));
        tell(op);
    }
}

/* ---- Blocking -------------------------------------------------------------------------------- */

struct bx_blocking {
    bool done, abandoned;
    int result;
    boxlite_error *error;
};

static void blocking_done(void *data, int result, const boxlite_error *error)
{
    struct bx_blocking *b = data;
    if (b->abandoned) {
        free(b);
        return;
    }
    b->done = true;
    b->result = result;
    if (error) {
        (void)bx_fail_again(&b->error, error);
    }
}

static bool is_done(void *data)
{
    return ((struct bx_blocking *)data)->done;
}

int bx_op_run(boxlite_runtime *rt, bx_op_begin begin, void *arg, const char *what,
              boxlite_error **err)
{
    struct bx_blocking *b;
    int r;

    if (rt->dispatching) {
        return bx_fail(err, BOXLITE_E_STATE, "%s: a blocking call inside a callback", what);
    }
    b = calloc(1, sizeof(*b));
    if (!b) {
        return bx_fail_oom(err);
    }
    r = begin(arg, blocking_done, b, err);
    if (r < 0) {
        free(b);
        return r;
    }
    r = bx_runtime_wait(rt, is_done, b, BX_NEVER, what, err);
    if (r < 0 && !b->done) {
        b->abandoned = true; /* freed by the call's own end */
        return r;
    }
    r = b->result;
    if (r < 0 && b->error) {
        r = bx_fail_again(err, b->error);
    }
    boxlite_error_free(b->error);
    free(b);
    return r;
}
