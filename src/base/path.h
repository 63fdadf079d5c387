/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path.h: names, folders and trees. Tree walks never follow symlinks and work by descriptor.
 */
#ifndef BX_BASE_PATH_H
#define BX_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* "a/b" with exactly one slash; NULL when out of memory. */
char *bx_path_join(const char *dir, const char *name);
/* Absolute form of a path, relative ones against the working directory, no symlink resolution. */
char *bx_path_absolute(const char *path);
/* mkdir -p. 0 or -errno. */
int bx_mkdir_p(const char *path, mode_t mode);
/* Opens a folder for reading, not through a symlink; created with mode if absent (mode 0: it is not).
 * A descriptor or -errno. */
int bx_open_dir(int dirfd, const char *name, mode_t mode);
/* Removes a file or tree of any depth. 0 also if absent; -errno of the first failure, the rest still
 * removed. Folders whose mode forbids it are made writable. */
int bx_rm_rf(int dirfd, const char *name);
/* Bytes on disk (st_blocks) at and below a name; a file with two links counts twice. -ELOOP deeper
 * than 64 folders. */
int bx_disk_usage(int dirfd, const char *name, uint64_t *ret);
/* A new folder or file "PREFIX.XXXXXXXX" in dirfd; its name (size >= 64) is stored in ret. */
int bx_mkdtempat(int dirfd, const char *prefix, char *ret, size_t size);
int bx_mkstempat(int dirfd, const char *prefix, char *ret, size_t size); /* fd or -errno */
/* True for a single component: not empty, ".", "..", no '/', no NUL, <= 255 bytes. */
bool bx_is_filename(const char *name);

#endif
