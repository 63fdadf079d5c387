/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.c: two texts as a unified diff (E. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986, the greedy
 * form). What the texts have in common at both ends is cut off first. Texts that differ in more than EDITS_MAX lines are
 * shown as one replaced block: correct, and bounded in time and memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "workspace/workspace.h"

#define EDITS_MAX 2000
#define CONTEXT 3
#define LINES_MAX (1u << 22)

struct line {
    const char *p;
    size_t len; /* with its newline */
    uint64_t hash;
};

struct text {
    struct line *v;
    size_t n;
};

struct diff {
    struct text a, b;
    bool *gone, *come; /* by line of a, of b */
};

static int split(const char *p, size_t len, struct text *ret)
{
    size_t n = 0, cap = 0;
    struct line *v = NULL;
    for (const char *end = p + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t l = nl ? (size_t)(nl + 1 - p) : (size_t)(end - p);
        if (n == cap) {
            cap = cap ? cap * 2 : 256;
            struct line *more = n < LINES_MAX ? realloc(v, cap * sizeof(*v)) : NULL;
            if (!more) {
                free(v);
                return -1;
            }
            v = more;
        }
        uint64_t h = 1469598103934665603u;
        for (size_t i = 0; i < l; i++) {
            h = (h ^ (unsigned char)p[i]) * 1099511628211u;
        }
        v[n++] = (struct line){p, l, h};
        p += l;
    }
    *ret = (struct text){v, n};
    return 0;
}

static bool same(const struct line *x, const struct line *y)
{
    return x->hash == y->hash && x->len == y->len && memcmp(x->p, y->p, x->len) == 0;
}

/* Walks the recorded fronts back from the end and marks what is not on the common path. */
static void mark_back(struct diff *d, size_t from, long n, long m, int *const *fronts, int last)
{
    long x = n, y = m;
    for (int e = last; e > 0; e--) {
        const int *v = fronts[e - 1] + e; /* index by diagonal -e..e of the front before, shifted */
        long k = x - y;
        bool down = k == -e || (k != e && v[k - 1] < v[k + 1]);
        long before = down ? k + 1 : k - 1;
        long px = v[before], py = px - before;
        if (down) {
            d->come[from + (size_t)py] = true;
        } else {
            d->gone[from + (size_t)px] = true;
        }
        x = px;
        y = py;
    }
}

/* The number of edits, or -1: too many, or no memory. */
static int search(struct diff *d, size_t from, long n, long m)
{
    int *fronts[EDITS_MAX + 1];
    int result = -1, e;
    long max = n + m < EDITS_MAX ? n + m : EDITS_MAX;
    for (e = 0; e <= max && result < 0; e++) {
        /* Diagonals -e-1 .. e+1, so that the next round can look at both neighbours. */
        int *v = malloc((size_t)(2 * e + 3) * sizeof(int));
        if (!v) {
            break;
        }
        fronts[e] = v;
        v += e + 1;
        v[-e - 1] = v[e + 1] = -1;
        const int *last = e > 0 ? fronts[e - 1] + e : NULL;
        for (long k = -e; k <= e; k += 2) {
            long x = e == 0                                             ? 0
                     : k == -e || (k != e && last[k - 1] < last[k + 1]) ? last[k + 1]
                                                                        : last[k - 1] + 1;
            long y = x - k;
            while (x < n && y < m && same(&d->a.v[from + (size_t)x], &d->b.v[from + (size_t)y])) {
                x++;
                y++;
            }
            v[k] = (int)x;
            if (k + 1 <= e) {
                v[k + 1] = -1;
            }
            if (k == n - m && x >= n) {
                result = e;
            }
        }
    }
    if (result >= 0) {
        mark_back(d, from, n, m, fronts, result);
    }
    for (int i = 0; i < e; i++) {
        free(fronts[i]);
    }
    return result;
}

static int compute(struct diff *d)
{
    size_t from = 0, tail = 0;
    d->gone = calloc(d->a.n + 1, 1);
    d->come = calloc(d->b.n + 1, 1);
    if (!d->gone || !d->come) {
        return -1;
    }
    while (from < d->a.n && from < d->b.n && same(&d->a.v[from], &d->b.v[from])) {
        from++;
    }
    while (tail < d->a.n - from && tail < d->b.n - from &&
           same(&d->a.v[d->a.n - 1 - tail], &d->b.v[d->b.n - 1 - tail])) {
        tail++;
    }
    size_t n = d->a.n - from - tail, m = d->b.n - from - tail;
    if (n == 0 || m == 0 || search(d, from, (long)n, (long)m) < 0) {
        memset(d->gone + from, 1, n);
        memset(d->come + from, 1, m);
    }
    return 0;
}

