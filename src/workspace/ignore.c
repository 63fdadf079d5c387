/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ignore.c: patterns as a .gitignore file has them (gitignore(5)): one a line, "#" comments, "!" takes back, a slash
 * at the end means folders only, one at the beginning or inside ties the pattern to the root. The last pattern that
 * fits decides; what lies in an ignored folder is ignored.
 *
 * Matching is bounded: a pattern and a path together may take STEPS_MAX steps, then the pattern does not fit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "workspace/workspace.h"

#define PATTERNS_MAX 4096
#define PATTERN_BYTES_MAX 1024
#define STEPS_MAX 200000

struct pattern {
    char *text;
    bool negated, dirs_only, anchored;
};

struct bx_ws_ignore {
    struct pattern v[PATTERNS_MAX];
    size_t n;
};

/* ---- one pattern */

/* "[a-z]" at p: whether it takes c; *end behind it. No ']' : the '[' stands for itself. */
static bool in_class(const char *p, char c, const char **end)
{
    const char *q = p + 1;
    bool negated = *q == '!' || *q == '^', found = false;
    q += negated;
    for (bool first = true; *q && (*q != ']' || first); first = false) {
        unsigned char low = (unsigned char)*q++, high = low;
        if (*q == '-' && q[1] && q[1] != ']') {
            high = (unsigned char)q[1];
            q += 2;
        }
        found = found || ((unsigned char)c >= low && (unsigned char)c <= high);
    }
    if (*q != ']') {
        *end = p + 1;
        return c == '[';
    }
    *end = q + 1;
    return c != '/' && found != negated;
}

static bool match(const char *p, const char *s, unsigned *steps)
{
    for (;;) {
        if (++*steps > STEPS_MAX) {
            return false;
        }
        if (p[0] == '*' && p[1] == '*') {
            const char *rest = p + 2;
            if (*rest == '/') { /* any folders, or none */
                for (const char *t = s; t; t = strchr(t, '/') ? strchr(t, '/') + 1 : NULL) {
                    if (match(rest + 1, t, steps)) {
                        return true;
                    }
                }
                return false;
            }
            if (!*rest) {
                return *s != '\0';
            }
            p++; /* like one star */
            continue;
        }
        if (*p == '*') {
            for (const char *t = s;; t++) {
                if (match(p + 1, t, steps)) {
                    return true;
                }
                if (!*t || *t == '/' || *steps > STEPS_MAX) {
                    return false;
                }
            }
        }
        if (!*p || !*s) {
            return !*p && !*s;
        }
        const char *next = p + 1;
        bool fits;
        if (*p == '[') {
            fits = in_class(p, *s, &next);
        } else if (*p == '\\' && p[1]) {
            fits = p[1] == *s;
            next = p + 2;
        } else {
            fits = *p == '?' ? *s != '/' : *p == *s;
        }
        if (!fits) {
            return false;
        }
        p = next;
        s++;
    }
}

bool bx_ws_match(const char *pattern, const char *text)
{
    unsigned steps = 0;
    return match(pattern, text, &steps);
}

/* ---- a list of them */

void bx_ws_ignore_free(struct bx_ws_ignore *ig)
{
    for (size_t i = 0; ig && i < ig->n; i++) {
        free(ig->v[i].text);
    }
    free(ig);
}

static int add(struct bx_ws_ignore *ig, const char *text, size_t len, boxlite_error **err)
{
    struct pattern p = {0};
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\r' || text[len - 1] == '\t')) {
        len--;
    }
    if (len == 0 || *text == '#') {
        return 0;
    }
    if (*text == '!') {
        p.negated = true;
        text++;
        len--;
    }
    if (len > 0 && text[len - 1] == '/') {
        p.dirs_only = true;
        len--;
    }
    if (len == 0 || len > PATTERN_BYTES_MAX || ig->n == PATTERNS_MAX) {
        return len == 0 ? 0
                        : bx_fail(err, BOXLITE_E_INVALID,
                                  "patterns: more than %d, or one longer than %d bytes",
                                  PATTERNS_MAX, PATTERN_BYTES_MAX);
    }
    p.anchored = memchr(text, '/', len) != NULL;
    text += *text == '/';
    len -= p.anchored && text[-1] == '/' && len > 0;
    p.text = strndup(text, len);
    if (!p.text) {
        return bx_fail_oom(err);
    }
    ig->v[ig->n++] = p;
    return 0;
}

int bx_ws_ignore_add(struct bx_ws_ignore *ig, const char *pattern, boxlite_error **err)
{
    return add(ig, pattern, strlen(pattern), err);
}

int bx_ws_ignore_new(const char *text, struct bx_ws_ignore **ret, boxlite_error **err)
{
    struct bx_ws_ignore *ig = calloc(1, sizeof(*ig));
    int r = ig ? 0 : bx_fail_oom(err);
    for (const char *p = text; r == 0 && *p;) {
        size_t n = strcspn(p, "\n");
        r = add(ig, p, n, err);
        p += n + (p[n] == '\n');
    }
    if (r < 0) {
        bx_ws_ignore_free(ig);
        return r;
    }
    *ret = ig;
    return 0;
}

static bool last_word(const struct bx_ws_ignore *ig, const char *path, bool dir)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (size_t i = ig->n; i-- > 0;) {
        const struct pattern *p = &ig->v[i];
        if ((!p->dirs_only || dir) && bx_ws_match(p->text, p->anchored ? path : base)) {
            return !p->negated;
        }
    }
    return false;
}

bool bx_ws_ignored(const struct bx_ws_ignore *ig, const char *path, bool dir)
{
    char part[BX_WS_PATH_MAX + 1];
    if (!ig || ig->n == 0 || strlen(path) > BX_WS_PATH_MAX) {
        return false;
    }
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        if (last_word(ig, part, true)) {
            return true;
        }
    }
    return last_word(ig, path, dir);
}
