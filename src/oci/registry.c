/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.c: requests to a registry.
 *
 * A request goes out with the authorization that the last challenge led to. A 401 is answered once: by the
 * authorization that another thread has got meanwhile, else by a new one. So an expired token in mid-pull costs one
 * request.
 *
 * Redirects are followed by hand, few times: the Authorization header goes with them only to the same scheme, host and
 * port, and never from https to http. Own authorities and proxies are of the registry, so they end with its host too.
 *
 * A registry on loopback that does not speak TLS is spoken to without; any other must be named in registries.json for
 * that.
 */
#include "oci/registry.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "base/sha256.h"
#include "oci/manifest.h"
#include "oci/token.h"

#define HUB "docker.io"
#define HUB_HOST "registry-1.docker.io"
#define REDIRECTS_MAX 5
#define DOCUMENT_MS 60000u
#define BACKOFF_MS 500u
#define BACKOFF_MAX_MS 10000u
#define RETRY_AFTER_MAX 60u
#define UNREACHED_RETRIES 1u

#define MANIFEST_TYPES                                                                             \
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "        \
    "application/vnd.docker.distribution.manifest.v2+json, "                                       \
    "application/vnd.docker.distribution.manifest.list.v2+json"

/* ---- making one */

void bx_registry_free(struct bx_registry *r)
{
    if (!r) {
        return;
    }
    free(r->host);
    free(r->base);
    free(r->path);
    free(r->ca_file);
    free(r->proxy);
    free(r->authorization);
    bx_credential_done(&r->credential);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

static int copy(const char *text, char **ret, boxlite_error **err)
{
    return text && !(*ret = strdup(text)) ? bx_fail_oom(err) : 0;
}

/* Host, base and path from "[http[s]://]HOST[/PREFIX]". */
static int take_mirror(struct bx_registry *r, const char *mirror, const char *path, bool *ret_http,
                       boxlite_error **err)
{
    const char *host = mirror, *prefix;

    *ret_http = bx_startswith(mirror, "http://");
    host += *ret_http                           ? strlen("http://")
            : bx_startswith(mirror, "https://") ? strlen("https://")
                                                : 0;
    prefix = host + strcspn(host, "/");
    r->host = strndup(host, (size_t)(prefix - host));
    prefix += strspn(prefix, "/");
    r->path = bx_asprintf("%s%s%s", prefix, *prefix && !bx_endswith(prefix, "/") ? "/" : "", path);
    return r->host && r->path ? 0 : bx_fail_oom(err);
}

static int apply_settings(struct bx_registry *r, const struct bx_transfer_options *o, bool http,
                          bool is_mirror, boxlite_error **err)
{
    const struct bx_registry_settings *s = bx_registries_find(r->settings, r->host);
    const char *where = bx_streq(r->host, HUB) ? HUB_HOST : r->host;
    bool plain = http || (s && s->plain_http) || (o->plain_http && !is_mirror);
    int rc;

    if (s && s->blocked) {
        return bx_fail(err, BOXLITE_E_DENIED, "%s is blocked by registries.json", r->host);
    }
    r->base = bx_asprintf("%s://%s", plain ? "http" : "https", where);
    if (!r->base) {
        return bx_fail_oom(err);
    }
    r->may_be_http = !plain && bx_url_is_loopback(r->base);
    r->insecure = s && s->insecure;
    rc = copy(o->ca_file && !is_mirror ? o->ca_file : s ? s->ca_file : NULL, &r->ca_file, err);
    return rc < 0 ? rc : copy(s ? s->proxy : NULL, &r->proxy, err);
}

static int take_credential(struct bx_registry *r, const struct bx_transfer_options *o,
                           bool is_mirror, boxlite_error **err)
{
    int rc;

    if (o->user && !is_mirror) {
        rc = copy(o->user, &r->credential.user, err);
        return rc < 0 ? rc : copy(o->secret ? o->secret : "", &r->credential.secret, err);
    }
    rc = bx_credential_find(o->auth_file, r->host, r->path, &r->credential, err);
    if (rc < 0) {
        bx_wrap(err, "credentials for %s", r->host);
    }
    return rc;
}

int bx_registry_new(const struct bx_registries *settings, const struct bx_transfer *t,
                    const struct bx_reference *ref, const char *mirror, bool push,
                    struct bx_registry **ret, boxlite_error **err)
{
    _cleanup_registry_ struct bx_registry *r = calloc(1, sizeof(*r));
    bool http = false;
    int rc;

    if (!r) {
        return bx_fail_oom(err);
    }
    (void)pthread_mutex_init(&r->lock, NULL);
    r->settings = settings;
    r->log = t->im->log;
    r->push = push;
    if (mirror) {
        rc = take_mirror(r, mirror, ref->path, &http, err);
    } else {
        rc = copy(ref->host, &r->host, err);
        rc = rc < 0 ? rc : copy(ref->path, &r->path, err);
    }
    rc = rc < 0 ? rc : apply_settings(r, t->options, http, mirror != NULL, err);
    rc = rc < 0 ? rc : take_credential(r, t->options, mirror != NULL, err);
    if (rc < 0) {
        return rc;
    }
    *ret = steal_ptr(&r);
    return 0;
}

/* ---- authorization */

/* A copy of the value to send (NULL: none), and which one it is. */
static char *current_authorization(struct bx_registry *r, uint64_t *ret_generation)
{
    char *value;

    (void)pthread_mutex_lock(&r->lock);
    value = r->authorization ? strdup(r->authorization) : NULL;
    *ret_generation = r->generation;
    (void)pthread_mutex_unlock(&r->lock);
    return value;
}

/* Answers a 401 to a request that was sent with that generation. One thread at a time asks; the others wait for it. */
static int authorize(struct bx_registry *r, struct bx_http *h, const struct bx_http_response *resp,
                     uint64_t generation, enum bx_http_failure *failure, boxlite_error **err)
{
    struct bx_challenge c = {0};
    char *value = NULL;
    int rc = 0;

    (void)pthread_mutex_lock(&r->lock);
    if (r->generation == generation) {
        rc = bx_challenge_choose(&resp->challenges, &c) < 0
                 ? bx_fail_oom(err)
                 : bx_token_get(r, h, &c, &value, failure, err);
        if (rc == 0) {
            free(r->authorization);
            r->authorization = value;
            r->generation++;
        }
        bx_challenge_done(&c);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return rc;
}

/* ---- requests */

void bx_registry_call_done(struct bx_registry_call *call)
{
    free(steal_ptr(&call->ended_at));
}

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static bool is_idempotent(const char *method)
{
    return bx_streq(method, "GET") || bx_streq(method, "HEAD");
}

/* One exchange with *url; on a redirect *url becomes the next one: 1. */
static int step(struct bx_registry *r, struct bx_http *h, struct bx_registry_call *call, char **url,
                const char *authorization, struct bx_http_response *resp, boxlite_error **err)
{
    bool at_home = bx_url_same_origin(*url, r->base);
    _cleanup_free_ char *next = NULL, *shown = bx_url_shown(*url);
    struct bx_http_request req = call->http;
    int rc;

    req.url = *url;
    req.authorization = at_home ? authorization : NULL;
    req.connect_ms = r->settings->connect_ms;
    req.stall_ms = req.stall_ms ? req.stall_ms : r->settings->stall_ms;
    req.ca_file = at_home ? r->ca_file : NULL;
    req.insecure = at_home && r->insecure;
    req.proxy = r->proxy;
    rc = bx_http_run(h, &req, resp, &call->failure, err);
    if (rc < 0) {
        return rc;
    }
    bx_debug(r->log, "registry", "%s %s: %d", req.method, shown ? shown : "?", resp->status);
    if (!is_redirect(resp->status) || !is_idempotent(req.method) || !resp->location) {
        return 0;
    }
    call->failure = BX_HTTP_PERMANENT;
    rc = bx_url_resolve(*url, resp->location, &next, err);
    if (rc < 0) {
        bx_wrap(err, "redirect");
        return rc;
    }
    if (bx_url_is_https(*url) && !bx_url_is_https(next)) {
        return bx_fail(err, BOXLITE_E_NETWORK, "redirect from https to http");
    }
    free(*url);
    *url = steal_ptr(&next);
    return 1;
}

static char *url_of(const struct bx_registry *r, const struct bx_registry_call *call)
{
    if (call->url) {
        return strdup(call->url);
    }
    return call->path ? bx_asprintf("%s/v2/%s/%s", r->base, r->path, call->path)
                      : bx_asprintf("%s/v2/", r->base);
}

static int follow(struct bx_registry *r, struct bx_http *h, struct bx_registry_call *call,
                  const char *authorization, struct bx_http_response *resp, boxlite_error **err)
{
    _cleanup_free_ char *url = url_of(r, call);
    int rc = 1;

    if (!url) {
        return bx_fail_oom(err);
    }
    for (int n = 0; rc > 0; n++) {
        if (n > REDIRECTS_MAX) {
            call->failure = BX_HTTP_PERMANENT;
            return bx_fail(err, BOXLITE_E_NETWORK, "more than %d redirects", REDIRECTS_MAX);
        }
        rc = step(r, h, call, &url, authorization, resp, err);
    }
    if (rc == 0) {
        free(call->ended_at);
        call->ended_at = steal_ptr(&url);
    }
    return rc;
}

/* Once for a registry on this machine that turns out not to speak TLS: at its first request, when no other thread uses it yet. */
static bool fall_back_to_http(struct bx_registry *r, const struct bx_registry_call *call)
{
    bool fall = false;

    (void)pthread_mutex_lock(&r->lock);
    if (call->failure == BX_HTTP_NOT_TLS && r->may_be_http) {
        memmove(r->base + 4, r->base + 5, strlen(r->base) - 4); /* "https" to "http" */
        r->may_be_http = false;
        fall = true;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return fall;
}

/* The first error that the registry's JSON names, shown. */
static char *told_reason(const struct bx_http_response *resp)
{
    _cleanup_json_ json_t *doc = NULL;
    const json_t *first;
    const char *message, *code;

    if (bx_json_parse(bx_buf_data(&resp->body), resp->body.len, "answer", &doc, NULL) < 0) {
        return NULL;
    }
    first = json_array_get(json_object_get(doc, "errors"), 0);
    message = json_string_value(json_object_get(first, "message"));
    code = json_string_value(json_object_get(first, "code"));
    message = message && *message ? message : code;
    return message ? bx_escape(message, strlen(message), 200) : NULL;
}

static const struct {
    int from, to, error;
    enum bx_http_failure failure;
    const char *what;
} statuses[] = {
    {401, 401, BOXLITE_E_AUTH, BX_HTTP_PERMANENT, "the registry wants other credentials"},
    {403, 403, BOXLITE_E_AUTH, BX_HTTP_PERMANENT, "the registry denies this"},
    {404, 404, BOXLITE_E_NOT_FOUND, BX_HTTP_PERMANENT, "the registry does not have it"},
    {408, 408, BOXLITE_E_TIMEOUT, BX_HTTP_TRANSIENT, "the registry waited too long"},
    {429, 429, BOXLITE_E_NETWORK, BX_HTTP_TRANSIENT, "too many requests for the registry"},
    {500, 599, BOXLITE_E_NETWORK, BX_HTTP_TRANSIENT, "the registry failed"},
};

static int fail_status(struct bx_registry *r, struct bx_registry_call *call,
                       const struct bx_http_response *resp, boxlite_error **err)
{
    _cleanup_free_ char *reason = told_reason(resp);
    const char *what = "an answer that makes no sense here";
    int error = BOXLITE_E_NETWORK;

    call->failure = BX_HTTP_PERMANENT;
    for (size_t i = 0; i < BX_ARRAY_SIZE(statuses); i++) {
        if (resp->status >= statuses[i].from && resp->status <= statuses[i].to) {
            error = statuses[i].error;
            call->failure = statuses[i].failure;
            what = statuses[i].what;
        }
    }
    (void)bx_fail(err, error, "%s (HTTP %d%s%s)", what, resp->status, reason ? ": " : "",
                  reason ? reason : "");
    if (error == BOXLITE_E_AUTH) {
        bx_hint(err, "the name may be wrong, or log in with: boxlite login %s", r->host);
    } else if (error == BOXLITE_E_NOT_FOUND) {
        bx_hint(err, "check name and tag");
    }
    return error;
}

static int call_once(struct bx_registry *r, struct bx_http *h, struct bx_registry_call *call,
                     struct bx_http_response *resp, boxlite_error **err)
{
    for (int attempt = 0;; attempt++) {
        uint64_t generation;
        _cleanup_free_ char *authorization = current_authorization(r, &generation);
        int rc = follow(r, h, call, authorization, resp, err);

        if (rc < 0) {
            return rc;
        }
        r->answered = true;
        if (resp->status != 401 || attempt > 0 || resp->challenges.n == 0 ||
            !bx_url_same_origin(call->ended_at, r->base)) {
            return 0;
        }
        rc = authorize(r, h, resp, generation, &call->failure, err);
        if (rc < 0) {
            return rc;
        }
    }
}

int bx_registry_call(struct bx_registry *r, struct bx_http *h, struct bx_registry_call *call,
                     struct bx_http_response *ret, boxlite_error **err)
{
    _cleanup_error_ boxlite_error *why = NULL;
    int rc = call_once(r, h, call, ret, &why);

    if (rc < 0 && fall_back_to_http(r, call)) {
        boxlite_error_free(steal_ptr(&why));
        rc = call_once(r, h, call, ret, &why);
    }
    if (rc < 0) {
        if (call->failure == BX_HTTP_UNREACHED) {
            bx_hint(&why,
                    "check the name (an image of your own comes in by boxlite image load), the "
                    "network, and the proxy (HTTPS_PROXY, or registries.json)");
        } else if (call->failure == BX_HTTP_NOT_TLS) {
            bx_hint(
                &why,
                "if it is meant to be reached without TLS, use --plain-http, or \"plain_http\" in registries.json");
        }
        return bx_fail_again(err, why);
    }
    if ((ret->status >= 200 && ret->status < 300) ||
        (ret->status == 404 && bx_streq(call->http.method, "HEAD"))) {
        return 0;
    }
    return fail_status(r, call, ret, err);
}

/* ---- attempts */

static uint64_t backoff_ms(uint32_t made)
{
    uint64_t ms = (uint64_t)BACKOFF_MS << (made < 6 ? made : 6);
    uint32_t jitter;

    ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
    bx_random(&jitter, sizeof(jitter));
    return ms / 2 + jitter % ms; /* half to one and a half times */
}

bool bx_registry_again(struct bx_registry *r, struct bx_http *h, struct bx_attempts *a,
                       enum bx_http_failure failure, uint64_t retry_after,
                       void (*note)(void *data, const char *why), void *note_data,
                       boxlite_error **err)
{
    uint32_t most =
        failure == BX_HTTP_UNREACHED && !r->answered && r->settings->retries > UNREACHED_RETRIES
            ? UNREACHED_RETRIES
            : r->settings->retries;
    uint64_t ms = backoff_ms(a->made);
    boxlite_error *why = NULL;

    if ((failure != BX_HTTP_TRANSIENT && failure != BX_HTTP_UNREACHED) || a->made >= most) {
        return false;
    }
    if (retry_after > RETRY_AFTER_MAX) {
        bx_hint(err, "the registry asks to wait %llu s; try again then",
                (unsigned long long)retry_after);
        return false;
    }
    ms = retry_after * 1000 > ms ? retry_after * 1000 : ms;
    bx_info(r->log, "registry", "again in %llu ms: %s", (unsigned long long)ms,
            err && *err ? boxlite_error_message(*err) : "");
    if (note) {
        note(note_data, err && *err ? boxlite_error_message(*err) : "");
    }
    if (bx_http_pause(h, ms, &why) < 0) {
        boxlite_error_free(*err);
        *err = why;
        return false;
    }
    a->made++;
    boxlite_error_free(steal_ptr(err));
    return true;
}

int bx_registry_reach(struct bx_registry *r, struct bx_http *h, boxlite_error **err)
{
    _cleanup_(bx_registry_call_done) struct bx_registry_call call = {
        .http = {.method = "GET", .body_fd = -1, .timeout_ms = DOCUMENT_MS}};
    _cleanup_response_ struct bx_http_response resp = {0};
    _cleanup_error_ boxlite_error *why = NULL;
    struct bx_attempts attempts = {0};
    int rc;

    do {
        rc = bx_registry_call(r, h, &call, &resp, &why);
    } while (rc < 0 &&
             bx_registry_again(r, h, &attempts, call.failure, resp.retry_after, NULL, NULL, &why));
    return rc < 0 ? bx_fail_again(err, why) : 0;
}

/* ---- manifests */

static int check_manifest(const struct bx_http_response *resp, const char *digest, char *found,
                          boxlite_error **err)
{
    if (bx_sha256_mem(bx_buf_data(&resp->body), resp->body.len, found) < 0) {
        return bx_fail_oom(err);
    }
    if (digest && !bx_streq(found, digest)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the registry sent another manifest than %s",
                       digest);
    }
    if (!digest && resp->digest && bx_digest_valid(resp->digest) &&
        !bx_streq(found, resp->digest)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY,
                       "the manifest is not the one that the registry says it sends");
    }
    return 0;
}

int bx_registry_manifest(struct bx_registry *r, struct bx_http *h, const char *reference,
                         const char *digest, struct bx_buf *ret, char *ret_digest,
                         boxlite_error **err)
{
    _cleanup_free_ char *path = bx_asprintf("manifests/%s", reference);
    _cleanup_(bx_registry_call_done) struct bx_registry_call call = {
        .http = {.method = "GET",
                 .accept = MANIFEST_TYPES,
                 .body_fd = -1,
                 .body_max = BX_MANIFEST_BYTES_MAX,
                 .timeout_ms = DOCUMENT_MS},
        .path = path};
    _cleanup_response_ struct bx_http_response resp = {0};
    _cleanup_error_ boxlite_error *why = NULL;
    struct bx_attempts attempts = {0};
    int rc;

    if (!path) {
        return bx_fail_oom(err);
    }
    do {
        rc = bx_registry_call(r, h, &call, &resp, &why);
    } while (rc < 0 &&
             bx_registry_again(r, h, &attempts, call.failure, resp.retry_after, NULL, NULL, &why));
    if (rc < 0) {
        return bx_fail_again(err, why);
    }
    rc = check_manifest(&resp, digest, ret_digest, err);
    if (rc == 0 && bx_buf_append(ret, bx_buf_data(&resp.body), resp.body.len) < 0) {
        rc = bx_fail_oom(err);
    }
    return rc;
}
