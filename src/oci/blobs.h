/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blobs.h: the folder images/ of the home, an OCI image layout: blobs/sha256/HEX, oci-layout, index.json.
 * Blobs are named by their digest, so one that is there is whole: it was checked before it got its name.
 */
#ifndef BX_OCI_BLOBS_H
#define BX_OCI_BLOBS_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "oci/images.h"

/* Held while blobs get names or lose them and rows come or go; excludes other processes. A descriptor. */
int bx_blobs_lock(const struct bx_images *im, int *ret_fd, boxlite_error **err);
/* Held by a transfer for as long as it relies on blobs that no row uses: they are not cleared meanwhile. Shared with other
 * transfers. A descriptor. */
int bx_blobs_lease(const struct bx_images *im, int *ret_fd, boxlite_error **err);
/* Keeps leases away: a descriptor, or -1 (and 0) if there are some. */
int bx_blobs_unleased(const struct bx_images *im, int *ret_fd, boxlite_error **err);
/* images/partial: blobs on their way, by the digits of their digest. */
int bx_blobs_partial_dir(const struct bx_images *im, int *ret_fd, boxlite_error **err);

/* A new unnamed blob or root image, in tmp/. */
struct bx_blob_tmp {
    int dirfd, fd;
    char name[64];
};
#define BX_BLOB_TMP_INIT                                                                           \
    {                                                                                              \
        .dirfd = -1, .fd = -1                                                                      \
    }
int bx_blob_tmp_new(const struct bx_images *im, const char *prefix, struct bx_blob_tmp *ret,
                    boxlite_error **err);
/* Removes it unless it was given a name. */
void bx_blob_tmp_done(struct bx_blob_tmp *t);
#define _cleanup_blob_tmp_ _cleanup_(bx_blob_tmp_done)
/* Names it (the caller has checked the digest). */
int bx_blob_commit(const struct bx_images *im, struct bx_blob_tmp *t, const char *digest,
                   boxlite_error **err);
/* Names a file that lies at dirfd/name. */
int bx_blob_adopt(const struct bx_images *im, int dirfd, const char *name, const char *digest,
                  boxlite_error **err);

/* NOT_FOUND if there is none. size may be NULL. */
int bx_blob_open(const struct bx_images *im, const char *digest, int *ret_fd, uint64_t *ret_size,
                 boxlite_error **err);
bool bx_blob_exists(const struct bx_images *im, const char *digest);
/* A small blob, checked against its digest. b->max limits it. */
int bx_blob_read(const struct bx_images *im, const char *digest, struct bx_buf *b,
                 boxlite_error **err);
/* Stores a small blob; digest: BX_DIGEST_LEN + 1 bytes. */
int bx_blob_write(const struct bx_images *im, const void *data, size_t len, char *digest,
                  boxlite_error **err);
int bx_blob_remove(const struct bx_images *im, const char *digest, boxlite_error **err);

/* Writes index.json from the rows. Under the lock. */
int bx_blobs_write_index(const struct bx_images *im, boxlite_error **err);

/* Gives an error for a full disk, wherever it was met, a hint if it has none. */
void bx_hint_space(boxlite_error **err);
/* Removes files of blobs and roots that no row uses; nothing while a transfer has a lease (the next removal does it then).
 * Under the lock. */
int bx_blobs_clear(const struct bx_images *im, boxlite_error **err);
/* The same; ret_freed is set also on failure. */
int bx_blobs_clear_counted(const struct bx_images *im, uint64_t *ret_freed, boxlite_error **err);

#endif
