/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registries.c: reading registries.json. A key that is not known is an error, not a surprise later: a mistyped "ca"
 * must not mean the system's authorities.
 */
#include "oci/registries.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"

#define FILE_MAX (1u << 20)
#define HOSTS_MAX 256u
#define MIRRORS_MAX 16u
#define SEARCH_MAX 16u
#define CONNECT_SECONDS 15u
#define STALL_SECONDS 30u
#define RETRIES 4u
#define PARALLEL 3u

static void settings_done(struct bx_registry_settings *s)
{
    free(s->host);
    free(s->ca_file);
    free(s->proxy);
    bx_strv_done(&s->mirrors);
}

void bx_registries_done(struct bx_registries *r)
{
    for (size_t i = 0; i < r->n; i++) {
        settings_done(&r->v[i]);
    }
    free(r->v);
    bx_strv_done(&r->search);
    *r = (struct bx_registries){0};
}

static void set_defaults(struct bx_registries *r)
{
    *r = (struct bx_registries){.connect_ms = CONNECT_SECONDS * 1000,
                                .stall_ms = STALL_SECONDS * 1000,
                                .retries = RETRIES,
                                .parallel = PARALLEL};
    r->search.max = SEARCH_MAX;
}

/* All keys of an object are among `known` (NULL-terminated). */
static int check_keys(const json_t *obj, const char *const *known, boxlite_error **err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)obj, key, value)
    {
        size_t i = 0;
        while (known[i] && !bx_streq(known[i], key)) {
            i++;
        }
        if (!known[i]) {
            _cleanup_free_ char *shown = bx_escape(key, strlen(key), 60);
            return bx_fail(err, BOXLITE_E_INVALID, "\"%s\" is no setting", shown ? shown : "?");
        }
    }
    return 0;
}

/* A host as references write it. */
static int check_host(const char *host, boxlite_error **err)
{
    _cleanup_free_ char *text = bx_asprintf("%s/x", host);
    _cleanup_free_ char *shown = NULL;
    struct bx_reference ref = {0};
    bool same;

    if (!text) {
        return bx_fail_oom(err);
    }
    if (!strchr(host, '/') && bx_reference_parse(text, &ref, NULL) == 0) {
        same = bx_streq(ref.host, host);
        bx_reference_done(&ref);
        if (same) {
            return 0;
        }
    }
    shown = bx_escape(host, strlen(host), 100);
    return bx_fail(err, BOXLITE_E_INVALID, "\"%s\" is no registry's HOST[:PORT]",
                   shown ? shown : "?");
}

static int copy_text(const json_t *obj, const char *key, char **ret, boxlite_error **err)
{
    const char *text = NULL;
    int r = bx_json_str(obj, key, true, &text, err);

    return r == 0 && text && !(*ret = strdup(text)) ? bx_fail_oom(err) : r;
}

static int check_mirror(const char *mirror, boxlite_error **err)
{
    const char *host = mirror;
    _cleanup_free_ char *name = NULL;

    if (bx_startswith(host, "http://")) {
        host += strlen("http://");
    } else if (bx_startswith(host, "https://")) {
        host += strlen("https://");
    }
    name = strndup(host, strcspn(host, "/"));
    if (!name) {
        return bx_fail_oom(err);
    }
    if (strpbrk(host, "@?#")) {
        return bx_fail(err, BOXLITE_E_INVALID,
                       "a mirror is [http://]HOST[:PORT][/PREFIX], without a user");
    }
    return check_host(name, err);
}

static int parse_settings(const char *host, const json_t *v, struct bx_registry_settings *s,
                          boxlite_error **err)
{
    static const char *const keys[] = {"ca",      "proxy",   "plain_http", "insecure",
                                       "blocked", "mirrors", NULL};
    int r = check_host(host, err);

    s->mirrors.max = MIRRORS_MAX;
    r = r < 0 ? r : check_keys(v, keys, err);
    r = r < 0 ? r : copy_text(v, "ca", &s->ca_file, err);
    r = r < 0 ? r : copy_text(v, "proxy", &s->proxy, err);
    r = r < 0 ? r : bx_json_bool(v, "plain_http", true, &s->plain_http, err);
    r = r < 0 ? r : bx_json_bool(v, "insecure", true, &s->insecure, err);
    r = r < 0 ? r : bx_json_bool(v, "blocked", true, &s->blocked, err);
    r = r < 0 ? r : bx_json_strv(v, "mirrors", true, &s->mirrors, err);
    for (size_t i = 0; r == 0 && i < s->mirrors.n; i++) {
        r = check_mirror(s->mirrors.v[i], err);
    }
    if (r == 0 && !(s->host = strdup(host))) {
        r = bx_fail_oom(err);
    }
    return r;
}

static int parse_hosts(const json_t *doc, struct bx_registries *ret, boxlite_error **err)
{
    json_t *hosts = NULL, *value;
    const char *host;
    int r = bx_json_object(doc, "registries", true, &hosts, err);

    if (r < 0 || !hosts) {
        return r;
    }
    if (json_object_size(hosts) > HOSTS_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "more than %u registries", HOSTS_MAX);
    }
    ret->v = calloc(json_object_size(hosts) + 1, sizeof(*ret->v));
    if (!ret->v) {
        return bx_fail_oom(err);
    }
    json_object_foreach(hosts, host, value)
    {
        r = parse_settings(host, value, &ret->v[ret->n++], err);
        if (r < 0) {
            _cleanup_free_ char *shown = bx_escape(host, strlen(host), 100);
            bx_wrap(err, "registries: %s", shown ? shown : "?");
            return r;
        }
    }
    return 0;
}

