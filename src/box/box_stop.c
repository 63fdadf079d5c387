/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_stop.c: stopping, pausing, waiting for a box, and removing it.
 *
 * A stop always comes to an end: a shim that does not keep the time it was given plus GRACE_MS is
 * killed, and the VM with it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/timeutil.h"
#include "box/box.h"
#include "box/op.h"
#include "box/shimfind.h"
#include "wire/proto.h"

#define GRACE_MS 10000
#define REMOVE_MS 15000
#define REMOVE_RETRY_MS 10

/* ---- Stop ------------------------------------------------------------------------------------ */

static void stop_check(struct bx_op *op)
{
    if (bx_client_refused(op->client)) {
        boxlite_error *error = NULL;
        int r = bx_fail_again(&error, bx_client_failure(op->client));
        bx_wrap(&error, "stopping box %s", op->name);
        bx_op_finish(op, r, error);
    } else if (bx_client_over(op->client)) {
        bx_op_finish(op, 0, NULL);
    }
}

static void stop_reply(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    struct bx_op *op = data;
    boxlite_error *copy = NULL;

    op->request = 0;
    if (!error || !bx_client_open(op->client) || boxlite_error_code(error) == BOXLITE_E_STATE) {
        return; /* it ends, or has ended: stop_check sees it */
    }
    int r = bx_fail_again(&copy, error);
    bx_wrap(&copy, "stopping box %s", op->name);
    bx_op_finish(op, r, copy);
}

static void stop_overdue(void *data)
{
    struct bx_op *op = data;
    if (!op->finished) {
        bx_warn(&op->rt->log, "box", "box %s does not stop: killing its shim", op->name);
        bx_client_kill(op->client);
    }
}

static int stop_running(boxlite_box *box, struct bx_op *op, uint32_t timeout_ms,
                        boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    int r = bx_request_begin(box->client, &msg, BX_SH_STOP, err);

    if (r < 0) {
        return r;
    }
    if (bx_msg_u64(&msg, BX_T_TIMEOUT_MS, timeout_ms) < 0 ||
        bx_loop_add_timer(op->rt->loop, bx_deadline_ms((int64_t)timeout_ms + GRACE_MS),
                          stop_overdue, op, &op->timer) < 0) {
        return bx_fail_oom(err);
    }
    bx_op_follow(op, bx_client_ref(box->client), stop_check);
    return bx_request_send(box->client, &msg, stop_reply, op, &op->request, err);
}

int bx_box_stop_async(boxlite_box *box, uint32_t timeout_ms, boxlite_done_fn fn, void *data,
                      boxlite_error **err)
{
    struct bx_op *op;
    int r = bx_box_need_folder(box, err);

    if (r < 0) {
        return r;
    }
    r = bx_op_new(box->rt, box->row.id, box->row.name, box->fd, fn, data, &op, err);
    if (r < 0) {
        return r;
    }
    /* One that this runtime is just starting has no lock yet, but a connection. */
    if (bx_box_state_at_rest(box->fd, NULL) != BOXLITE_BOX_RUNNING &&
        !bx_client_lookup(box->rt, box->row.id)) {
        bx_op_finish(op, 0, NULL);
        return 0;
    }
    r = bx_box_need_client(box, err);
    if (r == 0) {
        r = stop_running(box, op, timeout_ms, err);
    }
    if (r < 0) {
        bx_op_free(op);
    }
    return r;
}

struct stop_args {
    boxlite_box *box;
    uint32_t timeout_ms;
};

static int begin_stop(void *arg, boxlite_done_fn fn, void *data, boxlite_error **err)
{
    struct stop_args *a = arg;
    return bx_box_stop_async(a->box, a->timeout_ms, fn, data, err);
}

int bx_box_stop(boxlite_box *box, uint32_t timeout_ms, boxlite_error **err)
{
    struct stop_args a = {box, timeout_ms};
    return bx_op_run(box->rt, begin_stop, &a, "stopping the box", err);
}

/* ---- Pause, resume --------------------------------------------------------------------------- */

struct pause_args {
    boxlite_box *box;
    bool on;
};

static void pause_check(struct bx_op *op)
{
}

static void pause_reply(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    struct bx_op *op = data;
    boxlite_error *copy = NULL;
    int r = 0;

    op->request = 0;
    if (error) {
        r = bx_fail_again(&copy, error);
        bx_wrap(&copy, "box %s", op->name);
    }
    bx_op_finish(op, r, copy);
}

static int begin_pause(void *arg, boxlite_done_fn fn, void *data, boxlite_error **err)
{
    struct pause_args *a = arg;
    boxlite_box *box = a->box;
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    struct bx_op *op;
    int r = bx_box_need_client(box, err);

    if (r == 0) {
        r = bx_request_begin(box->client, &msg, a->on ? BX_SH_PAUSE : BX_SH_RESUME, err);
    }
    if (r == 0) {
        r = bx_op_new(box->rt, box->row.id, box->row.name, box->fd, fn, data, &op, err);
    }
    if (r < 0) {
        return r;
    }
    bx_op_follow(op, bx_client_ref(box->client), pause_check);
    r = bx_request_send(box->client, &msg, pause_reply, op, &op->request, err);
    if (r < 0) {
        bx_op_free(op);
    }
    return r;
}

