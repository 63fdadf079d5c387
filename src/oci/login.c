/* SPDX-License-Identifier: Apache-2.0 */
/*
 * login.c: credentials are kept only after the registry has taken them.
 */
#include <string.h>

#include "base/error.h"
#include "oci/registry.h"

/* The host, from what people write: "https://HOST/", "HOST", "index.docker.io". */
static int take_host(const char *text, struct bx_reference *ret, boxlite_error **err)
{
    const char *start = strstr(text, "://");
    const char *host = start ? start + 3 : text;
    _cleanup_free_ char *name = bx_asprintf("%.*s/x", (int)strcspn(host, "/"), host);
    _cleanup_free_ char *shown = NULL;

    if (!name) {
        return bx_fail_oom(err);
    }
    if (bx_reference_parse(name, ret, NULL) == 0) {
        if (!bx_streq(ret->host, "docker.io") || strstr(name, "docker.io/")) {
            return 0;
        }
        bx_reference_done(ret);
    }
    shown = bx_escape(text, strlen(text), 100);
    return bx_fail(err, BOXLITE_E_INVALID, "%s is no registry's HOST[:PORT]", shown ? shown : "?");
}

static int check(const struct bx_transfer *t, const struct bx_reference *ref, boxlite_error **err)
{
    _cleanup_registries_ struct bx_registries settings = {0};
    _cleanup_registry_ struct bx_registry *r = NULL;
    _cleanup_http_ struct bx_http *h = NULL;
    int rc = bx_registries_load(t->im->home, &settings, err);

    rc = rc < 0 ? rc : bx_registry_new(&settings, t, ref, NULL, false, &r, err);
    rc = rc < 0 ? rc : bx_http_new(t->cancel_fd, &h, err);
    return rc < 0 ? rc : bx_registry_reach(r, h, err);
}

int bx_registry_login(const struct bx_transfer *t, const char *registry, const char *unused,
                      struct bx_transfer_result *ret, boxlite_error **err)
{
    const struct bx_transfer_options *o = t->options;
    struct bx_reference ref = {0};
    int r = take_host(registry, &ref, err);

    (void)unused;
    if (r < 0) {
        return r;
    }
    free(steal_ptr(&ref.path));
    ref.path = strdup(""); /* the registry as a whole */
    r = ref.path ? check(t, &ref, err) : bx_fail_oom(err);
    r = r < 0 ? r : bx_credential_store(o->auth_file, ref.host, o->user, o->secret, err);
    if (r < 0) {
        bx_wrap(err, "logging in to %s", ref.host);
    } else {
        ret->name = steal_ptr(&ref.host);
    }
    bx_reference_done(&ref);
    return r;
}

int bx_registry_logout(const char *auth_file, const char *registry, boxlite_error **err)
{
    struct bx_reference ref = {0};
    int r = take_host(registry, &ref, err);

    if (r < 0) {
        return r;
    }
    r = bx_credential_erase(auth_file, ref.host, err);
    bx_reference_done(&ref);
    return r;
}
