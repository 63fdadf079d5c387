/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.c: the bounded buffer.
 *
 * Live bytes are base[off .. off + len), then a NUL. Bytes taken from the front leave a gap that is
 * closed only when it is at least as large as what has to be moved, or when the memory is grown, so
 * that a byte is moved once on average, however small the pieces are. The price is an allocation of
 * up to 2 * max + 1 bytes.
 */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CAP_MIN 64

void bx_buf_done(struct bx_buf *b)
{
    free(b->base);
    *b = (struct bx_buf){.max = b->max};
}

/* a + b, but never past SIZE_MAX. */
static size_t add_saturated(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static int grow(struct bx_buf *b, size_t need)
{
    size_t limit = add_saturated(add_saturated(b->max, b->max), 1);
    size_t cap = add_saturated(need, need);
    cap = cap < CAP_MIN ? CAP_MIN : cap;
    cap = cap > limit ? limit : cap;
    uint8_t *base = malloc(cap);
    if (!base) {
        return -ENOMEM;
    }
    if (b->len) {
        memcpy(base, b->base + b->off, b->len);
    }
    base[b->len] = '\0';
    free(b->base);
    b->base = base;
    b->off = 0;
    b->cap = cap;
    return 0;
}

void *bx_buf_reserve(struct bx_buf *b, size_t n)
{
    if (b->len > b->max || n > b->max - b->len || b->len + n == SIZE_MAX) {
        errno = ENOBUFS;
        return NULL;
    }
    size_t need = b->len + n + 1;
    if (need <= b->cap - b->off && b->base) {
        return b->base + b->off + b->len;
    }
    if (need <= b->cap && b->off >= b->len) {
        memmove(b->base, b->base + b->off, b->len + 1);
        b->off = 0;
    } else {
        int r = grow(b, need);
        if (r < 0) {
            errno = -r;
            return NULL;
        }
    }
    return b->base + b->len;
}

void bx_buf_commit(struct bx_buf *b, size_t n)
{
    if (n) {
        b->len += n;
        b->base[b->off + b->len] = '\0';
    }
}

int bx_buf_append(struct bx_buf *b, const void *data, size_t n)
{
    if (n == 0) {
        return 0;
    }
    void *p = bx_buf_reserve(b, n);
    if (!p) {
        return -errno;
    }
    memcpy(p, data, n);
    bx_buf_commit(b, n);
    return 0;
}

int bx_buf_appends(struct bx_buf *b, const char *s)
{
    return bx_buf_append(b, s, strlen(s));
}

int bx_buf_appendf(struct bx_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    int r = n < 0 ? -EINVAL : 0;
    if (n > 0) {
        char *p = bx_buf_reserve(b, (size_t)n);
        if (p) {
            vsnprintf(p, (size_t)n + 1, fmt, again);
            bx_buf_commit(b, (size_t)n);
        } else {
            r = -errno;
        }
    }
    va_end(again);
    return r;
}

void bx_buf_consume(struct bx_buf *b, size_t n)
{
    if (n >= b->len) {
        bx_buf_clear(b);
        return;
    }
    b->off += n;
    b->len -= n;
}

void bx_buf_clear(struct bx_buf *b)
{
    b->off = 0;
    b->len = 0;
    if (b->base) {
        b->base[0] = '\0';
    }
}

char *bx_buf_steal(struct bx_buf *b, size_t *ret_len)
{
    size_t len = b->len;
    char *s;
    if (b->base && b->off == 0) {
        s = (char *)steal_ptr(&b->base);
    } else {
        s = malloc(len + 1);
        if (!s) {
            return NULL;
        }
        memcpy(s, bx_buf_data(b), len + 1);
    }
    bx_buf_done(b);
    if (ret_len) {
        *ret_len = len;
    }
    return s;
}

int bx_buf_append_tail(struct bx_buf *b, const void *data, size_t n)
{
    const uint8_t *p = data;
    if (n > b->max) {
        p += n - b->max;
        n = b->max;
    }
    if (n > b->max - b->len) {
        bx_buf_consume(b, n - (b->max - b->len));
    }
    return bx_buf_append(b, p, n);
}