static int parse_seconds(const json_t *doc, const char *key, uint32_t *ms, boxlite_error **err)
{
    uint64_t seconds = *ms / 1000;
    int r = bx_json_u64(doc, key, true, 3600, &seconds, err);

    if (r == 0 && seconds == 0) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: at least 1 second", key);
    }
    *ms = (uint32_t)seconds * 1000;
    return r;
}

static int parse_count(const json_t *doc, const char *key, uint64_t min, uint64_t max,
                       uint32_t *ret, boxlite_error **err)
{
    uint64_t n = *ret;
    int r = bx_json_u64(doc, key, true, max, &n, err);

    if (r == 0 && n < min) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: at least %llu", key, (unsigned long long)min);
    }
    *ret = (uint32_t)n;
    return r;
}

static int parse(const json_t *doc, struct bx_registries *ret, boxlite_error **err)
{
    static const char *const keys[] = {
        "search", "registries", "connect_timeout", "stall_timeout", "retries", "parallel", NULL};
    int r = json_is_object(doc) ? check_keys(doc, keys, err)
                                : bx_fail(err, BOXLITE_E_INVALID, "not an object");

    r = r < 0 ? r : bx_json_strv(doc, "search", true, &ret->search, err);
    for (size_t i = 0; r == 0 && i < ret->search.n; i++) {
        r = check_host(ret->search.v[i], err);
        if (r < 0) {
            bx_wrap(err, "search");
        }
    }
    r = r < 0 ? r : parse_seconds(doc, "connect_timeout", &ret->connect_ms, err);
    r = r < 0 ? r : parse_seconds(doc, "stall_timeout", &ret->stall_ms, err);
    r = r < 0 ? r : parse_count(doc, "retries", 0, 20, &ret->retries, err);
    r = r < 0 ? r : parse_count(doc, "parallel", 1, 16, &ret->parallel, err);
    return r < 0 ? r : parse_hosts(doc, ret, err);
}

int bx_registries_parse(const void *data, size_t len, const char *what, struct bx_registries *ret,
                        boxlite_error **err)
{
    _cleanup_json_ json_t *doc = NULL;
    _cleanup_registries_ struct bx_registries got = {0};
    int r = bx_json_parse(data, len, what, &doc, err);

    if (r < 0) {
        return r;
    }
    set_defaults(&got);
    r = parse(doc, &got, err);
    if (r < 0) {
        bx_wrap(err, "%s", what);
        bx_hint(err, "boxlite-registries(5) lists the settings");
        return r;
    }
    *ret = got;
    got = (struct bx_registries){0};
    return 0;
}

int bx_registries_load(const struct bx_home *home, struct bx_registries *ret, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(FILE_MAX);
    const char *named = getenv("BOXLITE_REGISTRIES");
    bool own = !named || !*named;
    const char *path = own ? "registries.json" : named;
    int r = bx_read_file(own ? home->fd : AT_FDCWD, path, &text);

    if (r == -ENOENT && own) {
        set_defaults(ret);
        return 0;
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_INVALID, r, "reading %s", path);
    }
    return bx_registries_parse(bx_buf_data(&text), text.len, path, ret, err);
}

const struct bx_registry_settings *bx_registries_find(const struct bx_registries *r,
                                                      const char *host)
{
    for (size_t i = 0; i < r->n; i++) {
        if (bx_streq(r->v[i].host, host)) {
            return &r->v[i];
        }
    }
    return NULL;
}

/* Whether a reference of docker.io was written without its host. */
static bool is_short(const char *text, const struct bx_reference *ref)
{
    return bx_streq(ref->host, "docker.io") && !bx_startswith(text, "docker.io/") &&
           !bx_startswith(text, "index.docker.io/");
}

int bx_registries_candidates(const struct bx_registries *r, const char *text, struct bx_strv *ret,
                             boxlite_error **err)
{
    struct bx_reference ref = {0};
    _cleanup_free_ char *full = NULL;
    bool search;
    int rc = bx_reference_parse(text, &ref, err);

    if (rc < 0) {
        return rc;
    }
    full = bx_reference_full(&ref);
    search = is_short(text, &ref) && r->search.n > 0;
    bx_reference_done(&ref);
    if (!search) {
        return full && bx_strv_add(ret, full) == 0 ? 0 : bx_fail_oom(err);
    }
    for (size_t i = 0; rc == 0 && i < r->search.n; i++) {
        _cleanup_free_ char *name = bx_asprintf("%s/%s", r->search.v[i], text);
        rc = name ? bx_reference_parse(name, &ref, err) : bx_fail_oom(err);
        if (rc == 0) {
            _cleanup_free_ char *one = bx_reference_full(&ref);
            bx_reference_done(&ref);
            rc = one && bx_strv_add(ret, one) == 0 ? 0 : bx_fail_oom(err);
        }
    }
    return rc;
}
