/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c: registries, as exported.
 */
#include "box/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "box/options.h"

int boxlite_transfer_options_new(boxlite_transfer_options **ret, boxlite_error **err)
{
    bx_need(ret, err);
    boxlite_transfer_options *o = calloc(1, sizeof(*o));
    if (!o) {
        return bx_fail_oom(err);
    }
    *ret = o;
    return 0;
}

void boxlite_transfer_options_free(boxlite_transfer_options *o)
{
    if (o) {
        bx_transfer_options_done(&o->o);
        free(o);
    }
}

int boxlite_transfer_options_set_platform(boxlite_transfer_options *o, const char *platform,
                                          boxlite_error **err)
{
    bx_need(o, err);
    bx_need(platform, err);
    return bx_set_string(&o->o.platform, platform, err);
}

int boxlite_transfer_options_set_credentials(boxlite_transfer_options *o, const char *user,
                                             const char *secret, boxlite_error **err)
{
    bx_need(o, err);
    bx_need(user, err);
    bx_need(secret, err);
    if (!*user || strchr(user, ':')) {
        return bx_fail(err, BOXLITE_E_INVALID, "user: empty, or with a colon in it");
    }
    int r = bx_set_string(&o->o.user, user, err);
    return r < 0 ? r : bx_set_string(&o->o.secret, secret, err);
}

int boxlite_transfer_options_set_auth_file(boxlite_transfer_options *o, const char *path,
                                           boxlite_error **err)
{
    bx_need(o, err);
    bx_need(path, err);
    return bx_set_string(&o->o.auth_file, path, err);
}

int boxlite_transfer_options_set_ca_file(boxlite_transfer_options *o, const char *path,
                                         boxlite_error **err)
{
    bx_need(o, err);
    bx_need(path, err);
    return bx_set_string(&o->o.ca_file, path, err);
}

int boxlite_transfer_options_set_plain_http(boxlite_transfer_options *o, int on,
                                            boxlite_error **err)
{
    bx_need(o, err);
    o->o.plain_http = on != 0;
    return 0;
}

int boxlite_transfer_options_set_progress(boxlite_transfer_options *o, boxlite_transfer_fn fn,
                                          void *data, boxlite_error **err)
{
    bx_need(o, err);
    o->progress = fn;
    o->progress_data = data;
    return 0;
}

int boxlite_image_pull(boxlite_runtime *rt, const char *ref,
                       const boxlite_transfer_options *options, boxlite_image **ret,
                       boxlite_error **err)
{
    struct bx_transfer_result result = {0};
    bx_need(rt, err);
    bx_need(ref, err);
    int r = bx_transfer_run(rt, bx_image_pull, ref, NULL, options, &result, err);
    if (r == 0 && ret) {
        r = boxlite_image_open(rt, result.digest, ret, err);
    }
    bx_transfer_result_done(&result);
    return r;
}

/* A handle that nobody wants is the transfer's own. */
static int start(boxlite_runtime *rt, bx_transfer_work work, const char *ref, const char *to,
                 const boxlite_transfer_options *options, boxlite_done_fn fn, void *data,
                 boxlite_transfer **ret, boxlite_error **err)
{
    boxlite_transfer *t;
    int r = bx_transfer_start(rt, work, ref, to, options, fn, data, &t, err);
    if (r == 0 && ret) {
        *ret = t;
    } else if (r == 0) {
        bx_transfer_disown(t);
    }
    return r;
}

int boxlite_image_pull_async(boxlite_runtime *rt, const char *ref,
                             const boxlite_transfer_options *options, boxlite_done_fn fn,
                             void *data, boxlite_transfer **ret, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ref, err);
    bx_need(fn, err);
    return start(rt, bx_image_pull, ref, NULL, options, fn, data, ret, err);
}

int boxlite_image_push(boxlite_runtime *rt, const char *ref, const char *to,
                       const boxlite_transfer_options *options, boxlite_error **err)
{
    struct bx_transfer_result result = {0};
    bx_need(rt, err);
    bx_need(ref, err);
    int r = bx_transfer_run(rt, bx_image_push, ref, to, options, &result, err);
    bx_transfer_result_done(&result);
    return r;
}

int boxlite_image_push_async(boxlite_runtime *rt, const char *ref, const char *to,
                             const boxlite_transfer_options *options, boxlite_done_fn fn,
                             void *data, boxlite_transfer **ret, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ref, err);
    bx_need(fn, err);
    return start(rt, bx_image_push, ref, to, options, fn, data, ret, err);
}

int boxlite_registry_login(boxlite_runtime *rt, const char *registry, const char *user,
                           const char *secret, const boxlite_transfer_options *options,
                           boxlite_error **err)
{
    boxlite_transfer_options own = {0};
    struct bx_transfer_result result = {0};
    bx_need(rt, err);
    bx_need(registry, err);
    bx_need(user, err);
    bx_need(secret, err);
    int r = options && bx_transfer_options_copy(&options->o, &own.o) < 0 ? bx_fail_oom(err) : 0;
    r = r < 0 ? r : boxlite_transfer_options_set_credentials(&own, user, secret, err);
    r = r < 0 ? r : bx_transfer_run(rt, bx_registry_login, registry, NULL, &own, &result, err);
    bx_transfer_result_done(&result);
    bx_transfer_options_done(&own.o);
    return r;
}

int boxlite_registry_logout(boxlite_runtime *rt, const char *registry,
                            const boxlite_transfer_options *options, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(registry, err);
    return bx_registry_logout(options ? options->o.auth_file : NULL, registry, err);
}

void boxlite_transfer_cancel(boxlite_transfer *transfer)
{
    if (transfer) {
        bx_transfer_cancel(transfer);
    }
}

void boxlite_transfer_free(boxlite_transfer *transfer)
{
    bx_transfer_free(transfer);
}

const char *boxlite_transfer_digest(const boxlite_transfer *transfer)
{
    const struct bx_transfer_result *r = transfer ? bx_transfer_result(transfer) : NULL;
    return r ? r->digest : NULL;
}

const char *boxlite_transfer_name(const boxlite_transfer *transfer)
{
    const struct bx_transfer_result *r = transfer ? bx_transfer_result(transfer) : NULL;
    return r ? r->name : NULL;
}