static void diff_done(struct diff *d)
{
    free(d->a.v);
    free(d->b.v);
    free(d->gone);
    free(d->come);
}

static int begin(struct diff *d, const char *old, size_t old_len, const char *fresh,
                 size_t fresh_len, boxlite_error **err)
{
    return split(old, old_len, &d->a) < 0 || split(fresh, fresh_len, &d->b) < 0 || compute(d) < 0
               ? bx_fail_oom(err)
               : 0;
}

/* ---- output */

static int put_line(struct bx_buf *out, char mark, const struct line *l)
{
    int r = bx_buf_append(out, &mark, 1);
    r = r < 0 ? r : bx_buf_append(out, l->p, l->len);
    return r < 0 || (l->len > 0 && l->p[l->len - 1] == '\n')
               ? r
               : bx_buf_appends(out, "\n\\ No newline at end of file\n");
}

/* One block from line i of a and j of b up to (not with) iend, jend. */
static int put_hunk(const struct diff *d, size_t i, size_t iend, size_t j, size_t jend,
                    struct bx_buf *out)
{
    int r = bx_buf_appendf(out, "@@ -%zu,%zu +%zu,%zu @@\n", iend > i ? i + 1 : i, iend - i,
                           jend > j ? j + 1 : j, jend - j);
    while (r == 0 && (i < iend || j < jend)) {
        if (i < iend && d->gone[i]) {
            r = put_line(out, '-', &d->a.v[i++]);
        } else if (j < jend && d->come[j]) {
            r = put_line(out, '+', &d->b.v[j++]);
        } else {
            r = put_line(out, ' ', &d->a.v[i++]);
            j++;
        }
    }
    return r;
}

static int put_all(const struct diff *d, struct bx_buf *out)
{
    size_t i = 0, j = 0;
    int r = 0;
    while (r == 0 && (i < d->a.n || j < d->b.n)) {
        if (!(i < d->a.n && d->gone[i]) && !(j < d->b.n && d->come[j])) {
            i++;
            j++;
            continue;
        }
        size_t back = i < CONTEXT ? i : CONTEXT;
        back = j < back ? j : back;
        size_t from_i = i - back, from_j = j - back, quiet = 0;
        while ((i < d->a.n || j < d->b.n) && quiet <= 2 * CONTEXT) {
            if (i < d->a.n && d->gone[i]) {
                i++;
                quiet = 0;
            } else if (j < d->b.n && d->come[j]) {
                j++;
                quiet = 0;
            } else {
                i++;
                j++;
                quiet++;
            }
        }
        size_t extra = quiet > CONTEXT ? quiet - CONTEXT : 0;
        r = put_hunk(d, from_i, i - extra, from_j, j - extra, out);
    }
    return r;
}

int bx_ws_unified(const char *old, size_t old_len, const char *fresh, size_t fresh_len,
                  struct bx_buf *out, boxlite_error **err)
{
    struct diff d = {0};
    int r = begin(&d, old, old_len, fresh, fresh_len, err);
    if (r == 0) {
        r = put_all(&d, out);
        r = r == -ENOBUFS
                ? bx_fail(err, BOXLITE_E_NO_SPACE, "the diff is longer than %zu bytes", out->max)
            : r < 0 ? bx_fail_oom(err)
                    : 0;
    }
    diff_done(&d);
    return r;
}

int bx_ws_count_lines(const char *old, size_t old_len, const char *fresh, size_t fresh_len,
                      struct bx_ws_lines *ret, boxlite_error **err)
{
    struct diff d = {0};
    int r = begin(&d, old, old_len, fresh, fresh_len, err);
    if (r == 0) {
        *ret = (struct bx_ws_lines){0};
        for (size_t i = 0; i < d.a.n; i++) {
            ret->removed += d.gone[i];
        }
        for (size_t j = 0; j < d.b.n; j++) {
            ret->added += d.come[j];
        }
    }
    diff_done(&d);
    return r;
}
