/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h: which blobs the images of a home refer to, how large they are, and by how many images.
 */
#ifndef BX_OCI_USAGE_H
#define BX_OCI_USAGE_H

#include "base/sha256.h"
#include "oci/images.h"

struct bx_usage {
    struct bx_used_blob {
        char digest[BX_DIGEST_LEN + 1];
        uint64_t size; /* as manifests say; it was checked when the blob came in */
        uint32_t images;
    } * v; /* by digest */
    size_t n;
};
/* A row that cannot be read makes it fail: nothing may be taken for unused because of damage. */
int bx_usage_read(const struct bx_images *im, struct bx_usage *ret, boxlite_error **err);
void bx_usage_done(struct bx_usage *u);
#define _cleanup_usage_ _cleanup_(bx_usage_done)
/* NULL: no image refers to it. */
const struct bx_used_blob *bx_usage_find(const struct bx_usage *u, const char *digest);
/* Bytes of the image's blobs that other images use too. */
int bx_usage_shared(const struct bx_usage *u, const struct bx_image_row *row, uint64_t *ret,
                    boxlite_error **err);

#endif
