/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h: the objects of the image functions, which two files share: image.c (finding, listing, bringing in) and
 * image_store.c (managing what is there).
 */
#ifndef BX_API_IMAGE_H
#define BX_API_IMAGE_H

#include "oci/history.h"
#include "oci/images.h"

struct boxlite_image {
    struct bx_image_row row;
    struct bx_history history;
    uint64_t shared;
    char *json;
};

struct boxlite_image_list {
    boxlite_image **v;
    size_t n, cap;
    boxlite_error *error;
};

#endif
