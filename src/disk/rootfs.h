/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs.h: the read-only root image, one squashfs (lz4) per image manifest, written by libsquashfs without root;
 * this is the one place that knows libsquashfs. Entries may come in any order and are sorted, so that the same tree
 * gives the same bytes. File data is compressed while it streams in; only the tree is held in memory.
 */
#ifndef BX_DISK_ROOTFS_H
#define BX_DISK_ROOTFS_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct bx_rootfs;

struct bx_rootfs_entry {
    mode_t mode; /* type and permission bits */
    uint32_t uid, gid;
    int64_t mtime;
    const char *link; /* symlink target */
    uint32_t dev_major, dev_minor;
    const struct bx_rootfs_xattr {
        const char *name;
        const void *value;
        size_t size;
    } * xattrs;
    size_t nxattrs;
};

/* Limits that a hostile layer meets. */
#define BX_ROOTFS_ENTRIES_MAX 2000000u

/* Writes into fd (a new file, read-write; borrowed). fd -1: only checks, nothing is stored. max_bytes: largest sum
 * of unpacked file sizes. */
int bx_rootfs_new(int fd, uint64_t max_bytes, struct bx_rootfs **ret, boxlite_error **err);
void bx_rootfs_free(struct bx_rootfs *r);
/* Paths are relative, "a/b/c", already checked by the layer reader; parents that do not exist are made as folders 0755
 * root. An existing entry is replaced (a folder by a folder keeps its children; anything else drops them).
 * A regular file's data comes with bx_rootfs_write() until the next add. */
int bx_rootfs_add(struct bx_rootfs *r, const char *path, const struct bx_rootfs_entry *e,
                  boxlite_error **err);
int bx_rootfs_write(struct bx_rootfs *r, const void *data, size_t len, boxlite_error **err);
int bx_rootfs_link(struct bx_rootfs *r, const char *path, const char *target,
                   boxlite_error **err); /* hard link */
int bx_rootfs_remove(struct bx_rootfs *r, const char *path,
                     boxlite_error **err); /* whiteout: absent is 0 */
int bx_rootfs_opaque(struct bx_rootfs *r, const char *path, uint32_t layer,
                     boxlite_error **err); /* drops children of lower layers */
void bx_rootfs_set_layer(struct bx_rootfs *r,
                         uint32_t layer); /* layer number of what is added from now on */
/* Bytes of file data that may still come. */
uint64_t bx_rootfs_room(const struct bx_rootfs *r);
int bx_rootfs_finish(struct bx_rootfs *r, uint64_t *ret_size, boxlite_error **err);

/* A cheap check of a built image before use: magic, version, compressor, size against the file's. INTEGRITY. */
int bx_rootfs_check(int fd, const char *what, boxlite_error **err);

#endif
