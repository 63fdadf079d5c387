/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials.c: where credentials are looked for, and the files that hold them.
 *
 * Order: the file that the caller names; else that of $REGISTRY_AUTH_FILE; else $DOCKER_CONFIG/config.json (or
 * ~/.docker/config.json), then Podman's auth.json in the runtime and the configuration folder. The first that knows
 * the host is believed. Within a file, a helper for the host comes before the global helper, and that before what the
 * file itself holds. Entries for "HOST/NAMESPACE" (Podman) are better than those for "HOST".
 *
 * No secret is ever part of an error.
 */
#include "oci/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "oci/credhelper.h"

#define FILE_MAX (4u << 20)
#define HUB "docker.io"
#define HUB_KEY "https://index.docker.io/v1/"

void bx_credential_done(struct bx_credential *c)
{
    free(c->user);
    if (c->secret) {
        explicit_bzero(c->secret, strlen(c->secret));
    }
    free(c->secret);
    *c = (struct bx_credential){0};
}

void bx_credential_source_done(struct bx_credential_source *s)
{
    bx_credential_done(&s->credential);
    free(s->helper);
    *s = (struct bx_credential_source){0};
}

/* ---- one file */

/* The key of an entry as HOST[/PATH]: without scheme, slashes at the end, and the version of the interface. */
static char *plain_key(const char *key)
{
    static const char *const hub[] = {"index.docker.io", "registry-1.docker.io"};
    const char *start = strstr(key, "://");
    char *s = strdup(start ? start + 3 : key);
    size_t n = s ? strlen(s) : 0;

    if (!s) {
        return NULL;
    }
    while (n > 0 && s[n - 1] == '/') {
        s[--n] = '\0';
    }
    if (bx_endswith(s, "/v1") || bx_endswith(s, "/v2")) {
        s[n - 3] = '\0';
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(hub); i++) {
        if (bx_streq(s, hub[i])) {
            free(s);
            return strdup(HUB);
        }
    }
    return s;
}

/* How well a key fits host/path: the length of what it covers, 0 if it does not. */
static size_t fit(const char *key, const char *host, const char *path)
{
    _cleanup_free_ char *plain = plain_key(key);
    _cleanup_free_ char *whole = bx_asprintf("%s/%s", host, path);
    size_t n = plain ? strlen(plain) : 0;

    if (!plain || !whole || n < strlen(host) || strncmp(plain, whole, n) != 0) {
        return 0;
    }
    return whole[n] == '/' || whole[n] == '\0' ? n : 0;
}

/* The best fitting entry of an object, or NULL. */
static json_t *best_entry(json_t *obj, const char *host, const char *path)
{
    json_t *value, *best = NULL;
    const char *key;
    size_t most = 0;

    json_object_foreach(obj, key, value)
    {
        size_t n = fit(key, host, path);
        if (n > most) {
            most = n;
            best = value;
        }
    }
    return best;
}

static int fail_entry(const char *host, boxlite_error **err)
{
    int r = bx_fail(err, BOXLITE_E_INVALID, "the entry for %s is damaged", host);

    bx_hint(err, "make it anew with: boxlite login %s", host);
    return r;
}

/* "auth": base64 of USER:SECRET */
static int take_pair(const char *auth, const char *host, struct bx_credential *c,
                     boxlite_error **err)
{
    size_t len = 0;
    _cleanup_free_ char *text = bx_base64_decode(auth, &len);
    char *colon = text ? memchr(text, ':', len) : NULL;

    if (!text && errno == ENOMEM) {
        return bx_fail_oom(err);
    }
    if (!colon || colon == text || strlen(text) != len) {
        return fail_entry(host, err);
    }
    *colon = '\0';
    c->user = strdup(text);
    c->secret = strdup(colon + 1);
    explicit_bzero(text, len);
    return c->user && c->secret ? 0 : bx_fail_oom(err);
}

static int take_entry(const json_t *entry, const char *host, struct bx_credential *c,
                      boxlite_error **err)
{
    const char *auth = NULL, *user = NULL, *secret = NULL, *token = NULL;
    int r = bx_json_str(entry, "auth", true, &auth, err);

    r = r < 0 ? r : bx_json_str(entry, "username", true, &user, err);
    r = r < 0 ? r : bx_json_str(entry, "password", true, &secret, err);
    r = r < 0 ? r : bx_json_str(entry, "identitytoken", true, &token, err);
    if (r < 0) {
        return r;
    }
    if (token && *token) {
        c->identity_token = true;
        c->user = strdup("<token>");
        c->secret = strdup(token);
    } else if (auth && *auth) {
        return take_pair(auth, host, c, err);
    } else if (user && *user) {
        c->user = strdup(user);
        c->secret = strdup(secret ? secret : "");
    } else {
        return 0; /* an empty entry: the secret is with a helper */
    }
    return c->user && c->secret ? 0 : bx_fail_oom(err);
}

