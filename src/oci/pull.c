/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c: an image from a registry into the store.
 *
 * Manifest and config come first: they tell whether the image can run here and how much room it needs, before anything
 * big moves. Then a few threads fetch layers, each with its own connection, while this one builds the root image and
 * waits for each layer where it is not there yet. The row comes last, as with every way an image comes in.
 *
 * A lease keeps what has been fetched from being cleared before it has a row. If one part fails, the others are ended
 * by the same descriptor that a cancelled transfer ends them with; the first failure is the one that is told.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "oci/blobs.h"
#include "oci/fetch.h"
#include "oci/record.h"
#include "oci/root.h"

#define NESTING_MAX 3
#define PLACES_MAX 17            /* the mirrors that registries.json may name, and one */
#define ROOT_FACTOR_PERCENT 150u /* of the packed layers: what their root image takes */
#define SPACE_EXTRA (64ull << 20)
#define IDLE_MS 100

struct pull {
    const struct bx_transfer *t;
    const struct bx_registries *settings;
    struct bx_reporter reporter;
    struct bx_reference ref;
    struct bx_registry *places
        [PLACES_MAX];   /* the mirrors in their order, then the registry itself; made when needed */
    size_t nplaces, at; /* how many; the one that gave the manifest */
    struct bx_http *http; /* of this thread */
    struct bx_buf manifest_text, config_text;
    char digest[BX_DIGEST_LEN + 1];
    struct bx_manifest manifest;
    /* The threads, under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t next; /* layer to fetch */
    bool *there; /* of each layer */
    boxlite_error *failure;
};

/* ---- which manifest */

static int fail_platform(const struct pull *p, const struct bx_manifest *index, boxlite_error **err)
{
    _cleanup_free_ char *list = bx_index_platforms(index);
    int r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "the image is not made for linux/%s, but for %s",
                    bx_host_architecture(), list && *list ? list : "nothing that is named");

    bx_hint(err, "find an image for linux/%s, the architecture of this host",
            bx_host_architecture());
    return r;
}

/* "linux/ARCH[/VARIANT]" must be what this host runs; the variant is borrowed. */
static int read_platform(const char *platform, const char **ret_variant, boxlite_error **err)
{
    _cleanup_free_ char *own = bx_asprintf("linux/%s", bx_host_architecture());
    _cleanup_free_ char *shown = NULL;
    size_t n = own ? strlen(own) : 0;
    int r;

    *ret_variant = NULL;
    if (!own) {
        return bx_fail_oom(err);
    }
    if (!platform) {
        return 0;
    }
    if (strncmp(platform, own, n) == 0 &&
        (platform[n] == '\0' || (platform[n] == '/' && platform[n + 1]))) {
        *ret_variant = platform[n] ? platform + n + 1 : NULL;
        return 0;
    }
    shown = bx_escape(platform, strlen(platform), 64);
    r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "platform %s: boxes of this host run %s",
                shown ? shown : "?", own);
    bx_hint(err, "leave --platform out, or write %s", own);
    return r;
}

/* Follows indexes down to a manifest. */
static int resolve(struct pull *p, struct bx_registry *place, boxlite_error **err)
{
    const char *variant, *reference = p->ref.digest ? p->ref.digest : p->ref.tag;
    _cleanup_free_ char *wanted = p->ref.digest ? strdup(p->ref.digest) : NULL;
    int r = read_platform(p->t->options->platform, &variant, err);

    for (int level = 0; r == 0; level++) {
        const struct bx_descriptor *chosen;
        bx_buf_clear(&p->manifest_text);
        bx_manifest_done(&p->manifest);
        r = bx_registry_manifest(place, p->http, reference, wanted, &p->manifest_text, p->digest,
                                 err);
        r = r < 0 ? r
                  : bx_manifest_parse(bx_buf_data(&p->manifest_text), p->manifest_text.len,
                                      "manifest", &p->manifest, err);
        if (r < 0 || p->manifest.kind == BX_DOC_MANIFEST) {
            return r;
        }
        chosen = bx_index_choose_variant(&p->manifest, variant);
        if (!chosen) {
            return fail_platform(p, &p->manifest, err);
        }
        if (level >= NESTING_MAX) {
            return bx_fail(err, BOXLITE_E_INTEGRITY, "indexes nested too deep");
        }
        free(wanted);
        reference = wanted = strdup(chosen->digest);
        r = wanted ? 0 : bx_fail_oom(err);
    }
    return r;
}

/* The place by its number, made at its first use. */
static int get_place(struct pull *p, size_t i, struct bx_registry **ret, boxlite_error **err)
{
    const struct bx_registry_settings *s = bx_registries_find(p->settings, p->ref.host);
    int r = 0;

    (void)pthread_mutex_lock(&p->lock);
    if (!p->places[i]) {
        r = bx_registry_new(p->settings, p->t, &p->ref, i + 1 < p->nplaces ? s->mirrors.v[i] : NULL,
                            false, &p->places[i], err);
    }
    *ret = p->places[i];
    (void)pthread_mutex_unlock(&p->lock);
    return r;
}

