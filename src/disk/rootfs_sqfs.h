/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs_sqfs.h: what the two files that write a squashfs share. rootfs.c takes entries and data,
 * rootfs_tables.c writes the tables that come last.
 */
#ifndef BX_DISK_ROOTFS_SQFS_H
#define BX_DISK_ROOTFS_SQFS_H

#include <sqfs/block.h>
#include <sqfs/block_processor.h>
#include <sqfs/block_writer.h>
#include <sqfs/compressor.h>
#include <sqfs/dir_writer.h>
#include <sqfs/error.h>
#include <sqfs/frag_table.h>
#include <sqfs/id_table.h>
#include <sqfs/inode.h>
#include <sqfs/io.h>
#include <sqfs/meta_writer.h>
#include <sqfs/super.h>
#include <sqfs/xattr.h>
#include <sqfs/xattr_writer.h>

#include "disk/tree.h"

#define BX_UNPACKED_MAX 4096u
#define BX_NO_FRAGMENT                                                                             \
    UINT32_MAX /* the number of the fragment, and the place in it, of a file without */

/* libsquashfs' file interface over our descriptor; remembers why a call failed. */
struct bx_sqfs_file {
    sqfs_file_t base;
    int fd;
    int error;
    uint64_t size;
};

struct bx_rootfs {
    struct bx_tree tree;
    uint64_t max_bytes, bytes;
    uint64_t xattr_bytes;
    bool store; /* false: checks only */
    bool in_file;
    bool finished;   /* no more data will come */
    bool takes_data; /* the last entry is a regular file */
    struct bx_sqfs_file file;
    sqfs_super_t super;
    sqfs_compressor_t *cmp, *uncmp;
    sqfs_block_writer_t *blocks;
    sqfs_frag_table_t *frags;
    sqfs_block_processor_t *data;
    sqfs_id_table_t *ids;
    sqfs_xattr_writer_t *xattrs;
    struct bx_inode *unpacked[BX_UNPACKED_MAX]; /* regular files since the last pack_inodes() */
    unsigned nunpacked;
};

/* The compressor of our images; a code of libsquashfs. */
int bx_rootfs_compressor(uint32_t block_size, sqfs_compressor_t **ret);
/* The error for a code of libsquashfs. */
int bx_rootfs_fail(const struct bx_rootfs *r, int code, const char *what, boxlite_error **err);
/* Numbers and writes all inodes and folders, then the other tables and the super block. */
int bx_rootfs_write_tables(struct bx_rootfs *r, boxlite_error **err);

#endif
