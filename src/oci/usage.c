/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.c: one list of (blob, image) pairs from all manifests, sorted and then counted. A manifest that names a
 * layer twice counts once.
 */
#include "oci/usage.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "oci/manifest.h"

#define BLOBS_MAX 1000000u

struct collect {
    struct bx_usage *u;
    size_t cap;
    uint32_t image; /* number of the row; stands in `images` until the pairs are counted */
    boxlite_error *error;
};

static int add(struct collect *c, const char *digest, uint64_t size)
{
    struct bx_usage *u = c->u;

    if (u->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 256;
        struct bx_used_blob *v = u->n < BLOBS_MAX ? reallocarray(u->v, cap, sizeof(*v)) : NULL;
        if (!v) {
            return bx_fail_oom(&c->error);
        }
        u->v = v;
        c->cap = cap;
    }
    u->v[u->n] = (struct bx_used_blob){.size = size, .images = c->image};
    memcpy(u->v[u->n++].digest, digest, BX_DIGEST_LEN + 1); /* checked by the parser */
    return 0;
}

static int add_row(void *data, const struct bx_image_row *row)
{
    struct collect *c = data;
    _cleanup_manifest_ struct bx_manifest m = {0};
    int r = bx_manifest_parse(row->manifest, strlen(row->manifest), "manifest in the database", &m,
                              &c->error);

    if (r == 0 && !bx_digest_valid(row->digest)) {
        r = bx_fail(&c->error, BOXLITE_E_INTEGRITY, "the database has an image with a bad digest");
    }
    c->image++;
    if (r == 0) {
        r = add(c, row->digest, strlen(row->manifest));
    }
    if (r == 0) {
        r = add(c, m.config.digest, m.config.size);
    }
    for (size_t i = 0; r == 0 && i < m.n; i++) {
        r = add(c, m.items[i].digest, m.items[i].size);
    }
    return r;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct bx_used_blob *one = a, *two = b;
    int r = strcmp(one->digest, two->digest);

    return r ? r : (one->images > two->images) - (one->images < two->images);
}

static int compare_digests(const void *digest, const void *blob)
{
    return strcmp(digest, ((const struct bx_used_blob *)blob)->digest);
}

/* Pairs become blobs. */
static void count(struct bx_usage *u)
{
    uint32_t last = 0;
    size_t n = 0;

    for (size_t i = 0; i < u->n; i++) {
        uint32_t image = u->v[i].images;
        if (n > 0 && bx_streq(u->v[n - 1].digest, u->v[i].digest)) {
            u->v[n - 1].images += image != last;
        } else {
            u->v[n] = u->v[i];
            u->v[n++].images = 1;
        }
        last = image;
    }
    u->n = n;
}

int bx_usage_read(const struct bx_images *im, struct bx_usage *ret, boxlite_error **err)
{
    struct bx_usage u = {0};
    struct collect c = {.u = &u};
    int r = bx_store_image_each(im->store, add_row, &c, &c.error);

    if (r < 0) {
        r = bx_fail_again(err, c.error);
        boxlite_error_free(c.error);
        bx_usage_done(&u);
        return r;
    }
    if (u.n) {
        qsort(u.v, u.n, sizeof(*u.v), compare_pairs);
    }
    count(&u);
    *ret = u;
    return 0;
}

void bx_usage_done(struct bx_usage *u)
{
    free(u->v);
    *u = (struct bx_usage){0};
}

const struct bx_used_blob *bx_usage_find(const struct bx_usage *u, const char *digest)
{
    return u->n ? bsearch(digest, u->v, u->n, sizeof(*u->v), compare_digests) : NULL;
}

int bx_usage_shared(const struct bx_usage *u, const struct bx_image_row *row, uint64_t *ret,
                    boxlite_error **err)
{
    _cleanup_manifest_ struct bx_manifest m = {0};
    int r = bx_manifest_parse(row->manifest, strlen(row->manifest), row->digest, &m, err);
    uint64_t sum = 0;

    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i <= m.n; i++) {
        const char *digest = i < m.n ? m.items[i].digest : m.config.digest;
        const struct bx_used_blob *b = bx_usage_find(u, digest);
        bool before = false;
        for (size_t j = 0; j < i && i < m.n; j++) {
            before = before || bx_streq(m.items[j].digest, digest);
        }
        sum += b && b->images > 1 && !before ? b->size : 0;
    }
    *ret = sum;
    return 0;
}
