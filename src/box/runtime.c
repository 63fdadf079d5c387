/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime.c: opening and closing a runtime, and its loop. See runtime.h.
 */
#include "box/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/timeutil.h"
#include "box/client.h"
#include "box/op.h"
#include "state/settings.h"
#include "box/transfer.h"

static void take_options(boxlite_runtime *rt, const boxlite_runtime_options *o)
{
    rt->log = (struct bx_log){.fn = o->log, .data = o->log_data, .level = o->log_level};
    rt->images.progress = o->progress;
    rt->images.progress_data = o->progress_data;
}

static int take_settings(boxlite_runtime *rt, boxlite_error **err)
{
    struct bx_settings s;
    int r = bx_settings_read(rt->home, &s, err);

    if (r == 0) {
        rt->images.limit = s.images_limit;
        rt->images.max_bytes = s.images_unpacked;
    }
    return r;
}

int bx_runtime_new(const boxlite_runtime_options *options, boxlite_runtime **ret,
                   boxlite_error **err)
{
    boxlite_runtime *rt = calloc(1, sizeof(*rt));
    int r;

    if (!rt) {
        return bx_fail_oom(err);
    }
    take_options(rt, options);
    if (options->libexec && !(rt->libexec_asked = strdup(options->libexec))) {
        r = bx_fail_oom(err);
        goto fail;
    }
    r = bx_loop_new(&rt->loop);
    if (r < 0) {
        r = bx_fail_errno(err, BOXLITE_E_IO, r, "making an event loop");
        goto fail;
    }
    r = bx_home_open(options->home, &rt->home, err);
    if (r == 0) {
        r = bx_store_open(rt->home, &rt->store, err);
    }
    if (r < 0) {
        goto fail;
    }
    rt->images.home = rt->home;
    rt->images.store = rt->store;
    rt->images.log = &rt->log;
    r = take_settings(rt, err);
    if (r == 0) {
        r = bx_sweep(rt, err);
    }
    if (r < 0) {
        goto fail;
    }
    *ret = rt;
    return 0;
fail:
    bx_runtime_free(rt);
    return r;
}

void bx_runtime_free(boxlite_runtime *rt)
{
    if (!rt) {
        return;
    }
    bx_transfers_cancel(rt);
    bx_ops_cancel(rt);
    bx_clients_shutdown(rt);
    bx_loop_free(rt->loop);
    bx_store_free(rt->store);
    bx_home_free(rt->home);
    free(rt->libexec_asked);
    free(rt);
}

static int step(boxlite_runtime *rt, int timeout_ms, boxlite_error **err)
{
    int r;
    if (rt->dispatching) {
        return bx_fail(err, BOXLITE_E_STATE, "the runtime's loop was entered inside a callback");
    }
    rt->dispatching = true;
    r = bx_loop_dispatch(rt->loop, timeout_ms);
    rt->dispatching = false;
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "the runtime's loop") : 0;
}

int bx_runtime_dispatch(boxlite_runtime *rt, int timeout_ms, boxlite_error **err)
{
    int r = step(rt, timeout_ms, err);
    (void)bx_loop_woken(rt->loop);
    return r;
}

int bx_runtime_wait(boxlite_runtime *rt, bx_done_test done, void *data, uint64_t deadline,
                    const char *what, boxlite_error **err)
{
    if (rt->dispatching) {
        return bx_fail(err, BOXLITE_E_STATE, "%s: a blocking call inside a callback", what);
    }
    while (!done(data)) {
        int left = bx_deadline_left_ms(deadline);
        int r = step(rt, left, err);
        if (r < 0) {
            return r;
        }
        if (done(data)) {
            break;
        }
        if (bx_loop_woken(rt->loop)) {
            return bx_fail(err, BOXLITE_E_CANCELLED, "%s: cancelled", what);
        }
        if (left == 0) {
            return bx_fail(err, BOXLITE_E_TIMEOUT, "%s: not within the time given", what);
        }
    }
    return 0;
}
