/* SPDX-License-Identifier: Apache-2.0 */
/*
 * msg.h: the message inside a MSG frame: u16 type, then fields of u16 tag, u32 length, bytes. Tags may
 * repeat (argv, env); an unknown tag is skipped, so fields can be added; numbers are u64 of 8 bytes.
 * The writer fills a bx_buf; the reader walks a borrowed payload and never reads beyond it.
 */
#ifndef BX_WIRE_MSG_H
#define BX_WIRE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Writer. Errors stick in the buffer user's hands: 0 or -errno (ENOBUFS over the buffer's max). */
int bx_msg_begin(struct bx_buf *b, uint16_t type); /* clears b */
int bx_msg_u64(struct bx_buf *b, uint16_t tag, uint64_t value);
int bx_msg_str(struct bx_buf *b, uint16_t tag, const char *value); /* NULL: leaves the field out */
int bx_msg_bytes(struct bx_buf *b, uint16_t tag, const void *data, size_t len);

/* Reader. */
struct bx_msg {
    uint16_t type;
    const uint8_t *p;
    size_t left;
};
struct bx_field {
    uint16_t tag;
    const uint8_t *data;
    size_t len;
};
int bx_msg_parse(const void *payload, size_t len, struct bx_msg *ret); /* 0 or -EPROTO */
/* 1: a field, 0: the end, -EPROTO: damaged. */
int bx_msg_next(struct bx_msg *m, struct bx_field *ret);
int bx_field_u64(const struct bx_field *f, uint64_t max, uint64_t *ret); /* 0 or -EPROTO */
/* A new string (caller frees): 0, -EPROTO on a NUL inside, -ENOMEM. */
int bx_field_str(const struct bx_field *f, char **ret);

/* First field of that tag in a whole message: convenience for small ones. 0, -ENOENT, -EPROTO. */
int bx_msg_get_u64(const struct bx_msg *m, uint16_t tag, uint64_t max, uint64_t *ret);
int bx_msg_get_str(const struct bx_msg *m, uint16_t tag, char **ret);

#endif
