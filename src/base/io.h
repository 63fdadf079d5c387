/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.h: whole reads and writes, files that are replaced atomically, copies that keep holes.
 * Paths are relative to a directory descriptor (AT_FDCWD allowed). 0 or -errno unless said.
 */
#ifndef BX_BASE_IO_H
#define BX_BASE_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* How the names of bx_write_file()'s unfinished files begin; a dot and random digits follow. */
#define BX_WRITE_TMP ".tmp"

/* Descriptors are blocking ones; a non-blocking one gives -EAGAIN in the middle.
 * Bytes read (less than size only at end of file), or -errno. EINTR and short reads handled. */
ssize_t bx_read_full(int fd, void *data, size_t size);
int bx_write_full(int fd, const void *data, size_t size);
int bx_pwrite_full(int fd, const void *data, size_t size, off_t off);
/* Appends the whole file to b, which is as before on failure: -EFBIG over b->max. Only regular
 * files (-EISDIR, -EINVAL). */
int bx_read_file(int dirfd, const char *path, struct bx_buf *b);
/* The same from a descriptor of any type, from where it stands to its end. */
int bx_read_fd(int fd, struct bx_buf *b);
/* Writes under a temporary name, fsyncs, renames; the mode is exact, whatever the umask. */
int bx_write_file(int dirfd, const char *path, const void *data, size_t size, mode_t mode);
/* Copies the data of src to dst (both regular files): reflink if the file system can, else only its
 * data extents, so that holes stay holes. What dst held is lost; the offset of src moves. */
int bx_copy_sparse(int src, int dst);
/* Moves everything from src to dst until end of file: bytes or -errno; over max: -EFBIG. */
int64_t bx_copy_stream(int src, int dst, uint64_t max);

#endif
