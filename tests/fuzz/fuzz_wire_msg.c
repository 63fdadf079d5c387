/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_wire_msg.c: any bytes as a message. Every field lies inside the payload; a message whose fields
 * can be read is written again to the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void copy_field(struct bx_buf *b, const struct bx_field *f, const uint8_t *data, size_t size)
{
    char *s = NULL;
    uint64_t v;
    if (f->data < data || f->len > size || f->data + f->len > data + size ||
        bx_msg_bytes(b, f->tag, f->data, f->len) < 0) {
        abort();
    }
    if (bx_field_str(f, &s) == 0 && strlen(s) != f->len) {
        abort();
    }
    free(s);
    if (bx_field_u64(f, 1000, &v) == 0 && v > 1000) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bx_buf b = BX_BUF_INIT(size + 8);
    struct bx_msg m;
    struct bx_field f;
    int r;
    if (bx_msg_parse(data, size, &m) < 0) {
        return 0;
    }
    if (bx_msg_begin(&b, m.type) < 0) {
        abort();
    }
    uint64_t v;
    char *s = NULL;
    (void)bx_msg_get_u64(&m, 2, UINT64_MAX, &v);
    if (bx_msg_get_str(&m, 3, &s) == 0) {
        free(s);
    }
    while ((r = bx_msg_next(&m, &f)) > 0) {
        copy_field(&b, &f, data, size);
    }
    if (r == 0 && (b.len != size || memcmp(bx_buf_data(&b), data, size) != 0)) {
        abort();
    }
    bx_buf_done(&b);
    return 0;
}
