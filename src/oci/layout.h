/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h: the files of an image archive by their path, whether it is a folder or a tar. A tar is taken apart into a
 * folder of the home's tmp/ first, because its files come in any order.
 */
#ifndef BX_OCI_LAYOUT_H
#define BX_OCI_LAYOUT_H

#include "oci/blobs.h"

struct bx_layout;

/* path "-": descriptor 0. */
int bx_layout_open(const struct bx_images *im, const char *path, struct bx_layout **ret,
                   boxlite_error **err);
void bx_layout_free(struct bx_layout *l);
BX_DEFINE_CLEANUP(struct bx_layout *, bx_layout_free, bx_cleanup_layout);
#define _cleanup_layout_ _cleanup_(bx_cleanup_layout)
bool bx_layout_has(struct bx_layout *l, const char *path);
/* The whole file, at most b->max bytes. */
int bx_layout_read(struct bx_layout *l, const char *path, struct bx_buf *b, boxlite_error **err);
/* Makes the file a blob of the store. expected: the digest it must have, or NULL. digest (may be NULL): BX_DIGEST_LEN + 1
 * bytes. A blob that the store has is not copied again. */
int bx_layout_store(struct bx_layout *l, const char *path, const char *expected, char *digest,
                    uint64_t *ret_size, boxlite_error **err);

#endif
