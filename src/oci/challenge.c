/* SPDX-License-Identifier: Apache-2.0 */
/*
 * challenge.c: a reader of WWW-Authenticate values.
 *
 *   challenges = challenge *("," challenge)      challenge = SCHEME [ param *("," param) ]
 *   param = TOKEN "=" ( TOKEN | quoted-string )
 *
 * The comma separates both; what follows it is a parameter if a "=" comes behind the word, else the next scheme. Text
 * that does not fit ends the reading: what was read before it counts.
 */
#include "oci/challenge.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define VALUE_MAX 4096u

struct reader {
    const char *p;
};

void bx_challenge_done(struct bx_challenge *c)
{
    free(c->realm);
    free(c->service);
    free(c->scope);
    *c = (struct bx_challenge){0};
}

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip(struct reader *r, const char *chars)
{
    r->p += strspn(r->p, chars);
}

static size_t token_length(const char *p)
{
    size_t n = 0;

    while (is_token_char(p[n])) {
        n++;
    }
    return n;
}

/* Values become parts of URLs and messages: printable ASCII only. */
static bool is_plain(const char *s)
{
    for (; *s; s++) {
        if (*s < 0x20 || *s > 0x7e) {
            return false;
        }
    }
    return true;
}

/* A quoted string or token: 1 with *ret set, 0 if it does not fit. */
static int read_value(struct reader *r, char **ret)
{
    _cleanup_free_ char *value = NULL;
    size_t n = 0;

    if (*r->p != '"') {
        n = token_length(r->p);
        value = strndup(r->p, n);
        r->p += n;
    } else {
        value = malloc(strlen(r->p));
        for (r->p++; value && *r->p && *r->p != '"'; r->p++) {
            if (*r->p == '\\' && r->p[1]) {
                r->p++;
            }
            value[n++] = *r->p;
        }
        if (value) {
            value[n] = '\0';
        }
        if (*r->p != '"') {
            return value ? 0 : -ENOMEM;
        }
        r->p++;
    }
    if (!value) {
        return -ENOMEM;
    }
    if (n > VALUE_MAX || !is_plain(value)) {
        return 0;
    }
    *ret = steal_ptr(&value);
    return 1;
}

static void keep(struct bx_challenge *c, const char *name, size_t len, char **value)
{
    const struct {
        const char *name;
        char **to;
    } known[] = {{"realm", &c->realm}, {"service", &c->service}, {"scope", &c->scope}};

    for (size_t i = 0; i < BX_ARRAY_SIZE(known); i++) {
        if (strlen(known[i].name) == len && strncasecmp(known[i].name, name, len) == 0 &&
            !*known[i].to) {
            *known[i].to = steal_ptr(value);
            return;
        }
    }
}

/* One parameter: 1, 0 if there is none here. */
static int read_param(struct reader *r, struct bx_challenge *c)
{
    struct reader look = *r;
    _cleanup_free_ char *value = NULL;
    const char *name = look.p;
    size_t n = token_length(name);
    int rc;

    look.p += n;
    skip(&look, " \t");
    if (n == 0 || *look.p != '=') {
        return 0;
    }
    look.p++;
    skip(&look, " \t");
    rc = read_value(&look, &value);
    if (rc <= 0) {
        return rc;
    }
    keep(c, name, n, &value);
    *r = look;
    return 1;
}

static enum bx_scheme scheme_of(const char *name, size_t n)
{
    if (n == strlen("Basic") && strncasecmp(name, "Basic", n) == 0) {
        return BX_SCHEME_BASIC;
    }
    return n == strlen("Bearer") && strncasecmp(name, "Bearer", n) == 0 ? BX_SCHEME_BEARER
                                                                        : BX_SCHEME_OTHER;
}

/* One challenge: 1, 0 at the end of what fits. */
static int read_challenge(struct reader *r, struct bx_challenge *c)
{
    size_t n;
    int rc;

    skip(r, ", \t");
    n = token_length(r->p);
    if (n == 0) {
        return 0;
    }
    c->scheme = scheme_of(r->p, n);
    r->p += n;
    for (;;) {
        struct reader before = *r;
        skip(r, ", \t");
        rc = read_param(r, c);
        if (rc <= 0) {
            *r = before;
            return rc < 0 ? rc : 1;
        }
    }
}

static int rank(const struct bx_challenge *c)
{
    if (c->scheme == BX_SCHEME_BEARER) {
        return c->realm ? 2 : 0;
    }
    return c->scheme == BX_SCHEME_BASIC ? 1 : 0;
}

int bx_challenge_choose(const struct bx_strv *headers, struct bx_challenge *ret)
{
    _cleanup_(bx_challenge_done) struct bx_challenge best = {0};

    for (size_t i = 0; i < headers->n; i++) {
        struct reader r = {.p = headers->v[i]};
        int rc;
        do {
            struct bx_challenge c = {0};
            rc = read_challenge(&r, &c);
            if (rc > 0 && rank(&c) > rank(&best)) {
                struct bx_challenge worse = best;
                best = c;
                c = worse;
            }
            bx_challenge_done(&c);
        } while (rc > 0);
        if (rc < 0) {
            return rc;
        }
    }
    *ret = best;
    best = (struct bx_challenge){0};
    return 0;
}
