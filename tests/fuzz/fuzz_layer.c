/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_layer.c: any bytes as one or two layers, packed or not, into a tree that is not stored. Headers that still
 * look like tar's get a right checksum first, or mutations would all end there.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "disk/rootfs.h"
#include "oci/layer.h"

#define DATA_MAX (1u << 20)
#define STREAM_MAX (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
    struct bx_stream stream;
    const uint8_t *data;
    size_t left;
};

static ssize_t memory_next(struct bx_stream *s, const void **ret, boxlite_error **err)
{
    struct memory *m = (struct memory *)s;
    size_t n = m->left > 700 ? 700 : m->left;

    (void)err;
    *ret = m->data;
    m->data += n;
    m->left -= n;
    return (ssize_t)n;
}

/* Failures must carry an error, successes none. */
static void check(int r, const boxlite_error *err)
{
    if ((r < 0) != (err != NULL) || (err && boxlite_error_code(err) != r)) {
        abort();
    }
}

static int apply(struct bx_rootfs *root, const uint8_t *data, size_t size, uint32_t layer)
{
    _cleanup_error_ boxlite_error *err = NULL;
    struct memory m = {.stream = {.next = memory_next}, .data = data, .left = size};
    struct bx_unpack unpack;
    int r = bx_unpack_init(&unpack, &m.stream, STREAM_MAX, BX_HASH_NEVER, &err);

    if (r == 0) {
        r = bx_layer_apply(&unpack.stream, root, layer, &err);
        bx_unpack_done(&unpack);
    }
    check(r, err);
    return r;
}

static void fix_checksums(uint8_t *data, size_t size)
{
    for (; size >= 512; data += 512, size -= 512) {
        unsigned sum = 0;
        if (memcmp(data + 257, "ustar", 5) != 0) {
            continue;
        }
        memset(data + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++) {
            sum += data[i];
        }
        for (int i = 5; i >= 0; i--, sum >>= 3) {
            data[148 + i] = (uint8_t)('0' + (sum & 7));
        }
        data[154] = '\0';
    }
}

static void one_input(const uint8_t *data, size_t size, size_t first)
{
    struct bx_rootfs *root = NULL;
    uint64_t image = 0;

    if (bx_rootfs_new(-1, DATA_MAX, &root, NULL) < 0) {
        return;
    }
    if (first == 0 || apply(root, data, first, 0) == 0) {
        (void)apply(root, data + first, size - first, 1);
    }
    if (bx_rootfs_room(root) > DATA_MAX || bx_rootfs_finish(root, &image, NULL) < 0) {
        abort();
    }
    bx_rootfs_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The first byte says where the second layer starts, in blocks of tar. */
    size_t first = size ? (size_t)data[0] * 512 : 0;
    _cleanup_free_ uint8_t *copy = malloc(size ? size : 1);

    if (size == 0 || !copy) {
        return 0;
    }
    size--;
    memcpy(copy, data + 1, size);
    fix_checksums(copy, size);
    one_input(copy, size, first > size ? size : first);
    return 0;
}
