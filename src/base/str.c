/* SPDX-License-Identifier: Apache-2.0 */
/*
 * str.c: text helpers. Numbers are read and written by hand, in integers, because the C library's
 * functions accept signs and blanks and follow the locale.
 */
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#define STRV_MAX_DEFAULT 4096

bool bx_endswith(const char *s, const char *suffix)
{
    size_t ls = strlen(s), lx = strlen(suffix);
    return lx <= ls && memcmp(s + ls - lx, suffix, lx) == 0;
}

char *bx_asprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = NULL;
    int r = vasprintf(&s, fmt, ap);
    va_end(ap);
    return r < 0 ? NULL : s;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads the digits at *s and moves *s behind them: -EINVAL if there are none, -ERANGE over max. */
static int take_u64(const char **s, uint64_t max, uint64_t *ret)
{
    const char *p = *s;
    uint64_t v = 0;
    if (!is_digit(*p)) {
        return -EINVAL;
    }
    bool over = false;
    for (; is_digit(*p); p++) {
        uint64_t d = (uint64_t)(*p - '0');
        over = over || v > (UINT64_MAX - d) / 10;
        v = v * 10 + d;
    }
    *s = p;
    if (over || v > max) {
        return -ERANGE;
    }
    *ret = v;
    return 0;
}

int bx_parse_u64(const char *s, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    int r = take_u64(&s, max, &v);
    if (*s) {
        return -EINVAL;
    }
    if (r == 0) {
        *ret = v;
    }
    return r;
}

/* The power of two of a unit's name, or -1. */
static int unit_shift(const char *s)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {
        {"", 0},     {"b", 0},  {"k", 10},  {"kb", 10},  {"kib", 10}, {"m", 20},  {"mb", 20},
        {"mib", 20}, {"g", 30}, {"gb", 30}, {"gib", 30}, {"t", 40},   {"tb", 40}, {"tib", 40},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(units); i++) {
        if (strcasecmp(s, units[i].name) == 0) {
            return units[i].shift;
        }
    }
    return -1;
}

int bx_parse_size(const char *s, uint64_t *ret)
{
    uint64_t whole = 0, part = 0, scale = 1;
    int r = take_u64(&s, UINT64_MAX, &whole);
    if (r == -EINVAL) {
        return r;
    }
    bool fraction = *s == '.';
    if (fraction) {
        s++;
        const char *start = s;
        /* Six digits of the fraction keep part << 40 within 64 bits. */
        if (take_u64(&s, 999999, &part) < 0 || s - start > 6) {
            return -EINVAL;
        }
        for (; start < s; start++) {
            scale *= 10;
        }
    }
    int shift = unit_shift(s);
    if (shift < 0 || (fraction && shift == 0)) {
        return -EINVAL;
    }
    uint64_t rest = (part << shift) / scale;
    if (r < 0 || whole > (UINT64_MAX >> shift) || (whole << shift) > UINT64_MAX - rest) {
        return -ERANGE;
    }
    *ret = (whole << shift) + rest;
    return 0;
}

const char *bx_format_size(uint64_t bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        snprintf(buf, size, "%u B", (unsigned)bytes);
        return buf;
    }
    /* Three significant digits. m counts thousandths of the unit; what would round up to 1000 of a
     * unit is 1 of the next. */
    uint64_t divisor = 1;
    size_t u = 1;
    while (bytes / divisor >= 999500 && u + 1 < BX_ARRAY_SIZE(units)) {
        divisor *= 1000;
        u++;
    }
    unsigned m = (unsigned)(bytes / divisor);
    unsigned hundredths = m >= 99950  ? (m + 500) / 1000 * 100
                          : m >= 9995 ? (m + 50) / 100 * 10
                                      : (m + 5) / 10;
    unsigned whole = hundredths / 100, part = hundredths % 100;
    if (part == 0) {
        snprintf(buf, size, "%u %s", whole, units[u]);
    } else if (part % 10 == 0) {
        snprintf(buf, size, "%u.%u %s", whole, part / 10, units[u]);
    } else {
        snprintf(buf, size, "%u.%02u %s", whole, part, units[u]);
    }
    return buf;
}

size_t bx_utf8_decode(const void *data, size_t len, uint32_t *ret)
{
    const uint8_t *p = data;
    if (len == 0) {
        return 0;
    }
    if (p[0] < 0x80) {
        *ret = p[0];
        return 1;
    }
    /* Lead byte: length, first bits, and the least value that needs this length. */
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0xc2 || p[0] > 0xf4 || len < n) {
        return 0;
    }
    uint32_t c = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        return 0;
    }
    *ret = c;
    return n;
}

