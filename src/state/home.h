/* SPDX-License-Identifier: Apache-2.0 */
/*
 * home.h: the home directory (architecture §7) and what is done when it is opened: created 0700, checked to
 * belong to this user and to be writable, format version read. Folders are made when first needed.
 */
#ifndef BX_STATE_HOME_H
#define BX_STATE_HOME_H

#include <boxlite.h>
#include <stdint.h>

#include "base/cleanup.h"

struct bx_home {
    char *path; /* absolute */
    int fd;
};

/* path NULL: $BOXLITE_HOME, then $HOME/.boxlite, then the passwd entry's. */
int bx_home_open(const char *path, struct bx_home **ret, boxlite_error **err);
void bx_home_free(struct bx_home *home);
/* A folder of it ("boxes", "rootfs", "images", "kernels", "templates", "tmp"), created if absent: a descriptor. */
int bx_home_dir(const struct bx_home *home, const char *name, int *ret_fd, boxlite_error **err);
/* Path of NAME below folder DIR below home; caller frees; NULL when out of memory. */
char *bx_home_path(const struct bx_home *home, const char *dir, const char *name);
/* A new locked file or folder "PREFIX.XXXXXXXX" in tmp/, to be renamed from *ret_dirfd/name to its place
 * when it is whole. The lock lasts as long as *ret_fd (folder: read-only); name's size >= 64. */
int bx_home_tmp_file(const struct bx_home *home, const char *prefix, int *ret_dirfd, int *ret_fd,
                     char *name, size_t size, boxlite_error **err);
int bx_home_tmp_dir(const struct bx_home *home, const char *prefix, int *ret_dirfd, int *ret_fd,
                    char *name, size_t size, boxlite_error **err);
/* Removes what crashed processes left in tmp/ (what nobody holds the lock of). */
int bx_home_sweep_tmp(const struct bx_home *home, boxlite_error **err);
/* Fails with NO_SPACE and a hint when fewer than `need` bytes are free for this user there. */
int bx_home_need_space(const struct bx_home *home, uint64_t need, const char *what,
                       boxlite_error **err);

BX_DEFINE_CLEANUP(struct bx_home *, bx_home_free, bx_cleanup_home);
#define _cleanup_home_ _cleanup_(bx_cleanup_home)

#endif
