/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.c: what a result shows of an output: the first part and the last part, with the number of bytes between
 * them. The first third goes to the head, the rest to a ring for the tail, because what failed stands at the end.
 * Output is bytes; JSON wants UTF-8. Bad bytes become U+FFFD one by one, but a character that was cut in two by our
 * own truncation is dropped whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

int mcp_capture_init(struct mcp_capture *c, size_t limit)
{
    memset(c, 0, sizeof(*c));
    c->head_max = limit / 3;
    c->tail_max = limit - c->head_max;
    c->head = malloc(c->head_max + 1);
    c->tail = malloc(c->tail_max + 1);
    if (!c->head || !c->tail) {
        mcp_capture_done(c);
        return -1;
    }
    return 0;
}

void mcp_capture_done(struct mcp_capture *c)
{
    free(c->head);
    free(c->tail);
    memset(c, 0, sizeof(*c));
}

static void tail_add(struct mcp_capture *c, const char *p, size_t len)
{
    if (len > c->tail_max) {
        p += len - c->tail_max;
        len = c->tail_max;
    }
    while (len > 0) {
        size_t n = c->tail_max - c->tail_at;
        n = n < len ? n : len;
        memcpy(c->tail + c->tail_at, p, n);
        c->tail_at = (c->tail_at + n) % c->tail_max;
        c->tail_len = c->tail_len + n < c->tail_max ? c->tail_len + n : c->tail_max;
        p += n;
        len -= n;
    }
}

void mcp_capture_add(struct mcp_capture *c, const void *data, size_t len)
{
    const char *p = data;
    size_t n = c->head_max - c->head_len;
    c->total += len;
    n = n < len ? n : len;
    memcpy(c->head + c->head_len, p, n);
    c->head_len += n;
    if (len > n) {
        tail_add(c, p + n, len - n);
    }
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

/* Bytes at the end of p that begin a character which is not complete: 0 to 3. */
static size_t cut_at_end(const char *p, size_t len)
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

static size_t cut_at_start(const char *p, size_t len)
{
    size_t n = 0;
    while (n < 3 && n < len && ((unsigned char)p[n] & 0xc0) == 0x80) {
        n++;
    }
    return n;
}

/* Writes p as valid UTF-8; NUL becomes U+FFFD too, since results are text. out has room for 3 * len. */
static size_t sanitize(char *out, const char *p, size_t len)
{
    size_t o = 0;
    for (size_t i = 0; i < len;) {
        size_t n = p[i] == '\0' ? 0 : utf8_length((const unsigned char *)p + i, len - i);
        if (n == 0) {
            memcpy(out + o, "\xef\xbf\xbd", 3);
            o += 3;
            i++;
        } else {
            memcpy(out + o, p + i, n);
            o += n;
            i += n;
        }
    }
    return o;
}

/* The ring in order, into out (room for tail_len). */
static void tail_linear(const struct mcp_capture *c, char *out)
{
    size_t first = c->tail_len < c->tail_max ? 0 : c->tail_at;
    size_t n = c->tail_len - first;
    memcpy(out, c->tail + first, n);
    memcpy(out + n, c->tail, first);
}

char *mcp_capture_text(const struct mcp_capture *c, bool *ret_cut)
{
    _cleanup_free_ char *raw = malloc(c->head_len + c->tail_len + 1);
    char *out = malloc(3 * (c->head_len + c->tail_len) + 128);
    size_t o, head = c->head_len, skip = 0;
    uint64_t left_out = c->total - c->head_len - c->tail_len;

    if (!raw || !out) {
        free(out);
        return NULL;
    }
    memcpy(raw, c->head, c->head_len);
    tail_linear(c, raw + c->head_len);
    *ret_cut = left_out > 0;
    if (left_out == 0) {
        o = sanitize(out, raw, c->head_len + c->tail_len);
        out[o] = '\0';
        return out;
    }
    head -= cut_at_end(raw, c->head_len);
    skip = cut_at_start(raw + c->head_len, c->tail_len);
    left_out += c->head_len - head + skip;
    o = sanitize(out, raw, head);
    o += (size_t)snprintf(out + o, 96, "\n[... %llu of %llu bytes left out ...]\n",
                          (unsigned long long)left_out, (unsigned long long)c->total);
    o += sanitize(out + o, raw + c->head_len + skip, c->tail_len - skip);
    out[o] = '\0';
    return out;
}
