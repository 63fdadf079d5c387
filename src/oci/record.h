/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: the last step of every way an image comes in: its row, its name, the index. Under bx_blobs_lock(), when
 * all files are in place.
 */
#ifndef BX_OCI_RECORD_H
#define BX_OCI_RECORD_H

#include "oci/images.h"

struct bx_record {
    const char *digest;   /* of the manifest */
    const char *manifest; /* texts */
    const char *config;
    const char *name; /* full, or NULL */
    uint64_t root_size;
};
/* ret_digest may be NULL; caller frees. */
int bx_record_image(const struct bx_images *im, const struct bx_record *rec, char **ret_digest,
                    boxlite_error **err);

#endif