static int take_helper(json_t *doc, const char *host, const char *path, char **ret,
                       boxlite_error **err)
{
    json_t *helpers = NULL;
    const char *name = NULL;
    int r = bx_json_object(doc, "credHelpers", true, &helpers, err);

    if (r == 0 && helpers) {
        name = json_string_value(best_entry(helpers, host, path));
    }
    if (r == 0 && !name) {
        r = bx_json_str(doc, "credsStore", true, &name, err);
    }
    if (r < 0 || !name || !*name) {
        return r;
    }
    if (!bx_credhelper_valid(name)) {
        return bx_fail(err, BOXLITE_E_INVALID, "the name of a credential helper is not valid");
    }
    *ret = strdup(name);
    return *ret ? 0 : bx_fail_oom(err);
}

int bx_credentials_parse(const void *data, size_t len, const char *what, const char *host,
                         const char *path, struct bx_credential_source *ret, boxlite_error **err)
{
    struct bx_credential_source got = {0};
    _cleanup_json_ json_t *doc = NULL;
    json_t *auths = NULL, *entry;
    int r = bx_json_parse(data, len, what, &doc, err);

    if (r < 0) {
        return r;
    }
    r = bx_json_object(doc, "auths", true, &auths, err);
    entry = r == 0 && auths ? best_entry(auths, host, path) : NULL;
    if (entry) {
        r = take_entry(entry, host, &got.credential, err);
    }
    if (r == 0) {
        r = take_helper(doc, host, path, &got.helper, err);
    }
    if (r < 0) {
        bx_wrap(err, "%s", what);
        bx_credential_source_done(&got);
        return r;
    }
    *ret = got;
    return 0;
}

/* ---- the files */

/* Each a path (caller frees); absent ones are fine unless the user named it. */
struct places {
    struct bx_strv paths;
    bool named;
};

static int add_place(struct places *p, const char *env, const char *home_folder, const char *name)
{
    const char *folder = env ? getenv(env) : NULL, *home = getenv("HOME");
    _cleanup_free_ char *path = NULL;

    if (folder && *folder) {
        path = bx_path_join(folder, name);
    } else if (home_folder && home && *home) {
        path = bx_asprintf("%s/%s/%s", home, home_folder, name);
    } else {
        return 0;
    }
    return path ? bx_strv_add(&p->paths, path) : -ENOMEM;
}

static int list_places(const char *file, struct places *p)
{
    const char *env = getenv("REGISTRY_AUTH_FILE");
    int r;

    if (file || (env && *env)) {
        p->named = true;
        return bx_strv_add(&p->paths, file ? file : env);
    }
    r = add_place(p, "DOCKER_CONFIG", ".docker", "config.json");
    r = r < 0 ? r : add_place(p, "XDG_RUNTIME_DIR", NULL, "containers/auth.json");
    return r < 0 ? r : add_place(p, "XDG_CONFIG_HOME", ".config", "containers/auth.json");
}

/* 1: it knows the host. */
static int ask_file(const char *path, bool named, const char *host, const char *repo,
                    struct bx_credential *ret, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(FILE_MAX);
    _cleanup_(bx_credential_source_done) struct bx_credential_source s = {0};
    int r = bx_read_file(AT_FDCWD, path, &text);

    if (r == -ENOENT && !named) {
        return 0;
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading %s", path);
    }
    if (text.len == 0) {
        return 0;
    }
    r = bx_credentials_parse(bx_buf_data(&text), text.len, path, host, repo, &s, err);
    explicit_bzero(bx_buf_data(&text), text.len);
    if (r == 0 && s.helper) {
        r = bx_credhelper_get(s.helper, bx_streq(host, HUB) ? HUB_KEY : host, ret, err);
        if (r < 0 || ret->user) {
            return r < 0 ? r : 1;
        }
    }
    if (r == 0 && s.credential.user) {
        *ret = s.credential;
        s.credential = (struct bx_credential){0};
        return 1;
    }
    return r;
}

int bx_credential_find(const char *file, const char *host, const char *path,
                       struct bx_credential *ret, boxlite_error **err)
{
    _cleanup_(bx_strv_done) struct bx_strv paths = {0};
    struct places p = {0};
    int r = list_places(file, &p);

    paths = p.paths;
    r = r < 0 ? bx_fail_oom(err) : 0;
    for (size_t i = 0; r == 0 && i < paths.n; i++) {
        r = ask_file(paths.v[i], p.named, host, path, ret, err);
    }
    return r < 0 ? r : 0;
}

