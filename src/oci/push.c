/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.c: an image of the store to a registry, byte for byte as it lies here: its digest stays.
 *
 * Blobs first, several at once, then the manifest: so the registry never has a manifest whose blobs are missing. A blob
 * that the registry has, in this repository or in another from which it may be mounted, is not sent. An upload that
 * fails starts anew: sessions of registries differ too much in what they keep.
 */
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "oci/blobs.h"
#include "oci/fetch.h"

#define THREADS_MAX 16
#define COMMIT_FACTOR                                                                              \
    4 /* the registry digests a blob before it answers: a longer silence is in order */
#define DOCUMENT_MS 60000u

struct push {
    const struct bx_transfer *t;
    struct bx_registries settings;
    struct bx_reporter reporter;
    struct bx_reference to;
    struct bx_image_row row;
    struct bx_manifest manifest;
    struct bx_registry *registry;
    char *elsewhere; /* a repository of the same registry that may have the blobs, or NULL */
    pthread_mutex_t lock;
    size_t next; /* blob: 0 is the config, then the layers */
    boxlite_error *failure;
};

/* ---- one blob */

struct upload {
    struct push *p;
    const struct bx_descriptor *blob;
    const char *kind;
    uint64_t told;
};

static void report(struct upload *u, int state, uint64_t done, const char *note)
{
    bx_report(&u->p->reporter, u->kind, u->blob->digest, state, done, u->blob->size, note);
}

static void on_sent(void *data, uint64_t bytes)
{
    struct upload *u = data;

    if (bytes < u->told || bytes - u->told >= (512u << 10) || bytes == u->blob->size) {
        u->told = bytes;
        report(u, BOXLITE_TRANSFER_RUNNING, bytes, NULL);
    }
}

static void note_retry(void *data, const char *why)
{
    report(data, BOXLITE_TRANSFER_RETRYING, 0, why);
}

/* 1: the registry has it. */
static int ask(struct upload *u, struct bx_http *h, enum bx_http_failure *failure,
               struct bx_http_response *resp, boxlite_error **err)
{
    _cleanup_free_ char *path = bx_asprintf("blobs/%s", u->blob->digest);
    _cleanup_(bx_registry_call_done) struct bx_registry_call call = {
        .http = {.method = "HEAD", .body_fd = -1, .timeout_ms = DOCUMENT_MS}, .path = path};
    int r = path ? bx_registry_call(u->p->registry, h, &call, resp, err) : bx_fail_oom(err);

    *failure = call.failure;
    return r < 0 ? r : resp->status == 200;
}

/* Opens an upload: 0 with where it goes, or 1 if the blob was mounted from elsewhere. */
static int open_upload(struct upload *u, struct bx_http *h, char **ret_url,
                       enum bx_http_failure *failure, struct bx_http_response *resp,
                       boxlite_error **err)
{
    _cleanup_free_ char *path = u->p->elsewhere ? bx_asprintf("blobs/uploads/?mount=%s&from=%s",
                                                              u->blob->digest, u->p->elsewhere)
                                                : strdup("blobs/uploads/");
    _cleanup_(bx_registry_call_done) struct bx_registry_call call = {
        .http = {.method = "POST", .body_fd = -1, .timeout_ms = DOCUMENT_MS}, .path = path};
    int r = path ? bx_registry_call(u->p->registry, h, &call, resp, err) : bx_fail_oom(err);

    *failure = call.failure;
    if (r < 0 || resp->status == 201) {
        return r < 0 ? r : 1;
    }
    *failure = BX_HTTP_PERMANENT;
    if (!resp->location) {
        return bx_fail(err, BOXLITE_E_NETWORK, "the registry does not say where the upload goes");
    }
    r = bx_url_resolve(call.ended_at, resp->location, ret_url, err);
    if (r == 0 && bx_url_is_https(call.ended_at) && !bx_url_is_https(*ret_url)) {
        r = bx_fail(err, BOXLITE_E_NETWORK, "the registry wants the upload without TLS");
    }
    return r;
}

static int send(struct upload *u, struct bx_http *h, const char *where,
                enum bx_http_failure *failure, struct bx_http_response *resp, boxlite_error **err)
{
    _cleanup_free_ char *url = bx_url_with(where, "digest", u->blob->digest);
    _cleanup_close_ int fd = -1;
    uint64_t size = 0;
    int r = url ? bx_blob_open(u->p->t->im, u->blob->digest, &fd, &size, err) : bx_fail_oom(err);

