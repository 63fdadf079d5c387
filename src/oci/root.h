/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root.h: building root images from blobs, and limits that all ways of bringing an image in share.
 */
#ifndef BX_OCI_ROOT_H
#define BX_OCI_ROOT_H

#include "oci/blobs.h"
#include "oci/manifest.h"

/* Most bytes of unpacked file data. */
uint64_t bx_image_max_bytes(const struct bx_images *im);
/* Most bytes that a layer's archive may unpack to: the data, and room for headers. */
uint64_t bx_stream_max_bytes(const struct bx_images *im);
/* Gives a finished root image its name. */
int bx_root_commit(const struct bx_images *im, struct bx_blob_tmp *t, const char *digest,
                   boxlite_error **err);
/* Builds the root of the image from its blobs, unless it is there. Of several processes that want the same root at
 * once, one builds and the others wait. */
int bx_root_build(const struct bx_images *im, const char *digest, uint64_t *ret_size,
                  boxlite_error **err);
/* Builds the root anew and compares it with the one that is there (an absent one is as good as equal); with repair the
 * new one takes its place if they differ. */
int bx_root_compare(const struct bx_images *im, const char *digest, bool repair, bool *ret_same,
                    boxlite_error **err);
/* When the image's root was last given to a box (or built), in seconds since 1970; 0: it has none. */
int64_t bx_root_used(const struct bx_images *im, const char *digest);
/* The same while the layers are still coming, manifest and config being there. ready(): called before layer i is read,
 * waits for it. check(): called often; a failure ends the building. idle(): waits a moment while another process builds. */
struct bx_root_wait {
    int (*ready)(void *data, size_t layer, boxlite_error **err);
    int (*check)(void *data, boxlite_error **err);
    int (*idle)(void *data, boxlite_error **err);
    void *data;
};
int bx_root_build_from(const struct bx_images *im, const char *digest,
                       const struct bx_root_wait *wait, uint64_t *ret_size, boxlite_error **err);

#endif
