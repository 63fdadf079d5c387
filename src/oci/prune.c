/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prune.c: which images go.
 *
 * An image was last used when a box was last made from it, which its root image's time of modification tells (root.c sets it), or
 * when it came. What all images take is the sum of their blobs, each once, and of their root images.
 */
#include "oci/prune.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "oci/blobs.h"
#include "oci/root.h"
#include "oci/usage.h"

#define IMAGES_MAX 100000u

struct candidate {
    char digest[BX_DIGEST_LEN + 1];
    int64_t used;
    uint64_t root;
    bool named;
};

struct prune {
    const struct bx_images *im;
    struct candidate *v;
    size_t n, cap;
    boxlite_error *error;
};

static int collect(void *data, const struct bx_image_row *row)
{
    struct prune *p = data;
    struct candidate *c;
    int64_t used = bx_root_used(p->im, row->digest);

    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        c = p->n < IMAGES_MAX ? reallocarray(p->v, cap, sizeof(*c)) : NULL;
        if (!c) {
            return bx_fail_oom(&p->error);
        }
        p->v = c;
        p->cap = cap;
    }
    c = &p->v[p->n++];
    *c = (struct candidate){.used = used > row->created ? used : row->created,
                            .root = row->rootfs_size,
                            .named = row->names.n > 0};
    (void)snprintf(c->digest, sizeof(c->digest), "%s", row->digest);
    return 0;
}

static int compare_used(const void *a, const void *b)
{
    const struct candidate *one = a, *two = b;

    if (one->used != two->used) {
        return one->used < two->used ? -1 : 1;
    }
    return strcmp(one->digest, two->digest);
}

/* What all that is left takes. */
static int total(const struct prune *p, uint64_t *ret, boxlite_error **err)
{
    _cleanup_usage_ struct bx_usage u = {0};
    uint64_t sum = 0;
    int r = bx_usage_read(p->im, &u, err);

    for (size_t i = 0; i < u.n; i++) {
        sum += u.v[i].size;
    }
    for (size_t i = 0; i < p->n; i++) {
        sum += p->v[i].digest[0] ? p->v[i].root : 0;
    }
    *ret = sum;
    return r;
}

/* 1: it may go, 0: it stays. */
static int qualifies(const struct prune *p, const struct candidate *c, const struct bx_prune *rule,
                     boxlite_error **err)
{
    uint64_t boxes = 0;
    int r;

    if ((c->named && !rule->all) || (rule->before && c->used >= rule->before) ||
        (rule->spare && bx_streq(c->digest, rule->spare))) {
        return 0;
    }
    r = bx_store_box_count_image(p->im->store, c->digest, &boxes, err);
    return r < 0 ? r : boxes == 0;
}

static int remove_one(struct prune *p, struct candidate *c, struct bx_strv *removed,
                      boxlite_error **err)
{
    int r = bx_store_image_delete(p->im->store, c->digest, err);

    if (r < 0) {
        return r;
    }
    bx_info(p->im->log, "images", "removing image %s, last used at %" PRId64, c->digest, c->used);
    if (removed && bx_strv_add(removed, c->digest) < 0) {
        return bx_fail_oom(err);
    }
    c->digest[0] = '\0';
    return 0;
}

static int remove_all(struct prune *p, const struct bx_prune *rule, struct bx_strv *removed,
                      boxlite_error **err)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < p->n; i++) {
        uint64_t left = UINT64_MAX;
        if (rule->keep) {
            r = total(p, &left, err);
        }
        if (r < 0 || left <= rule->keep) {
            break;
        }
        r = qualifies(p, &p->v[i], rule, err);
        if (r > 0) {
            r = remove_one(p, &p->v[i], removed, err);
        }
    }
    return r < 0 ? r : 0;
}

static int prune_locked(const struct bx_images *im, const struct bx_prune *rule,
                        struct bx_strv *removed, boxlite_error **err)
{
    struct prune p = {.im = im};
    int r = bx_store_image_each(im->store, collect, &p, &p.error);

    if (r < 0) {
        r = bx_fail_again(err, p.error);
        boxlite_error_free(p.error);
    } else if (p.n) {
        qsort(p.v, p.n, sizeof(*p.v), compare_used);
        r = remove_all(&p, rule, removed, err);
    }
    free(p.v);
    return r;
}

int bx_images_prune(const struct bx_images *im, const struct bx_prune *rule,
                    struct bx_strv *removed, uint64_t *ret_freed, boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    uint64_t freed = 0;
    int r = bx_blobs_lock(im, &lock, err);

    if (r == 0) {
        r = prune_locked(im, rule, removed, err);
    }
    if (r == 0) {
        r = bx_blobs_write_index(im, err);
    }
    if (r == 0) {
        r = bx_blobs_clear_counted(im, &freed, err);
    }
    if (r == 0) {
        *ret_freed = freed;
    }
    return r;
}

int bx_images_evict(const struct bx_images *im, const char *digest, boxlite_error **err)
{
    const struct bx_prune rule = {.all = true, .keep = im->limit, .spare = digest};
    _cleanup_strv_ struct bx_strv removed = {.max = IMAGES_MAX};
    int r = im->limit ? prune_locked(im, &rule, &removed, err) : 0;

    return r < 0 || removed.n == 0 ? r : bx_blobs_clear(im, err);
}
