/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.h: an image made of another one and one more layer, whose plain tar is put in as it comes.
 */
#ifndef BX_OCI_COMMIT_H
#define BX_OCI_COMMIT_H

#include <stddef.h>

#include "oci/images.h"

struct bx_commit;

int bx_commit_new(const struct bx_images *im, struct bx_commit **ret, boxlite_error **err);
void bx_commit_free(struct bx_commit *c);
BX_DEFINE_CLEANUP(struct bx_commit *, bx_commit_free, bx_cleanup_commit);
#define _cleanup_commit_ _cleanup_(bx_cleanup_commit)
/* Bytes of the layer. INTEGRITY when they are more than an image may have. */
int bx_commit_put(struct bx_commit *c, const void *data, size_t len, boxlite_error **err);

struct bx_commit_spec {
    const char *base;     /* digest of the image that the layer goes on */
    const char *ref;      /* NAME[:TAG] of the new one */
    const json_t *config; /* what to change in the base's "config" object, or NULL */
    const char *comment;  /* for its history, or NULL */
};
/* Ends the layer and makes the image. It has no date: the same base, layer and settings are the same digest. Caller frees
 * *ret_digest. */
int bx_commit_finish(struct bx_commit *c, const struct bx_commit_spec *spec, char **ret_digest,
                     boxlite_error **err);

#endif