/* ---- changing one */

struct change {
    char *path;
    int dirfd; /* of its folder */
    json_t *doc;
    const char *key; /* of the host */
    char *helper;
};

static void change_done(struct change *c)
{
    free(c->path);
    bx_cleanup_close(&c->dirfd);
    json_decref(c->doc);
    free(c->helper);
}

static int read_change(struct change *c, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(FILE_MAX);
    int r = bx_read_file(AT_FDCWD, c->path, &text);

    if (r < 0 && r != -ENOENT) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading %s", c->path);
    }
    if (text.len == 0) {
        c->doc = json_object();
        return c->doc ? 0 : bx_fail_oom(err);
    }
    r = bx_json_parse(bx_buf_data(&text), text.len, c->path, &c->doc, err);
    if (r == 0 && !json_is_object(c->doc)) {
        r = bx_fail(err, BOXLITE_E_INVALID, "%s is no JSON object", c->path);
    }
    return r;
}

static int open_change(const char *file, const char *host, struct change *c, boxlite_error **err)
{
    _cleanup_(bx_strv_done) struct bx_strv paths = {0};
    _cleanup_free_ char *folder = NULL;
    struct places p = {0};
    char *slash;
    int r = list_places(file, &p);

    paths = p.paths;
    if (r < 0) {
        return bx_fail_oom(err);
    }
    if (paths.n == 0) {
        return bx_fail(err, BOXLITE_E_INVALID,
                       "HOME is not set, so there is no place for credentials");
    }
    c->path = strdup(paths.v[0]);
    folder = c->path ? strdup(c->path) : NULL;
    if (!folder) {
        return bx_fail_oom(err);
    }
    slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = '\0';
        r = bx_mkdir_p(folder, 0700);
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "making %s", folder);
    }
    r = read_change(c, err);
    c->key = bx_streq(host, HUB) ? HUB_KEY : host;
    return r < 0 ? r : take_helper(c->doc, host, "", &c->helper, err);
}

static int save_change(struct change *c, boxlite_error **err)
{
    _cleanup_free_ char *text = bx_json_text_pretty(c->doc);
    int r;

    if (!text) {
        return bx_fail_oom(err);
    }
    r = bx_write_file(AT_FDCWD, c->path, text, strlen(text), 0600);
    explicit_bzero(text, strlen(text));
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing %s", c->path) : 0;
}

static int set_entry(struct change *c, const char *user, const char *secret, boxlite_error **err)
{
    _cleanup_free_ char *pair = bx_asprintf("%s:%s", user, secret);
    _cleanup_free_ char *auth = pair ? bx_base64_encode(pair, strlen(pair)) : NULL;
    json_t *auths = json_object_get(c->doc, "auths");
    json_t *entry = auth ? json_pack("{s:s}", "auth", auth) : NULL;

    if (!entry) {
        return bx_fail_oom(err);
    }
    if (!json_is_object(auths)) {
        auths = json_object();
        if (bx_json_set(c->doc, "auths", auths) < 0) {
            json_decref(entry);
            return bx_fail_oom(err);
        }
    }
    return bx_json_set(auths, c->key, entry) < 0 ? bx_fail_oom(err) : 0;
}

int bx_credential_store(const char *file, const char *host, const char *user, const char *secret,
                        boxlite_error **err)
{
    _cleanup_(change_done) struct change c = {.dirfd = -1};
    int r = open_change(file, host, &c, err);

    if (r == 0 && c.helper) {
        return bx_credhelper_store(c.helper, c.key, user, secret, err);
    }
    if (r == 0) {
        r = set_entry(&c, user, secret, err);
    }
    return r < 0 ? r : save_change(&c, err);
}

/* Removes all entries whose key means the host; how many. */
static size_t remove_entries(json_t *auths, const char *host)
{
    const char *key;
    json_t *value;
    void *next;
    size_t n = 0;

    json_object_foreach_safe(auths, next, key, value)
    {
        _cleanup_free_ char *plain = plain_key(key);
        if (plain && bx_streq(plain, host)) {
            n += json_object_del(auths, key) == 0;
        }
    }
    return n;
}

int bx_credential_erase(const char *file, const char *host, boxlite_error **err)
{
    _cleanup_(change_done) struct change c = {.dirfd = -1};
    int r = open_change(file, host, &c, err);
    size_t removed;

    if (r < 0) {
        return r;
    }
    if (c.helper) {
        r = bx_credhelper_erase(c.helper, c.key, err);
    }
    removed = remove_entries(json_object_get(c.doc, "auths"), host);
    if (r == 0 && removed == 0 && !c.helper) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "not logged in to %s", host);
    }
    return r < 0 || removed == 0 ? r : save_change(&c, err);
}
