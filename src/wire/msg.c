/* SPDX-License-Identifier: Apache-2.0 */
/*
 * msg.c: the fields of a message. The reader never trusts a length: each is compared with what is left
 * of the payload before the pointer moves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"
#include "wire/msg.h"

#define FIELD_HEADER 6u

static void put_le16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static uint16_t get_le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

int bx_msg_begin(struct bx_buf *b, uint16_t type)
{
    uint8_t head[2];
    put_le16(head, type);
    bx_buf_clear(b);
    return bx_buf_append(b, head, sizeof(head));
}

int bx_msg_bytes(struct bx_buf *b, uint16_t tag, const void *data, size_t len)
{
    if (len > BX_FRAME_MSG_MAX) {
        return -ENOBUFS;
    }
    uint8_t *p = bx_buf_reserve(b, FIELD_HEADER + len);
    if (!p) {
        return -errno;
    }
    put_le16(p, tag);
    bx_put_le32(p + 2, (uint32_t)len);
    if (len > 0) {
        memcpy(p + FIELD_HEADER, data, len);
    }
    bx_buf_commit(b, FIELD_HEADER + len);
    return 0;
}

int bx_msg_u64(struct bx_buf *b, uint16_t tag, uint64_t value)
{
    uint8_t v[8];
    bx_put_le64(v, value);
    return bx_msg_bytes(b, tag, v, sizeof(v));
}

int bx_msg_str(struct bx_buf *b, uint16_t tag, const char *value)
{
    return value ? bx_msg_bytes(b, tag, value, strlen(value)) : 0;
}

int bx_msg_parse(const void *payload, size_t len, struct bx_msg *ret)
{
    const uint8_t *p = payload;
    if (len < 2) {
        return -EPROTO;
    }
    *ret = (struct bx_msg){.type = get_le16(p), .p = p + 2, .left = len - 2};
    return 0;
}

int bx_msg_next(struct bx_msg *m, struct bx_field *ret)
{
    if (m->left == 0) {
        return 0;
    }
    if (m->left < FIELD_HEADER) {
        return -EPROTO;
    }
    size_t len = bx_get_le32(m->p + 2);
    if (len > m->left - FIELD_HEADER) {
        return -EPROTO;
    }
    *ret = (struct bx_field){.tag = get_le16(m->p), .data = m->p + FIELD_HEADER, .len = len};
    m->p += FIELD_HEADER + len;
    m->left -= FIELD_HEADER + len;
    return 1;
}

int bx_field_u64(const struct bx_field *f, uint64_t max, uint64_t *ret)
{
    if (f->len != 8) {
        return -EPROTO;
    }
    uint64_t v = bx_get_le64(f->data);
    if (v > max) {
        return -EPROTO;
    }
    *ret = v;
    return 0;
}

int bx_field_str(const struct bx_field *f, char **ret)
{
    if (f->len > 0 && memchr(f->data, 0, f->len)) {
        return -EPROTO;
    }
    char *s = malloc(f->len + 1);
    if (!s) {
        return -ENOMEM;
    }
    if (f->len > 0) {
        memcpy(s, f->data, f->len);
    }
    s[f->len] = 0;
    *ret = s;
    return 0;
}

static int find(const struct bx_msg *m, uint16_t tag, struct bx_field *ret)
{
    struct bx_msg walk = *m;
    struct bx_field f;
    int r;
    while ((r = bx_msg_next(&walk, &f)) > 0) {
        if (f.tag == tag) {
            *ret = f;
            return 0;
        }
    }
    return r < 0 ? r : -ENOENT;
}

int bx_msg_get_u64(const struct bx_msg *m, uint16_t tag, uint64_t max, uint64_t *ret)
{
    struct bx_field f;
    int r = find(m, tag, &f);
    return r < 0 ? r : bx_field_u64(&f, max, ret);
}

int bx_msg_get_str(const struct bx_msg *m, uint16_t tag, char **ret)
{
    struct bx_field f;
    int r = find(m, tag, &f);
    return r < 0 ? r : bx_field_str(&f, ret);
}