int bx_box_pause(boxlite_box *box, bool on, boxlite_error **err)
{
    struct pause_args a = {box, on};
    return bx_op_run(box->rt, begin_pause, &a, on ? "pausing the box" : "resuming the box", err);
}

/* ---- Wait ------------------------------------------------------------------------------------ */

static bool client_over(void *data)
{
    return bx_client_over(data);
}

int bx_box_wait(boxlite_box *box, int timeout_ms, boxlite_error **err)
{
    _cleanup_client_ struct bx_client *c = NULL;
    int r = bx_box_need_folder(box, err);

    if (r < 0) {
        return r;
    }
    r = bx_box_state_at_rest(box->fd, err);
    if (r < 0 || r == BOXLITE_BOX_STOPPED) {
        return r < 0 ? r : 0;
    }
    if (r == BOXLITE_BOX_CREATED) {
        r = bx_fail(err, BOXLITE_E_STATE, "box %s was never started", box->row.name);
        bx_hint(err, "start it with: boxlite start %s", box->row.name);
        return r;
    }
    r = bx_box_need_client(box, err);
    if (r < 0) {
        return r;
    }
    c = bx_client_ref(box->client);
    r = bx_runtime_wait(box->rt, client_over, c, bx_deadline_ms(timeout_ms),
                        "waiting for the box to stop", err);
    return r == 0 && bx_client_refused(c) ? bx_fail_again(err, bx_client_failure(c)) : r;
}

/* ---- Remove ---------------------------------------------------------------------------------- */

/* Ends the shim of a box that runs: asked first, then killed. */
static void end_shim(boxlite_box *box)
{
    _cleanup_close_ int pidfd = -1;
    if (bx_box_stop(box, 0, NULL) == 0) {
        return;
    }
    pidfd = bx_shim_pidfd(box->fd);
    if (pidfd >= 0) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        (void)bx_pidfd_signal(pidfd, SIGKILL);
        (void)poll(&p, 1, GRACE_MS);
    }
}

static bool never(void *data)
{
    return false;
}

/* The box' lock, so that nobody starts it while it goes; NOT_FOUND when it has gone meanwhile. */
static int lock_for_removal(boxlite_box *box, bool force, int *ret, boxlite_error **err)
{
    uint64_t deadline = bx_deadline_ms(REMOVE_MS);
    for (;;) {
        int r = bx_box_need_folder(box, err);
        if (r < 0) {
            return r;
        }
        int lock = bx_shim_lock(box->fd);
        if (lock >= 0) {
            *ret = lock;
            return 0;
        }
        if (lock != -EAGAIN) {
            return bx_fail_errno(err, BOXLITE_E_IO, lock, "locking box %s", box->row.name);
        }
        if (!force) {
            r = bx_fail(err, BOXLITE_E_STATE, "box %s is running", box->row.name);
            bx_hint(err, "stop it first, or remove it with force (boxlite rm -f %s)",
                    box->row.name);
            return r;
        }
        if (bx_now_mono() >= deadline) {
            return bx_fail(err, BOXLITE_E_BUSY, "box %s does not end", box->row.name);
        }
        end_shim(box);
        /* What holds it now, if anything, is another remover or a shim at its very end. */
        r = bx_runtime_wait(box->rt, never, NULL, bx_deadline_ms(REMOVE_RETRY_MS),
                            "removing the box", NULL);
        if (r != BOXLITE_E_TIMEOUT) {
            return bx_fail(err, r, "removing box %s: %s", box->row.name,
                           r == BOXLITE_E_CANCELLED ? "cancelled" : "inside a callback");
        }
    }
}

int bx_box_remove(boxlite_box *box, bool force, boxlite_error **err)
{
    _cleanup_error_ boxlite_error *error = NULL;
    _cleanup_close_ int lock = -1;
    int r = lock_for_removal(box, force, &lock, &error);

    if (r < 0 && r != BOXLITE_E_NOT_FOUND) {
        return bx_fail_again(err, error);
    }
    _cleanup_error_ boxlite_error *row_error = NULL;
    int row = bx_store_box_delete(box->rt->store, box->row.id, &row_error);
    if (r == BOXLITE_E_NOT_FOUND) {
        return force || row == 0 ? 0 : bx_fail_again(err, error);
    }
    if (row < 0 && row != BOXLITE_E_NOT_FOUND) {
        return bx_fail_again(err, row_error);
    }
    bx_client_unref(steal_ptr(&box->client));
    return bx_box_discard(box->rt, box->row.id, err);
}
