/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime.c: runtimes, as exported.
 */
#include "box/runtime.h"

#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "base/log.h"
#include "workspace/box.h"

void boxlite_runtime_options_init(boxlite_runtime_options *options)
{
    if (options) {
        *options = (boxlite_runtime_options){.struct_size = sizeof(*options),
                                             .log_level = BOXLITE_LOG_WARN};
    }
}

/* A caller compiled against an older header gives a smaller struct; one against a newer header a
 * bigger one, in which what we do not know must be zero. */
static int take_options(const boxlite_runtime_options *given, boxlite_runtime_options *ret,
                        boxlite_error **err)
{
    const size_t least = offsetof(boxlite_runtime_options, libexec);
    const unsigned char *bytes = (const unsigned char *)given;

    boxlite_runtime_options_init(ret);
    if (!given) {
        return 0;
    }
    if (given->struct_size < least) {
        return bx_fail(err, BOXLITE_E_INVALID,
                       "options: struct_size is %zu; fill them with boxlite_runtime_options_init()",
                       given->struct_size);
    }
    for (size_t i = sizeof(*ret); i < given->struct_size; i++) {
        if (bytes[i]) {
            return bx_fail(err, BOXLITE_E_UNSUPPORTED,
                           "options: one is set that this version of the library does not know");
        }
    }
    memcpy(ret, given, given->struct_size < sizeof(*ret) ? given->struct_size : sizeof(*ret));
    if (ret->log_level < BOXLITE_LOG_ERROR || ret->log_level > BOXLITE_LOG_DEBUG) {
        return bx_fail(err, BOXLITE_E_INVALID, "options: log_level %d is unknown", ret->log_level);
    }
    return 0;
}

int boxlite_runtime_new(const boxlite_runtime_options *options, boxlite_runtime **ret,
                        boxlite_error **err)
{
    boxlite_runtime_options o;
    bx_need(ret, err);
    int r = take_options(options, &o, err);
    r = r < 0 ? r : bx_runtime_new(&o, ret, err);
    if (r == 0) { /* an apply that a crash cut off; what cannot be mended now is told, and tried again */
        _cleanup_error_ boxlite_error *why = NULL;
        if (bx_ws_recover(*ret, &why) < 0) {
            bx_warn(&(*ret)->log, "workspace", "%s", boxlite_error_message(why));
        }
    }
    return r;
}

void boxlite_runtime_free(boxlite_runtime *rt)
{
    bx_runtime_free(rt);
}

const char *boxlite_runtime_home(const boxlite_runtime *rt)
{
    return rt ? rt->home->path : NULL;
}

int boxlite_runtime_fd(const boxlite_runtime *rt)
{
    return rt ? bx_loop_fd(rt->loop) : -1;
}

int boxlite_runtime_dispatch(boxlite_runtime *rt, int timeout_ms, boxlite_error **err)
{
    bx_need(rt, err);
    return bx_runtime_dispatch(rt, timeout_ms, err);
}

void boxlite_runtime_wakeup(boxlite_runtime *rt)
{
    if (rt) {
        bx_loop_wakeup(rt->loop);
    }
}
