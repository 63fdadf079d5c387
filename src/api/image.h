/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h: the objects of the image functions, which two files share: image.c (finding, listing, bringing in) and
 * image_store.c (managing what is there).
 */
#ifndef BX_API_IMAGE_H
#define BX_API_IMAGE_H

#include "base/json.h"
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
/* As the "config" object of the OCI image specification; NULL: out of memory. */
json_t *bx_image_config_json(const boxlite_image_config *c);
/* The local image of that name or digest. */
int bx_image_open(boxlite_runtime *rt, const char *ref, boxlite_image **ret, boxlite_error **err);

#endif