/* Whether, after that error, the next place may do better. */
static bool worth_asking_on(const struct pull *p, size_t i, int error)
{
    static const int errors[] = {BOXLITE_E_NOT_FOUND, BOXLITE_E_AUTH,      BOXLITE_E_NETWORK,
                                 BOXLITE_E_TIMEOUT,   BOXLITE_E_INTEGRITY, BOXLITE_E_DENIED};

    for (size_t k = 0; i + 1 < p->nplaces && k < BX_ARRAY_SIZE(errors); k++) {
        if (error == errors[k]) {
            return true;
        }
    }
    return false;
}

static void pass_over(const struct pull *p, size_t i, boxlite_error **why)
{
    bx_info(p->t->im->log, "registry", "mirror %s: %s", p->places[i] ? p->places[i]->host : "?",
            boxlite_error_message(*why));
    boxlite_error_free(steal_ptr(why));
}

/* From the first place that has it. */
static int find_manifest(struct pull *p, boxlite_error **err)
{
    const struct bx_registry_settings *s = bx_registries_find(p->settings, p->ref.host);
    _cleanup_error_ boxlite_error *why = NULL;
    struct bx_registry *place;
    int r;

    p->nplaces = s ? s->mirrors.n + 1 : 1;
    for (p->at = 0;; p->at++) {
        r = get_place(p, p->at, &place, &why);
        r = r < 0 ? r : resolve(p, place, &why);
        if (r == 0) {
            bx_report(&p->reporter, "manifest", p->digest, BOXLITE_TRANSFER_DONE,
                      p->manifest_text.len, p->manifest_text.len, NULL);
            return 0;
        }
        if (!worth_asking_on(p, p->at, r)) {
            return bx_fail_again(err, why);
        }
        pass_over(p, p->at, &why);
    }
}

/* A blob from the place that gave the manifest, or from one behind it. */
static int fetch(struct pull *p, const struct bx_descriptor *blob, const char *kind,
                 struct bx_http *h, boxlite_error **err)
{
    struct bx_fetch f = {.im = p->t->im, .reporter = &p->reporter, .blob = blob, .kind = kind};
    _cleanup_error_ boxlite_error *why = NULL;

    for (size_t i = p->at;; i++) {
        int r = get_place(p, i, &f.registry, &why);
        r = r < 0 ? r : bx_fetch_blob(&f, h, &why);
        if (r == 0) {
            return 0;
        }
        if (!worth_asking_on(p, i, r)) {
            return bx_fail_again(err, why);
        }
        pass_over(p, i, &why);
    }
}

/* ---- config and room */

static int fetch_config(struct pull *p, boxlite_error **err)
{
    _cleanup_config_ struct bx_config config = {0};
    int r;

    if (p->manifest.config.size > BX_MANIFEST_BYTES_MAX) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "config: it has more than %u bytes",
                       BX_MANIFEST_BYTES_MAX);
    }
    r = fetch(p, &p->manifest.config, "config", p->http, err);
    r = r < 0 ? r : bx_blob_read(p->t->im, p->manifest.config.digest, &p->config_text, err);
    r = r < 0 ? r
              : bx_config_parse(bx_buf_data(&p->config_text), p->config_text.len, "config", &config,
                                err);
    if (r == 0 && config.diff_ids.n != p->manifest.n) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY, "%zu layers but %zu diff_ids", p->manifest.n,
                    config.diff_ids.n);
    }
    return r;
}

static int check_space(struct pull *p, boxlite_error **err)
{
    uint64_t all = 0, missing = 0;

    for (size_t i = 0; i < p->manifest.n; i++) {
        const struct bx_descriptor *d = &p->manifest.items[i];
        all += d->size;
        missing += bx_blob_exists(p->t->im, d->digest) ? 0 : d->size;
    }
    if (missing == 0) {
        return 0;
    }
    return bx_home_need_space(p->t->im->home,
                              missing + all / 100 * ROOT_FACTOR_PERCENT + SPACE_EXTRA,
                              "the image and its root", err);
}

/* ---- layers */

static void stop(struct pull *p, boxlite_error *take)
{
    uint64_t one = 1;

    (void)pthread_mutex_lock(&p->lock);
    if (p->failure) {
        boxlite_error_free(take);
    } else {
        p->failure = take;
    }
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    (void)bx_write_full(p->t->cancel_fd, &one,
                        sizeof(one)); /* an event descriptor: ends all waits */
}