    *failure = BX_HTTP_PERMANENT;
    if (r == 0 && size != u->blob->size) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY, "blob %s is damaged", u->blob->digest);
    }
    if (r < 0) {
        return r;
    }
    _cleanup_(bx_registry_call_done) struct bx_registry_call call = {
        .http = {.method = "PUT",
                 .content_type = "application/octet-stream",
                 .body_fd = fd,
                 .body_size = size,
                 .sent = on_sent,
                 .sent_data = u,
                 .stall_ms = u->p->settings.stall_ms * COMMIT_FACTOR},
        .url = url};
    r = bx_registry_call(u->p->registry, h, &call, resp, err);
    *failure = call.failure;
    return r;
}

/* One attempt: 0 sent, 1 it was there. */
static int push_once(struct upload *u, struct bx_http *h, enum bx_http_failure *failure,
                     struct bx_http_response *resp, boxlite_error **err)
{
    _cleanup_free_ char *url = NULL;
    int r = ask(u, h, failure, resp, err);

    r = r != 0 ? r : open_upload(u, h, &url, failure, resp, err);
    if (r != 0) {
        return r;
    }
    report(u, BOXLITE_TRANSFER_RUNNING, 0, NULL);
    return send(u, h, url, failure, resp, err);
}

static int push_blob(struct upload *u, struct bx_http *h, boxlite_error **err)
{
    _cleanup_response_ struct bx_http_response resp = {0};
    _cleanup_error_ boxlite_error *why = NULL;
    struct bx_attempts attempts = {0};
    enum bx_http_failure failure;
    int r;

    do {
        r = push_once(u, h, &failure, &resp, &why);
    } while (r < 0 && bx_registry_again(u->p->registry, h, &attempts, failure, resp.retry_after,
                                        note_retry, u, &why));
    if (r < 0) {
        return bx_fail_again(err, why);
    }
    report(u, r == 1 ? BOXLITE_TRANSFER_PRESENT : BOXLITE_TRANSFER_DONE, u->blob->size, NULL);
    return 0;
}

/* ---- all blobs */

static void stop(struct push *p, boxlite_error *take)
{
    uint64_t one = 1;

    (void)pthread_mutex_lock(&p->lock);
    if (p->failure) {
        boxlite_error_free(take);
    } else {
        p->failure = take;
    }
    (void)pthread_mutex_unlock(&p->lock);
    (void)bx_write_full(p->t->cancel_fd, &one, sizeof(one));
}

static bool take_next(struct push *p, struct upload *ret)
{
    size_t i;

    (void)pthread_mutex_lock(&p->lock);
    i = p->failure ? p->manifest.n + 1 : p->next;
    p->next += i <= p->manifest.n ? 1 : 0;
    (void)pthread_mutex_unlock(&p->lock);
    if (i > p->manifest.n) {
        return false;
    }
    *ret = (struct upload){.p = p,
                           .blob = i ? &p->manifest.items[i - 1] : &p->manifest.config,
                           .kind = i ? "layer" : "config"};
    return true;
}

static void *push_blobs(void *data)
{
    struct push *p = data;
    _cleanup_http_ struct bx_http *h = NULL;
    boxlite_error *err = NULL;
    struct upload u;
    int r = bx_http_new(p->t->cancel_fd, &h, &err);

    while (r == 0 && take_next(p, &u)) {
        r = push_blob(&u, h, &err);
        if (r < 0) {
            bx_wrap(&err, "%s %.12s", u.kind, u.blob->digest + strlen("sha256:"));
        }
    }
    if (r < 0) {
        stop(p, err);
    }
    return NULL;
}

/* This thread takes its part; where no more can be started it does all. */
static int push_all(struct push *p, boxlite_error **err)
{
    pthread_t threads[THREADS_MAX];
    size_t n = 0, most = p->settings.parallel - 1;

    most = most < p->manifest.n ? most : p->manifest.n;
    while (n < most && n < THREADS_MAX && pthread_create(&threads[n], NULL, push_blobs, p) == 0) {
        n++; /* signals are blocked here, and so in the new thread */
    }
    (void)push_blobs(p);
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return p->failure ? bx_fail_again(err, p->failure) : 0;
}

/* ---- the manifest */

