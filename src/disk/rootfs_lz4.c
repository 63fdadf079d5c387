/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs_lz4.c: the compressor given to libsquashfs: its own lz4 one, but a block that does not shrink is
 * stored as it is. libsquashfs 1.2 stores such blocks "compressed" and larger than they were, which costs time in
 * the guest and which unsquashfs takes for damage where a table is that small.
 */
#include <stdlib.h>

#include "disk/rootfs_sqfs.h"

struct shrinking {
    sqfs_compressor_t base; /* first */
    sqfs_compressor_t *inner;
};

static sqfs_object_t *copy_shrinking(const sqfs_object_t *orig);

static sqfs_s32 do_block(sqfs_compressor_t *base, const sqfs_u8 *in, sqfs_u32 size, sqfs_u8 *out,
                         sqfs_u32 outsize)
{
    struct shrinking *s = (struct shrinking *)base;
    sqfs_s32 n = s->inner->do_block(s->inner, in, size, out, outsize);

    return n > 0 && (sqfs_u32)n >= size ? 0 : n;
}

static void get_configuration(const sqfs_compressor_t *base, sqfs_compressor_config_t *config)
{
    const struct shrinking *s = (const struct shrinking *)base;

    s->inner->get_configuration(s->inner, config);
}

static int write_options(sqfs_compressor_t *base, sqfs_file_t *file)
{
    struct shrinking *s = (struct shrinking *)base;

    return s->inner->write_options(s->inner, file);
}

static int read_options(sqfs_compressor_t *base, sqfs_file_t *file)
{
    struct shrinking *s = (struct shrinking *)base;

    return s->inner->read_options(s->inner, file);
}

static void destroy(sqfs_object_t *obj)
{
    struct shrinking *s = (struct shrinking *)obj;

    sqfs_destroy(s->inner);
    free(s);
}

/* Takes inner, also on failure. */
static sqfs_compressor_t *wrap(sqfs_compressor_t *inner)
{
    struct shrinking *s = inner ? calloc(1, sizeof(*s)) : NULL;

    if (!s) {
        sqfs_destroy(inner);
        return NULL;
    }
    s->base = (sqfs_compressor_t){.base = {.destroy = destroy, .copy = copy_shrinking},
                                  .get_configuration = get_configuration,
                                  .write_options = write_options,
                                  .read_options = read_options,
                                  .do_block = do_block};
    s->inner = inner;
    return &s->base;
}

static sqfs_object_t *copy_shrinking(const sqfs_object_t *orig)
{
    const struct shrinking *s = (const struct shrinking *)orig;

    return (sqfs_object_t *)wrap(sqfs_copy(s->inner));
}

int bx_rootfs_compressor(uint32_t block_size, sqfs_compressor_t **ret)
{
    sqfs_compressor_config_t config;
    sqfs_compressor_t *inner = NULL;
    int rc = sqfs_compressor_config_init(&config, SQFS_COMP_LZ4, block_size, 0);

    if (rc == 0) {
        rc = sqfs_compressor_create(&config, &inner);
    }
    if (rc) {
        return rc;
    }
    *ret = wrap(inner);
    return *ret ? 0 : SQFS_ERROR_ALLOC;
}
