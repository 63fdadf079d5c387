/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.c: the grammar of image references (that of the "distribution" project, which Docker uses).
 *
 * The part before the first slash is a host only if it looks like one: it has a dot or a colon, or is
 * "localhost". Everything is checked character by character, so what comes out is safe in file names, URLs and
 * messages.
 */
#include "oci/reference.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"

#define NAME_MAX_LEN 255u
#define TAG_MAX_LEN 128u
#define HUB "docker.io"
#define HUB_LIBRARY "library/"

static const char lower_digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char letters_digits[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

static int fail_part(boxlite_error **err, const char *text, const char *part)
{
    _cleanup_free_ char *shown = bx_escape(text, strlen(text), 300);
    int r = bx_fail(err, BOXLITE_E_INVALID, "image name \"%s\": %s", shown ? shown : "?", part);

    bx_hint(err,
            "write NAME[:TAG] in lower case, for example python:3.12 or ghcr.io/owner/name:tag");
    return r;
}

/* Length of a separator between parts of a path component: one '.', one or two '_', or any number of '-'. */
static size_t separator(const char *s)
{
    if (*s == '.') {
        return 1;
    }
    if (*s == '_') {
        return s[1] == '_' ? 2 : 1;
    }
    return strspn(s, "-");
}

static bool valid_path(const char *s)
{
    size_t n = strspn(s, lower_digits);

    while (n > 0) {
        size_t sep;
        s += n;
        if (*s == '\0') {
            return true;
        }
        sep = *s == '/' ? 1 : separator(s);
        s += sep;
        n = sep > 0 ? strspn(s, lower_digits) : 0;
    }
    return false;
}

static bool valid_port(const char *s)
{
    uint64_t port;

    return bx_parse_u64(s, 65535, &port) == 0 && port > 0;
}

static bool valid_host(const char *host)
{
    const char *s = host;

    if (*s == '[') { /* an IPv6 address */
        size_t n = strspn(s + 1, "0123456789abcdefABCDEF:.");
        s += 1 + n;
        if (n == 0 || *s++ != ']') {
            return false;
        }
        return *s == '\0' || (*s == ':' && valid_port(s + 1));
    }
    for (;;) {
        size_t n = strspn(s, letters_digits);
        if (n == 0) {
            return false;
        }
        s += n;
        if (*s == '\0') {
            return true;
        }
        if (*s == ':') {
            return valid_port(s + 1);
        }
        n = *s == '.' ? 1 : strspn(s, "-");
        if (n == 0) {
            return false;
        }
        s += n;
    }
}

static bool valid_tag(const char *tag)
{
    size_t len = strlen(tag);

    if (len == 0 || len > TAG_MAX_LEN || tag[0] == '.' || tag[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!strchr(letters_digits, tag[i]) && !strchr("_.-", tag[i])) {
            return false;
        }
    }
    return true;
}

static bool looks_like_host(const char *first)
{
    return strpbrk(first, ".:") || bx_streq(first, "localhost");
}

/* Cuts "HOST/" off the front of *rest. */
static int take_host(const char *text, char **rest, char **ret, boxlite_error **err)
{
    char *slash = strchr(*rest, '/');

    if (slash) {
        *slash = '\0';
        if (looks_like_host(*rest)) {
            if (!valid_host(*rest)) {
                return fail_part(err, text, "the host is not valid");
            }
            *ret = strdup(bx_streq(*rest, "index.docker.io") ? HUB : *rest);
            *rest = slash + 1;
            return *ret ? 0 : bx_fail_oom(err);
        }
        *slash = '/';
    }
    *ret = strdup(HUB);
    return *ret ? 0 : bx_fail_oom(err);
}

/* Cuts "@DIGEST" and ":TAG" off the end of rest. */
static int take_end(const char *text, char *rest, struct bx_reference *r, boxlite_error **err)
{
    char *at = strchr(rest, '@'), *colon;

    if (at) {
        *at = '\0';
        if (!bx_digest_valid(at + 1)) {
            return fail_part(err, text, "the digest is not sha256: and 64 hex digits");
        }
        if (!(r->digest = strdup(at + 1))) {
            return bx_fail_oom(err);
        }
    }
    colon = strrchr(rest, ':');
    if (colon && !strchr(colon, '/')) {
        *colon = '\0';
        if (!valid_tag(colon + 1)) {
            return fail_part(err, text, "the tag is not valid");
        }
        if (!(r->tag = strdup(colon + 1))) {
            return bx_fail_oom(err);
        }
    } else if (!at && !(r->tag = strdup("latest"))) {
        return bx_fail_oom(err);
    }
    return 0;
}

static int parse_into(const char *text, char *rest, struct bx_reference *r, boxlite_error **err)
{
    int rc;

    if (strlen(text) > NAME_MAX_LEN + TAG_MAX_LEN + BX_DIGEST_LEN + 2) {
        return fail_part(err, text, "it is too long");
    }
    /* The end first: a digest or tag must not be taken for a port. */
    rc = take_end(text, rest, r, err);
    if (rc == 0) {
        rc = take_host(text, &rest, &r->host, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (!valid_path(rest)) {
        return fail_part(err, text, *rest ? "the name is not valid" : "the name is empty");
    }
    r->path = bx_streq(r->host, HUB) && !strchr(rest, '/') ? bx_asprintf(HUB_LIBRARY "%s", rest)
                                                           : strdup(rest);
    if (!r->path) {
        return bx_fail_oom(err);
    }
    return strlen(r->host) + 1 + strlen(r->path) > NAME_MAX_LEN
               ? fail_part(err, text, "it is too long")
               : 0;
}

int bx_reference_parse(const char *text, struct bx_reference *ret, boxlite_error **err)
{
    _cleanup_free_ char *copy = strdup(text);
    struct bx_reference r = {0};
    int rc = copy ? parse_into(text, copy, &r, err) : bx_fail_oom(err);

    if (rc < 0) {
        bx_reference_done(&r);
        return rc;
    }
    *ret = r;
    return 0;
}

void bx_reference_done(struct bx_reference *r)
{
    free(r->host);
    free(r->path);
    free(r->tag);
    free(r->digest);
    *r = (struct bx_reference){0};
}

static char *format(const struct bx_reference *r, const char *host, const char *slash,
                    const char *path)
{
    return bx_asprintf("%s%s%s%s%s%s%s", host, slash, path, r->tag ? ":" : "", r->tag ? r->tag : "",
                       r->digest ? "@" : "", r->digest ? r->digest : "");
}

char *bx_reference_full(const struct bx_reference *r)
{
    return format(r, r->host, "/", r->path);
}

/* Whether the path alone would be read as "HOST/…". */
static bool path_looks_like_host(const char *path)
{
    size_t first = strcspn(path, "/");

    return path[first] && (memchr(path, '.', first) || bx_startswith(path, "localhost/"));
}

char *bx_reference_short(const struct bx_reference *r)
{
    const char *path = r->path;

    if (!bx_streq(r->host, HUB) || path_looks_like_host(path)) {
        return bx_reference_full(r);
    }
    if (bx_startswith(path, HUB_LIBRARY) && !strchr(path + strlen(HUB_LIBRARY), '/')) {
        path += strlen(HUB_LIBRARY);
    }
    return format(r, "", "", path);
}

int bx_reference_tag(const char *text, char **ret, boxlite_error **err)
{
    struct bx_reference r = {0};
    int rc = bx_reference_parse(text, &r, err);

    if (rc < 0) {
        return rc;
    }
    if (r.digest) {
        rc = fail_part(err, text, "a name to give has no digest");
    } else if (!(*ret = bx_reference_full(&r))) {
        rc = bx_fail_oom(err);
    }
    bx_reference_done(&r);
    return rc;
}