static int put_manifest(struct push *p, struct bx_http *h, boxlite_error **err)
{
    _cleanup_free_ char *path = bx_asprintf("manifests/%s", p->to.tag ? p->to.tag : p->row.digest);
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX);
    _cleanup_response_ struct bx_http_response resp = {0};
    _cleanup_error_ boxlite_error *why = NULL;
    _cleanup_free_ char *type = NULL;
    struct bx_attempts attempts = {0};
    int r = path ? bx_blob_read(p->t->im, p->row.digest, &text, err) : bx_fail_oom(err);

    r = r < 0 ? r : bx_manifest_media_type(bx_buf_data(&text), text.len, &type, err);
    if (r < 0) {
        return r;
    }
    _cleanup_(bx_registry_call_done) struct bx_registry_call call = {
        .http = {.method = "PUT",
                 .content_type = type,
                 .body = bx_buf_data(&text),
                 .body_len = text.len,
                 .body_fd = -1,
                 .timeout_ms = DOCUMENT_MS},
        .path = path};
    do {
        r = bx_registry_call(p->registry, h, &call, &resp, &why);
    } while (r < 0 && bx_registry_again(p->registry, h, &attempts, call.failure, resp.retry_after,
                                        NULL, NULL, &why));
    if (r < 0) {
        bx_wrap(&why, "manifest");
        return bx_fail_again(err, why);
    }
    if (resp.digest && bx_digest_valid(resp.digest) && !bx_streq(resp.digest, p->row.digest)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the registry took the manifest for another, %s",
                       resp.digest);
    }
    bx_report(&p->reporter, "manifest", p->row.digest, BOXLITE_TRANSFER_DONE, text.len, text.len,
              NULL);
    return 0;
}

/* ---- which image, where to */

static int choose_target(struct push *p, const char *ref, const char *to, boxlite_error **err)
{
    _cleanup_free_ char *full = NULL;
    int r = bx_reference_parse(to ? to : ref, &p->to, err);

    if (r < 0 || to) {
        return r;
    }
    full = bx_reference_full(&p->to);
    for (size_t i = 0; full && i < p->row.names.n; i++) {
        if (bx_streq(p->row.names.v[i], full)) {
            return 0;
        }
    }
    r = full ? bx_fail(err, BOXLITE_E_INVALID, "an id is no name for a registry")
             : bx_fail_oom(err);
    bx_hint(err, "say under which name: boxlite push %s HOST/NAME:TAG", ref);
    return r;
}

static void find_elsewhere(struct push *p)
{
    for (size_t i = 0; i < p->row.names.n && !p->elsewhere; i++) {
        struct bx_reference other = {0};
        if (bx_reference_parse(p->row.names.v[i], &other, NULL) < 0) {
            continue;
        }
        if (bx_streq(other.host, p->to.host) && !bx_streq(other.path, p->to.path)) {
            p->elsewhere = steal_ptr(&other.path);
        }
        bx_reference_done(&other);
    }
}

static int prepare(struct push *p, const char *ref, const char *to, boxlite_error **err)
{
    int r = bx_registries_load(p->t->im->home, &p->settings, err);

    r = r < 0 ? r : bx_image_find(p->t->im, ref, &p->row, err);
    r = r < 0 ? r : choose_target(p, ref, to, err);
    r = r < 0 ? r
              : bx_manifest_parse(p->row.manifest, strlen(p->row.manifest), "manifest",
                                  &p->manifest, err);
    if (r == 0) {
        find_elsewhere(p);
    }
    return r < 0 ? r : bx_registry_new(&p->settings, p->t, &p->to, NULL, true, &p->registry, err);
}

static int push(struct push *p, struct bx_transfer_result *ret, boxlite_error **err)
{
    _cleanup_http_ struct bx_http *h = NULL;
    _cleanup_close_ int lease = -1;
    _cleanup_free_ char *digest = strdup(p->row.digest);
    _cleanup_free_ char *name = bx_reference_full(&p->to);
    int r = digest && name ? bx_blobs_lease(p->t->im, &lease, err) : bx_fail_oom(err);

    r = r < 0 ? r : bx_http_new(p->t->cancel_fd, &h, err);
    r = r < 0 ? r : bx_registry_reach(p->registry, h, err);
    r = r < 0 ? r : push_all(p, err);
    r = r < 0 ? r : put_manifest(p, h, err);
    if (r == 0) {
        *ret = (struct bx_transfer_result){.digest = steal_ptr(&digest), .name = steal_ptr(&name)};
    }
    return r;
}

static void push_done(struct push *p)
{
    bx_reference_done(&p->to);
    bx_image_row_done(&p->row);
    bx_manifest_done(&p->manifest);
    bx_registry_free(p->registry);
    bx_registries_done(&p->settings);
    boxlite_error_free(p->failure);
    free(p->elsewhere);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_mutex_destroy(&p->reporter.lock);
}

int bx_image_push(const struct bx_transfer *t, const char *ref, const char *to,
                  struct bx_transfer_result *ret, boxlite_error **err)
{
    _cleanup_(push_done) struct push p = {.t = t, .reporter = {.t = t}};
    int r;

    (void)pthread_mutex_init(&p.lock, NULL);
    (void)pthread_mutex_init(&p.reporter.lock, NULL);
    r = prepare(&p, ref, to, err);
    r = r < 0 ? r : push(&p, ret, err);
    if (r < 0) {
        _cleanup_free_ char *shown = bx_escape(ref, strlen(ref), 300);
        bx_wrap(err, "pushing %s", shown ? shown : "?");
    }
    return r;
}
