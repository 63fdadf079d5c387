/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.h: a growing byte buffer with a maximum that is named at its creation. Going over it is
 * -ENOBUFS and leaves the buffer as it was. Bytes are taken from the front by bx_buf_consume().
 * The bytes are always followed by a NUL that does not count, so text can be read as a string.
 */
#ifndef BX_BASE_BUF_H
#define BX_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct bx_buf {
    uint8_t *base; /* allocation */
    size_t off;    /* first byte */
    size_t len;    /* bytes held */
    size_t cap;    /* allocation size */
    size_t max;    /* most bytes it may hold */
};
#define BX_BUF_INIT(maximum)                                                                       \
    {                                                                                              \
        .max = (maximum)                                                                           \
    }

void bx_buf_done(struct bx_buf *b);
#define _cleanup_buf_ _cleanup_(bx_buf_done)
static inline uint8_t *bx_buf_data(const struct bx_buf *b)
{
    return b->base ? b->base + b->off : (uint8_t *)"";
}
static inline const char *bx_buf_str(const struct bx_buf *b)
{
    return (const char *)bx_buf_data(b);
}
/* Room for n more bytes at the tail: a pointer to it, or NULL (errno ENOBUFS, ENOMEM). Commit what
 * was written with bx_buf_commit(). */
void *bx_buf_reserve(struct bx_buf *b, size_t n);
void bx_buf_commit(struct bx_buf *b, size_t n);
int bx_buf_append(struct bx_buf *b, const void *data, size_t n);
int bx_buf_appends(struct bx_buf *b, const char *s);
int bx_buf_appendf(struct bx_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bx_buf_consume(struct bx_buf *b, size_t n);
void bx_buf_clear(struct bx_buf *b);
/* The bytes as a NUL-terminated heap string, the buffer empty; NULL when out of memory. */
char *bx_buf_steal(struct bx_buf *b, size_t *ret_len);

/* A bounded tail: keeps the last max bytes (a console's). */
int bx_buf_append_tail(struct bx_buf *b, const void *data, size_t n);

#endif
