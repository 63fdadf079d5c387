/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tag.c: giving names to images and taking them away. A name taken from an image that has no other leaves the image
 * there, known by its digest only, until it is pruned.
 */
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "oci/blobs.h"
#include "oci/reference.h"

int bx_image_tag(const struct bx_images *im, const char *ref, const char *name, boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    _cleanup_free_ char *full = NULL;
    struct bx_image_row row = {0};
    int r = bx_reference_tag(name, &full, err);

    if (r == 0) {
        r = bx_blobs_lock(im, &lock, err);
    }
    if (r == 0) {
        r = bx_image_find(im, ref, &row, err);
    }
    if (r == 0) {
        r = bx_store_image_name(im->store, full, row.digest, err);
    }
    bx_image_row_done(&row);
    return r < 0 ? r : bx_blobs_write_index(im, err);
}

int bx_image_untag(const struct bx_images *im, const char *name, boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    _cleanup_free_ char *full = NULL;
    _cleanup_error_ boxlite_error *why = NULL;
    int r = bx_reference_tag(name, &full, err);

    if (r == 0) {
        r = bx_blobs_lock(im, &lock, err);
    }
    if (r < 0) {
        return r;
    }
    r = bx_store_image_unname(im->store, full, &why);
    if (r == BOXLITE_E_NOT_FOUND) {
        r = bx_fail(err, BOXLITE_E_NOT_FOUND, "no image is named %s", name);
        bx_hint(err, "see the names with: boxlite image ls");
        return r;
    }
    return r < 0 ? bx_fail_again(err, why) : bx_blobs_write_index(im, err);
}