/* The next layer to fetch: its number, or manifest.n. */
static size_t take_next(struct pull *p)
{
    size_t i;

    (void)pthread_mutex_lock(&p->lock);
    i = p->failure ? p->manifest.n : p->next;
    p->next += i < p->manifest.n ? 1 : 0;
    (void)pthread_mutex_unlock(&p->lock);
    return i;
}

static void mark(struct pull *p, size_t layer)
{
    (void)pthread_mutex_lock(&p->lock);
    p->there[layer] = true;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
}

static void *fetch_layers(void *data)
{
    struct pull *p = data;
    _cleanup_http_ struct bx_http *h = NULL;
    boxlite_error *err = NULL;
    int r = bx_http_new(p->t->cancel_fd, &h, &err);

    for (size_t i; r == 0 && (i = take_next(p)) < p->manifest.n;) {
        const struct bx_descriptor *blob = &p->manifest.items[i];
        r = fetch(p, blob, "layer", h, &err);
        if (r == 0) {
            mark(p, i);
        } else {
            bx_wrap(&err, "layer %zu (%.12s)", i + 1, blob->digest + strlen("sha256:"));
        }
    }
    if (r < 0) {
        stop(p, err);
    }
    return NULL;
}

/* Called by the building of the root before each layer. */
static int wait_for_layer(void *data, size_t layer, boxlite_error **err)
{
    struct pull *p = data;
    int r;

    (void)pthread_mutex_lock(&p->lock);
    while (!p->there[layer] && !p->failure) {
        (void)pthread_cond_wait(&p->changed, &p->lock);
    }
    r = p->failure ? bx_fail_again(err, p->failure) : 0;
    (void)pthread_mutex_unlock(&p->lock);
    return r;
}

static int check_running(void *data, boxlite_error **err)
{
    struct pull *p = data;
    int r;

    (void)pthread_mutex_lock(&p->lock);
    r = p->failure ? bx_fail_again(err, p->failure) : 0;
    (void)pthread_mutex_unlock(&p->lock);
    return r < 0 ? r : bx_http_pause(p->http, 0, err);
}

static int idle(void *data, boxlite_error **err)
{
    struct pull *p = data;

    bx_report(&p->reporter, "root", p->digest, BOXLITE_TRANSFER_WAITING, 0, 0,
              "another process is building it");
    return bx_http_pause(p->http, IDLE_MS, err);
}

static void root_progress(void *data, const char *what, uint64_t done, uint64_t total)
{
    struct pull *p = data;

    (void)what;
    bx_report(&p->reporter, "root", p->digest,
              done == total ? BOXLITE_TRANSFER_DONE : BOXLITE_TRANSFER_RUNNING, done, total, NULL);
}

/* Signals are for the threads of the program that embeds us. */
static int start_thread(pthread_t *ret, struct pull *p)
{
    sigset_t all, old;
    int r;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(ret, NULL, fetch_layers, p);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -r;
}

static int build(struct pull *p, uint64_t *ret_size, boxlite_error **err)
{
    struct bx_images im = *p->t->im;
    struct bx_root_wait wait = {
        .ready = wait_for_layer, .check = check_running, .idle = idle, .data = p};

    im.progress = root_progress;
    im.progress_data = p;
    return bx_root_build_from(&im, p->digest, &wait, ret_size, err);
}

static int fetch_and_build(struct pull *p, uint64_t *ret_size, boxlite_error **err)
{
    pthread_t threads[16];
    size_t n = 0, most = p->settings->parallel;
    boxlite_error *why = NULL;
    int r = 0;

    most = most < p->manifest.n ? most : p->manifest.n;
    most = most < BX_ARRAY_SIZE(threads) ? most : BX_ARRAY_SIZE(threads);
    while (n < most && (r = start_thread(&threads[n], p)) == 0) {
        n++;
    }
    if (n == 0 && most > 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "starting a thread");
    }
    r = build(p, ret_size, &why);
    if (r < 0) {
        stop(p, why);
    }
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return p->failure ? bx_fail_again(err, p->failure) : 0;
}

/* ---- one candidate */

static int store_documents(struct pull *p, boxlite_error **err)
{
    char digest[BX_DIGEST_LEN + 1];

    return bx_blob_write(p->t->im, bx_buf_data(&p->manifest_text), p->manifest_text.len, digest,
                         err);
}

/* With the row the lease has done its service; while the lock is held, nothing is cleared between. */
static int record(struct pull *p, uint64_t root_size, int *lease, boxlite_error **err)
{
    struct bx_reference name = p->ref;
    _cleanup_free_ char *text = NULL;
    _cleanup_close_ int lock = -1;
    struct bx_record rec = {.digest = p->digest,
                            .manifest = bx_buf_str(&p->manifest_text),
                            .config = bx_buf_str(&p->config_text),
                            .root_size = root_size};
    int r;

    if (p->ref.digest) { /* what was asked for by digest is found by it, also if it is an index */
        name.tag = NULL;
    }
    rec.name = text = bx_reference_full(&name);
    if (!text) {
        return bx_fail_oom(err);
    }
    r = bx_blobs_lock(p->t->im, &lock, err);
    if (r < 0) {
        return r;
    }
    bx_close(lease);
    return bx_record_image(p->t->im, &rec, NULL, err);
}

