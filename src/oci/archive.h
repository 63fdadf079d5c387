/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.h: writes a tar (ustar) of plain files and folders to a descriptor, always the same bytes for the same files.
 */
#ifndef BX_OCI_ARCHIVE_H
#define BX_OCI_ARCHIVE_H

#include <boxlite.h>
#include <stddef.h>
#include <stdint.h>

/* name: at most 100 bytes. fd may be a pipe. */
/* An empty folder; name ends with a slash. */
int bx_archive_add_folder(int fd, const char *name, boxlite_error **err);
int bx_archive_add(int fd, const char *name, const void *data, size_t len, boxlite_error **err);
/* The same from a descriptor that has exactly `size` bytes whose digest is `digest`: INTEGRITY if not, which is only
 * known when they have been written. */
int bx_archive_add_blob(int fd, const char *name, int from, uint64_t size, const char *digest,
                        boxlite_error **err);
int bx_archive_end(int fd, boxlite_error **err);

#endif
