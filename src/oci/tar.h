/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.h: a tar archive, entry by entry, from a stream of unpacked bytes. The one place that knows how libarchive
 * must be held so that names stay bytes.
 */
#ifndef BX_OCI_TAR_H
#define BX_OCI_TAR_H

#include <locale.h>

#include "oci/stream.h"

struct archive;
struct archive_entry;

struct bx_tar {
    struct bx_stream *in; /* borrowed */
    struct archive *archive;
    boxlite_error *error; /* of `in`, on its way through libarchive */
    locale_t plain, before;
};
/* Puts the calling thread into the C locale until bx_tar_close(), which must be called in any case. */
int bx_tar_open(struct bx_tar *t, struct bx_stream *in, boxlite_error **err);
void bx_tar_close(struct bx_tar *t);
#define _cleanup_tar_ _cleanup_(bx_tar_close)
/* 1: *ret is the next entry, 0: the end. */
int bx_tar_next(struct bx_tar *t, struct archive_entry **ret, boxlite_error **err);
/* The next piece of the entry's data and where it belongs in the file. 1: there is one, 0: the end. */
int bx_tar_data(struct bx_tar *t, const void **ret, size_t *ret_size, uint64_t *ret_offset,
                boxlite_error **err);
/* "./a//b/" becomes "a/b"; absolute names and ".." are refused. `entry` is named in the error. Caller frees. */
int bx_tar_clean_name(const char *name, const char *entry, char **ret, boxlite_error **err);
/* Refuses an entry: INTEGRITY, "entry NAME: why". */
int bx_tar_refuse(boxlite_error **err, const char *entry, const char *why);

#endif
