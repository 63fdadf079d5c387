/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.c: words that were meant, and bytes to text. Output is bytes; JSON wants UTF-8: each bad byte becomes U+FFFD, whole characters are kept
 * whole. Terminal control sequences go from what people read. Base64 (RFC 4648) for bytes that must be exact.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

/* How far two words are apart: insertions, deletions, changes. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[64], previous, kept;
    size_t n = strlen(b);
    if (n >= BX_ARRAY_SIZE(row)) {
        return 99;
    }
    for (unsigned k = 0; k <= n; k++) {
        row[k] = k;
    }
    for (unsigned i = 1; *a; a++, i++) {
        previous = row[0];
        row[0] = i;
        for (size_t k = 1; k <= n; k++) {
            unsigned change = previous + ((*a == '-' ? '_' : *a) != (b[k - 1] == '-' ? '_' : b[k - 1]));
            kept = row[k];
            row[k] = row[k] < row[k - 1] ? row[k] + 1 : row[k - 1] + 1;
            row[k] = row[k] < change ? row[k] : change;
            previous = kept;
        }
    }
    return row[n];
}

const char *mcp_nearest(const char *word, const char *const *words)
{
    const char *best = NULL;
    unsigned least = 4;
    for (; *words; words++) {
        unsigned d = distance(word, *words);
        if (d < least) {
            least = d;
            best = *words;
        }
    }
    return best;
}

/* Length of the well-formed UTF-8 sequence at p (Unicode 15, table 3-7), or 0. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char lead_min, lead_max, len, second_min, second_max;
    } forms[] = {
        {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
        {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(forms); i++) {
        if (p[0] < forms[i].lead_min || p[0] > forms[i].lead_max) {
            continue;
        }
        if (left < forms[i].len ||
            (forms[i].len > 1 && (p[1] < forms[i].second_min || p[1] > forms[i].second_max))) {
            return 0;
        }
        for (size_t k = 2; k < forms[i].len; k++) {
            if ((p[k] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return forms[i].len;
    }
    return 0;
}

size_t mcp_utf8_cut_at_end(const char *p, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char b = (unsigned char)p[len - back];
        if (b >= 0xc0) {
            size_t want = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
            return want > back ? back : 0;
        }
        if (b < 0x80) {
            return 0;
        }
    }
    return 0;
}

size_t mcp_utf8_cut_at_start(const char *p, size_t len)
{
    size_t n = 0;
    while (n < 3 && n < len && ((unsigned char)p[n] & 0xc0) == 0x80) {
        n++;
    }
    return n;
}

size_t mcp_utf8_clean(char *out, const char *p, size_t len, bool *ret_bad)
{
    size_t o = 0;
    for (size_t i = 0; i < len;) {
        size_t n = p[i] == '\0' ? 0 : utf8_length((const unsigned char *)p + i, len - i);
        if (n == 0) {
            memcpy(out + o, "\xef\xbf\xbd", 3);
            o += 3;
            i++;
            *ret_bad = true;
        } else {
            memcpy(out + o, p + i, n);
            o += n;
            i += n;
        }
    }
    return o;
}

/* Bytes of the escape sequence at s (ECMA-48: CSI, strings such as OSC, two-byte ones), at least 1. */
static size_t escape_length(const char *s)
{
    size_t n = 1;
    if (s[1] == '[') {
        n = 2;
        while (s[n] >= 0x20 && s[n] <= 0x3f) {
            n++;
        }
        return s[n] >= 0x40 && s[n] <= 0x7e ? n + 1 : n;
    }
    if (s[1] != '\0' && strchr("]PX^_", s[1])) {
        for (n = 2; s[n] != '\0'; n++) {
            if (s[n] == '\a') {
                return n + 1;
            }
            if (s[n] == '\033' && s[n + 1] == '\\') {
                return n + 2;
            }
        }
        return n;
    }
    while (s[n] >= 0x20 && s[n] <= 0x2f) {
        n++;
    }
    return s[n] >= 0x30 && s[n] <= 0x7e ? n + 1 : n;
}

void mcp_strip_controls(char *s)
{
    char *out = s;
    while (*s != '\0') {
        if (*s == '\033') {
            s += escape_length(s);
        } else if (*s == '\r') { /* a progress bar draws over its line: each state a line of its own */
            s++;
            if (*s != '\n') {
                *out++ = '\n';
            }
        } else if (((unsigned char)*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7f) {
            s++;
        } else {
            *out++ = *s++;
        }
    }
    *out = '\0';
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *mcp_base64(const void *data, size_t len)
{
    const unsigned char *p = data;
    char *out = malloc((len + 2) / 3 * 4 + 1), *o = out;
    if (!out) {
        return NULL;
    }
    for (size_t i = 0; i < len; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16;
        v |= i + 1 < len ? (uint32_t)p[i + 1] << 8 : 0;
        v |= i + 2 < len ? p[i + 2] : 0;
        *o++ = base64_digits[v >> 18];
        *o++ = base64_digits[v >> 12 & 63];
        *o++ = i + 1 < len ? base64_digits[v >> 6 & 63] : '=';
        *o++ = i + 2 < len ? base64_digits[v & 63] : '=';
    }
    *o = '\0';
    return out;
}

int mcp_base64_decode(const char *text, char **ret, size_t *ret_len)
{
    size_t len = strlen(text), o = 0, padding = 0;
    char *out;
    uint32_t v = 0;

    while (padding < 2 && padding < len && text[len - 1 - padding] == '=') {
        padding++;
    }
    if (len % 4 != 0 || !(out = malloc(len / 4 * 3 + 1))) {
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        const char *digit = i < len - padding ? strchr(base64_digits, text[i]) : base64_digits;
        if (!digit) {
            free(out);
            return -1;
        }
        v = v << 6 | (uint32_t)(digit - base64_digits);
        if (i % 4 == 3) {
            out[o++] = (char)(v >> 16 & 255);
            out[o++] = (char)(v >> 8 & 255);
            out[o++] = (char)(v & 255);
        }
    }
    *ret_len = o - padding;
    out[*ret_len] = '\0';
    *ret = out;
    return 0;
}
