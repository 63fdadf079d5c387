/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prune.h: removes images that nobody needs, by rule or by limit. Images that a box uses always stay.
 */
#ifndef BX_OCI_PRUNE_H
#define BX_OCI_PRUNE_H

#include "oci/images.h"

struct bx_prune {
    bool all;          /* also images with a name */
    int64_t before;    /* only those last used earlier (seconds since 1970); 0: whenever */
    uint64_t keep;     /* stop when all images take no more bytes; 0: remove all that qualify */
    const char *spare; /* digest of one that stays whatever else is said, or NULL */
};
/* The least recently used go first. Adds the digests of what went to `removed` (may be NULL). Clears leftovers of crashes,
 * too. */
int bx_images_prune(const struct bx_images *im, const struct bx_prune *rule,
                    struct bx_strv *removed, uint64_t *ret_freed, boxlite_error **err);
/* The home's limit (im->limit), when `digest` has just come in. Under the lock. */
int bx_images_evict(const struct bx_images *im, const char *digest, boxlite_error **err);

#endif