bool bx_utf8_valid(const char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t c;
        size_t n = bx_utf8_decode(s + i, len - i, &c);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

/* Characters that move the cursor, break the line or change the order of what is shown. */
static bool is_unprintable(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0x200e || c == 0x200f || c == 0xfeff;
}

/* Writes the escaped form of the character at p (n bytes, one bad byte if !good) to out, which has
 * room for 16 bytes; returns its length. */
static size_t escape_one(const uint8_t *p, size_t n, bool good, char *out)
{
    static const char hex[] = "0123456789abcdef";
    if (good) {
        memcpy(out, p, n);
        return n;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(out + 4 * i, "\\x", 2);
        out[4 * i + 2] = hex[p[i] >> 4];
        out[4 * i + 3] = hex[p[i] & 15];
    }
    return 4 * n;
}

char *bx_escape(const void *data, size_t len, size_t max)
{
    const uint8_t *p = data;
    size_t cap = len > max / 4 ? max : 4 * len; /* a byte becomes four at most */
    char *out = malloc(cap + 1);
    if (!out) {
        return NULL;
    }
    size_t used = 0;
    size_t keep = 0; /* longest prefix of whole characters that leaves room for the dots */
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        size_t n = bx_utf8_decode(p + i, len - i, &c);
        bool good = n > 0 && !is_unprintable(c);
        n = n ? n : 1;
        char one[16];
        size_t m = escape_one(p + i, n, good, one);
        if (m > cap - used) {
            size_t dots = cap < 3 ? cap : 3;
            memcpy(out + keep, "...", dots);
            used = keep + dots;
            break;
        }
        memcpy(out + used, one, m);
        used += m;
        i += n;
        keep = used + 3 <= cap ? used : keep;
    }
    out[used] = '\0';
    return out;
}

int bx_strv_add_mem(struct bx_strv *sv, const char *s, size_t len)
{
    if (len && memchr(s, '\0', len)) {
        return -EINVAL;
    }
    if (sv->n >= (sv->max ? sv->max : STRV_MAX_DEFAULT)) {
        return -E2BIG;
    }
    /* Capacity is the next power of two over n + 1, so it need not be stored. */
    size_t slots = sv->n + 1;
    if (!sv->v || (slots & (slots - 1)) == 0) {
        char **v = realloc(sv->v, 2 * slots * sizeof(*v));
        if (!v) {
            return -ENOMEM;
        }
        sv->v = v;
        sv->v[sv->n] = NULL;
    }
    char *copy = malloc(len + 1);
    if (!copy) {
        return -ENOMEM;
    }
    if (len) {
        memcpy(copy, s, len);
    }
    copy[len] = '\0';
    sv->v[sv->n++] = copy;
    sv->v[sv->n] = NULL;
    return 0;
}

int bx_strv_add(struct bx_strv *sv, const char *s)
{
    return bx_strv_add_mem(sv, s, strlen(s));
}

int bx_strv_setenv(struct bx_strv *sv, const char *name, const char *value)
{
    size_t ln = strlen(name), lv = strlen(value);
    if (ln == 0 || strchr(name, '=')) {
        return -EINVAL;
    }
    _cleanup_free_ char *entry = malloc(ln + lv + 2);
    if (!entry) {
        return -ENOMEM;
    }
    memcpy(entry, name, ln);
    entry[ln] = '=';
    memcpy(entry + ln + 1, value, lv + 1);
    for (size_t i = 0; i < sv->n; i++) {
        if (strncmp(sv->v[i], entry, ln + 1) == 0) {
            free(sv->v[i]);
            sv->v[i] = steal_ptr(&entry);
            return 0;
        }
    }
    return bx_strv_add(sv, entry);
}

int bx_strv_copy(struct bx_strv *dst, const char *const *argv, size_t argc)
{
    size_t before = dst->n;
    for (size_t i = 0; i < argc; i++) {
        int r = bx_strv_add(dst, argv[i]);
        if (r < 0) {
            bx_strv_truncate(dst, before);
            return r;
        }
    }
    return 0;
}

void bx_strv_truncate(struct bx_strv *sv, size_t n)
{
    while (sv->n > n) {
        free(sv->v[--sv->n]);
        sv->v[sv->n] = NULL;
    }
}

void bx_strv_done(struct bx_strv *sv)
{
    bx_strv_truncate(sv, 0);
    free(sv->v);
    sv->v = NULL;
    sv->n = 0;
}