/* After a failure that another attempt would only repeat, what was fetched goes. */
static void clear(const struct pull *p, int error)
{
    _cleanup_close_ int lock = -1;

    if (error != BOXLITE_E_NETWORK && error != BOXLITE_E_TIMEOUT &&
        bx_blobs_lock(p->t->im, &lock, NULL) == 0) {
        (void)bx_blobs_clear(p->t->im, NULL);
    }
}

static int pull_leased(struct pull *p, int *lease, boxlite_error **err)
{
    uint64_t size = 0;
    int r = fetch_config(p, err);

    r = r < 0 ? r : check_space(p, err);
    r = r < 0 ? r : store_documents(p, err);
    p->there = r < 0 ? NULL : calloc(p->manifest.n + 1, sizeof(bool));
    if (r == 0 && !p->there) {
        r = bx_fail_oom(err);
    }
    r = r < 0 ? r : fetch_and_build(p, &size, err);
    return r < 0 ? r : record(p, size, lease, err);
}

static int pull_found(struct pull *p, boxlite_error **err)
{
    _cleanup_close_ int lease = -1;
    int r = bx_blobs_lease(p->t->im, &lease, err);

    if (r < 0) {
        return r;
    }
    r = pull_leased(p, &lease, err);
    bx_close(&lease);
    if (r < 0) {
        clear(p, r);
    }
    return r;
}

static void pull_done(struct pull *p)
{
    bx_reference_done(&p->ref);
    for (size_t i = 0; i < p->nplaces; i++) {
        bx_registry_free(p->places[i]);
    }
    bx_http_free(p->http);
    bx_buf_done(&p->manifest_text);
    bx_buf_done(&p->config_text);
    bx_manifest_done(&p->manifest);
    free(p->there);
    boxlite_error_free(p->failure);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_mutex_destroy(&p->reporter.lock);
    (void)pthread_cond_destroy(&p->changed);
}

/* *ret_found: the registry has it, whatever came then. */
static int pull_one(const struct bx_transfer *t, const struct bx_registries *settings,
                    const char *name, bool *ret_found, struct bx_transfer_result *ret,
                    boxlite_error **err)
{
    _cleanup_(pull_done) struct pull p = {.t = t,
                                          .settings = settings,
                                          .reporter = {.t = t},
                                          .manifest_text = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX),
                                          .config_text = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX)};
    int r;

    (void)pthread_mutex_init(&p.lock, NULL);
    (void)pthread_mutex_init(&p.reporter.lock, NULL);
    (void)pthread_cond_init(&p.changed, NULL);
    r = bx_reference_parse(name, &p.ref, err);
    r = r < 0 ? r : bx_http_new(t->cancel_fd, &p.http, err);
    r = r < 0 ? r : find_manifest(&p, err);
    *ret_found = r == 0;
    r = r < 0 ? r : pull_found(&p, err);
    if (r < 0) {
        return r;
    }
    ret->digest = strdup(p.digest);
    ret->name = strdup(name);
    if (!ret->digest || !ret->name) {
        bx_transfer_result_done(ret);
        return bx_fail_oom(err);
    }
    return 0;
}

int bx_image_pull(const struct bx_transfer *t, const char *ref, const char *unused,
                  struct bx_transfer_result *ret, boxlite_error **err)
{
    _cleanup_registries_ struct bx_registries settings = {0};
    _cleanup_strv_ struct bx_strv names = {0};
    _cleanup_error_ boxlite_error *why = NULL;
    bool found = false;
    (void)unused;
    int r = bx_registries_load(t->im->home, &settings, &why);

    r = r < 0 ? r : bx_registries_candidates(&settings, ref, &names, &why);
    for (size_t i = 0; r >= 0 && i < names.n; i++) {
        boxlite_error_free(steal_ptr(&why));
        r = pull_one(t, &settings, names.v[i], &found, ret, &why);
        if (r == 0 || found || r == BOXLITE_E_CANCELLED) {
            break;
        }
        if (i + 1 < names.n) {
            bx_info(t->im->log, "registry", "%s: %s", names.v[i], boxlite_error_message(why));
            r = 0;
        }
    }
    if (r < 0) {
        _cleanup_free_ char *shown = bx_escape(ref, strlen(ref), 300);
        bx_hint_space(&why);
        bx_wrap(&why, "pulling %s", shown ? shown : "?");
        return bx_fail_again(err, why);
    }
    return 0;
}
