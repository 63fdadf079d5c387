/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.c: what a result shows of an output: its first part, its last part, and, if the first line that looks like an
 * error lies between them, that line and some after it. What is left out is counted. The first third goes to the head,
 * the rest to a ring for the tail, because what failed mostly stands at the end. The cost does not depend on how much
 * is written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define WINDOW_LINES 12
#define GAP_MAX 96

/* Words that a line of an error holds, in lower case. */
static const char *const error_words[] = {"error", "exception", "traceback", "panic", "fatal", "failed", "assert",
                                          "segmentation", "undefined reference"};

int mcp_capture_init(struct mcp_capture *c, size_t limit)
{
    memset(c, 0, sizeof(*c));
    c->head_max = limit / 3;
    c->tail_max = limit - c->head_max;
    c->head = malloc(c->head_max + 1);
    c->tail = malloc(c->tail_max + 1);
    c->window_max = limit / 4;
    for (size_t i = 0; i < BX_ARRAY_SIZE(error_words); i++) {
        c->by_letter[error_words[i][0] & 31] |= (uint16_t)(1u << i);
    }
    c->window = malloc(c->window_max + 1);
    if (!c->head || !c->tail || !c->window) {
        mcp_capture_done(c);
        return -1;
    }
    return 0;
}

void mcp_capture_done(struct mcp_capture *c)
{
    free(c->head);
    free(c->tail);
    free(c->window);
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

/* Every byte of a long output comes by here: by_letter leaves few words to compare, mostly none. */
static bool looks_like_error(const struct mcp_capture *c, const char *line, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++) {
        unsigned words = line[i] & 0x40 ? c->by_letter[line[i] & 31] : 0;
        for (; words != 0; words &= words - 1) {
            const char *word = error_words[__builtin_ctz(words)];
            if ((line[i + 1] | 32) == word[1] && len - i >= strlen(word) &&
                strncasecmp(line + i, word, strlen(word)) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void window_add(struct mcp_capture *c, const char *line, size_t len)
{
    size_t n = c->window_max - c->window_len;
    n = n < len ? n : len;
    memcpy(c->window + c->window_len, line, n);
    c->window_len += n;
    c->window_lines++;
}

/* A whole line (or a piece of a very long one) that lies behind the head, at that offset. */
static void line_done(struct mcp_capture *c, uint64_t offset)
{
    if (c->window_lines == 0 && looks_like_error(c, c->line, c->line_len)) {
        c->window_at = offset;
        window_add(c, c->line, c->line_len);
    } else if (c->window_lines > 0 && c->window_lines < WINDOW_LINES) {
        window_add(c, c->line, c->line_len);
    }
    c->line_len = 0;
}

static void scan(struct mcp_capture *c, const char *p, size_t len, uint64_t offset)
{
    size_t done = 0;
    while (done < len && c->window_lines < WINDOW_LINES) {
        const char *nl = memchr(p + done, '\n', len - done);
        size_t n = nl ? (size_t)(nl - (p + done)) + 1 : len - done;
        size_t room = sizeof(c->line) - c->line_len;
        bool whole = nl && n <= room;
        n = n < room ? n : room;
        memcpy(c->line + c->line_len, p + done, n);
        c->line_len += n;
        done += n;
        if (whole || c->line_len == sizeof(c->line)) {
            line_done(c, offset + done - c->line_len);
        }
    }
}

static void count_lines(struct mcp_capture *c, const char *p, size_t len)
{
    const char *end = p + len;
    while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        c->newlines++;
        p++;
    }
    c->open_line = end[-1] != '\n';
}

void mcp_capture_add(struct mcp_capture *c, const void *data, size_t len)
{
    const char *p = data;
    size_t n = c->head_max - c->head_len;
    if (len == 0) {
        return;
    }
    count_lines(c, p, len);
    n = n < len ? n : len;
    memcpy(c->head + c->head_len, p, n);
    c->head_len += n;
    if (len > n) {
        scan(c, p + n, len - n, c->total + n);
        tail_add(c, p + n, len - n);
    }
    c->total += len;
}

uint64_t mcp_capture_lines(const struct mcp_capture *c)
{
    return c->newlines + (c->open_line ? 1 : 0);
}

/* The ring in order, into out (room for tail_len). */
static void tail_linear(const struct mcp_capture *c, char *out)
{
    size_t first = c->tail_len < c->tail_max ? 0 : c->tail_at;
    size_t n = c->tail_len - first;
    memcpy(out, c->tail + first, n);
    memcpy(out + n, c->tail, first);
}

char *mcp_capture_bytes(const struct mcp_capture *c, size_t *ret_len)
{
    char *raw = malloc(c->head_len + c->tail_len + 1);
    if (raw) {
        memcpy(raw, c->head, c->head_len);
        tail_linear(c, raw + c->head_len);
        *ret_len = c->head_len + c->tail_len;
        raw[*ret_len] = '\0';
    }
    return raw;
}

static size_t put_gap(char *out, uint64_t bytes, uint64_t total)
{
    return (size_t)snprintf(out, GAP_MAX, "\n[... %llu of %llu bytes left out ...]\n", (unsigned long long)bytes,
                            (unsigned long long)total);
}

/* Head, gap, perhaps the window and another gap, tail. head and tail: how much of each is shown. */
static size_t put_pieces(const struct mcp_capture *c, char *out, const char *raw, size_t head, size_t tail,
                         bool *bad)
{
    const char *end = raw + c->head_len + c->tail_len;
    uint64_t tail_at, shown;
    size_t o;

    head -= mcp_utf8_cut_at_end(raw, head);
    tail -= mcp_utf8_cut_at_start(end - tail, tail);
    tail_at = c->total - tail;
    shown = head;
    o = mcp_utf8_clean(out, raw, head, bad);
    if (c->window_len > 0 && c->window_at >= head && c->window_at + c->window_len <= tail_at) {
        size_t n = c->window_len - mcp_utf8_cut_at_end(c->window, c->window_len);
        o += put_gap(out + o, c->window_at - head, c->total);
        o += mcp_utf8_clean(out + o, c->window, n, bad);
        shown = c->window_at + n;
    }
    o += put_gap(out + o, tail_at - shown, c->total);
    return o + mcp_utf8_clean(out + o, end - tail, tail, bad);
}

char *mcp_capture_text(const struct mcp_capture *c, size_t limit, struct mcp_shown *ret)
{
    size_t len = 0, o;
    _cleanup_free_ char *raw = mcp_capture_bytes(c, &len);
    char *out = malloc(3 * (len + c->window_len) + 2 * GAP_MAX + 1);

    *ret = (struct mcp_shown){0};
    if (!raw || !out) {
        free(out);
        return NULL;
    }
    if (c->total <= limit && c->total == len) {
        o = mcp_utf8_clean(out, raw, len, &ret->not_utf8);
    } else {
        size_t head = limit / 3 < c->head_len ? limit / 3 : c->head_len;
        size_t left = c->total == len ? len - head : c->tail_len;
        size_t tail = limit - head < left ? limit - head : left;
        ret->cut = true;
        o = put_pieces(c, out, raw, head, tail, &ret->not_utf8);
    }
    out[o] = '\0';
    return out;
}
