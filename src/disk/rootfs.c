/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs.c: the front half of the squashfs writer: entries go to the tree, file data straight to libsquashfs'
 * block processor, which compresses in threads of its own and writes blocks in the order they came. So memory
 * holds the tree and a few blocks, never a file.
 *
 * What a later layer replaces has been written already; its blocks stay in the image unused. That costs a
 * little disk in rare images and saves reading layers twice or holding data back.
 *
 * Same input, same bytes: blocks and fragments are written in order of submission whatever the number of
 * threads, the tables are sorted, and the only time stamp of the image itself is 0.
 *
 * Two kinds of extended attributes are dropped: those that squashfs cannot hold (it knows user, trusted and
 * security), and those by which overlayfs steers itself, because the image is the lower layer of an overlay and
 * must not be able to steer it.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "disk/rootfs_sqfs.h"

#define BLOCK_SIZE SQFS_DEFAULT_BLOCK_SIZE
#define WORKERS_MAX 8
#define BACKLOG_PER_WORKER 10
#define XATTR_BYTES_MAX (64u << 20)
#define IMAGE_ALIGN 4096u

/* ---- the file */

static int file_fail(struct bx_sqfs_file *f, int error)
{
    f->error = error < 0 ? -error : error;
    return SQFS_ERROR_IO;
}

static int file_read_at(sqfs_file_t *base, sqfs_u64 off, void *data, size_t size)
{
    struct bx_sqfs_file *f = (struct bx_sqfs_file *)base;

    while (size > 0) {
        ssize_t n = pread(f->fd, data, size, (off_t)off);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? file_fail(f, errno) : SQFS_ERROR_OUT_OF_BOUNDS;
        }
        data = (char *)data + n;
        off += (sqfs_u64)n;
        size -= (size_t)n;
    }
    return 0;
}

static int file_write_at(sqfs_file_t *base, sqfs_u64 off, const void *data, size_t size)
{
    struct bx_sqfs_file *f = (struct bx_sqfs_file *)base;
    int r = bx_pwrite_full(f->fd, data, size, (off_t)off);

    if (r < 0) {
        return file_fail(f, r);
    }
    if (off + size > f->size) {
        f->size = off + size;
    }
    return 0;
}

static sqfs_u64 file_get_size(const sqfs_file_t *base)
{
    return ((const struct bx_sqfs_file *)base)->size;
}

static int file_truncate(sqfs_file_t *base, sqfs_u64 size)
{
    struct bx_sqfs_file *f = (struct bx_sqfs_file *)base;

    if (ftruncate(f->fd, (off_t)size) < 0) {
        return file_fail(f, errno);
    }
    f->size = size;
    return 0;
}

static void file_destroy(sqfs_object_t *base)
{
    (void)base; /* part of struct bx_rootfs, which owns it */
}

static void file_init(struct bx_sqfs_file *f, int fd)
{
    *f = (struct bx_sqfs_file){.base = {.base = {.destroy = file_destroy},
                                        .read_at = file_read_at,
                                        .write_at = file_write_at,
                                        .get_size = file_get_size,
                                        .truncate = file_truncate},
                               .fd = fd};
}

/* ---- errors */

int bx_rootfs_fail(const struct bx_rootfs *r, int code, const char *what, boxlite_error **err)
{
    int c;

    switch (code) {
    case SQFS_ERROR_ALLOC:
        return bx_fail_oom(err);
    case SQFS_ERROR_IO:
        c = bx_fail_errno(err, BOXLITE_E_IO, r->file.error, "root image: %s", what);
        if (c == BOXLITE_E_NO_SPACE) {
            bx_hint(err, "free some space (boxlite image rm, boxlite rm)");
        }
        return c;
    case SQFS_ERROR_OVERFLOW:
        return bx_fail(err, BOXLITE_E_UNSUPPORTED, "root image: %s: more than squashfs can hold",
                       what);
    default:
        return bx_fail(err, BOXLITE_E_INTERNAL, "root image: %s: libsquashfs error %d", what, code);
    }
}

/* ---- begin and end */

static unsigned count_workers(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (unsigned)n;
}

static int make_uncompressor(sqfs_compressor_t **ret)
{
    sqfs_compressor_config_t config;
    int rc =
        sqfs_compressor_config_init(&config, SQFS_COMP_LZ4, BLOCK_SIZE, SQFS_COMP_FLAG_UNCOMPRESS);

    return rc ? rc : sqfs_compressor_create(&config, ret);
}

static int start_image(struct bx_rootfs *r)
{
    int rc = bx_rootfs_compressor(BLOCK_SIZE, &r->cmp);

    if (rc == 0) {
        rc = make_uncompressor(&r->uncmp);
    }
    if (rc == 0) {
        rc = sqfs_super_init(&r->super, BLOCK_SIZE, 0, SQFS_COMP_LZ4);
    }
    if (rc == 0) {
        rc = sqfs_super_write(&r->super, &r->file.base);
    }
    if (rc == 0) {
        rc = r->cmp->write_options(r->cmp, &r->file.base);
        if (rc > 0) {
            r->super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
            rc = 0;
        }
    }
    return rc;
}

static int start_data(struct bx_rootfs *r)
{
    unsigned workers = count_workers();
    sqfs_block_processor_desc_t desc = {.size = sizeof(desc),
                                        .max_block_size = BLOCK_SIZE,
                                        .num_workers = workers,
                                        .max_backlog = workers * BACKLOG_PER_WORKER,
                                        .cmp = r->cmp,
                                        .file = &r->file.base,
                                        .uncmp = r->uncmp};

    r->blocks = sqfs_block_writer_create(&r->file.base, IMAGE_ALIGN, 0);
    r->frags = sqfs_frag_table_create(0);
    r->ids = sqfs_id_table_create(0);
    r->xattrs = sqfs_xattr_writer_create(0);
    if (!r->blocks || !r->frags || !r->ids || !r->xattrs) {
        return SQFS_ERROR_ALLOC;
    }
    desc.wr = r->blocks;
    desc.tbl = r->frags;
    return sqfs_block_processor_create_ex(&desc, &r->data);
}

int bx_rootfs_new(int fd, uint64_t max_bytes, struct bx_rootfs **ret, boxlite_error **err)
{
    struct bx_rootfs *r = calloc(1, sizeof(*r));
    int rc;

    if (!r) {
        return bx_fail_oom(err);
    }
    r->max_bytes = max_bytes;
    r->store = fd >= 0;
    file_init(&r->file, fd);
    rc = bx_tree_init(&r->tree, err);
    if (rc < 0) {
        free(r);
        return rc;
    }
    if (r->store) {
        rc = start_image(r);
        if (rc == 0) {
            rc = start_data(r);
        }
        if (rc != 0) {
            rc = bx_rootfs_fail(r, rc, "starting it", err);
            bx_rootfs_free(r);
            return rc;
        }
    }
    *ret = r;
    return 0;
}

/* ---- entries */

static int end_file(struct bx_rootfs *r, boxlite_error **err)
{
    int rc;

    r->takes_data = false;
    if (!r->in_file) {
        return 0;
    }
    r->in_file = false;
    rc = sqfs_block_processor_end_file(r->data);
    return rc ? bx_rootfs_fail(r, rc, "writing file data", err) : 0;
}

static bool fits_tail(const sqfs_inode_file_t *f)
{
    if (f->file_size == 0) {
        return f->fragment_index == BX_NO_FRAGMENT && f->fragment_offset == BX_NO_FRAGMENT;
    }
    return f->fragment_index < 1u << 30 && f->fragment_offset < 1u << 17 && f->file_size < 1u << 17;
}

/* libsquashfs' inode of a file takes 80 bytes, and most files of an image are a tail in a fragment: three numbers. */
static void pack_inode(struct bx_inode *inode)
{
    sqfs_inode_generic_t *n = inode->data;

    if (n && n->base.type == SQFS_INODE_FILE && n->payload_bytes_used == 0 &&
        n->data.file.blocks_start == 0 && fits_tail(&n->data.file)) {
        const sqfs_inode_file_t *f = &n->data.file;
        inode->tail = (struct bx_tail){.fragment = f->fragment_index & ((1u << 30) - 1),
                                       .offset = f->fragment_offset & ((1u << 17) - 1),
                                       .size = f->file_size & ((1u << 17) - 1)};
        inode->packed = true;
        free(n);
    }
}

/* Waits until libsquashfs is done with the files so far, then holds them in less memory. That has no influence on the
 * order of the blocks: it is that of their arrival. */
static int pack_inodes(struct bx_rootfs *r)
{
    int rc = sqfs_block_processor_sync(r->data);

    for (unsigned i = 0; rc == 0 && i < r->nunpacked; i++) {
        pack_inode(r->unpacked[i]);
    }
    r->nunpacked = 0;
    return rc;
}

/* A regular file of the image, whose data comes next. */
static int begin_file(struct bx_rootfs *r, struct bx_inode *inode, boxlite_error **err)
{
    int rc = r->nunpacked == BX_UNPACKED_MAX ? pack_inodes(r) : 0;

    if (rc == 0) {
        rc = sqfs_block_processor_begin_file(r->data, &inode->data, NULL, 0);
    }
    if (rc) {
        return bx_rootfs_fail(r, rc, "writing file data", err);
    }
    r->unpacked[r->nunpacked++] = inode;
    r->in_file = true;
    return 0;
}

void bx_rootfs_free(struct bx_rootfs *r)
{
    if (!r) {
        return;
    }
    if (r->data && !r->finished) {
        /* libsquashfs 1.2 forgets blocks that are on their way when it is destroyed. */
        (void)end_file(r, NULL);
        (void)sqfs_block_processor_finish(r->data);
    }
    sqfs_destroy(r->data); /* first: its threads use the others and the inodes of the tree */
    sqfs_destroy(r->xattrs);
    sqfs_destroy(r->ids);
    sqfs_destroy(r->frags);
    sqfs_destroy(r->blocks);
    sqfs_destroy(r->uncmp);
    sqfs_destroy(r->cmp);
    bx_tree_done(&r->tree);
    free(r);
}

static bool keeps_xattr(const char *name)
{
    return sqfs_get_xattr_prefix_id(name) >= 0 && !bx_startswith(name, "trusted.overlay.") &&
           !bx_startswith(name, "user.overlay.");
}

static int add_xattrs(struct bx_rootfs *r, const struct bx_rootfs_entry *e, uint32_t *ret,
                      boxlite_error **err)
{
    int rc = sqfs_xattr_writer_begin(r->xattrs, 0);

    for (size_t i = 0; rc == 0 && i < e->nxattrs; i++) {
        const struct bx_rootfs_xattr *x = &e->xattrs[i];
        if (keeps_xattr(x->name)) {
            rc = sqfs_xattr_writer_add(r->xattrs, x->name, x->value, x->size);
        }
    }
    if (rc == 0) {
        rc = sqfs_xattr_writer_end(r->xattrs, ret);
    }
    return rc ? bx_rootfs_fail(r, rc, "storing extended attributes", err) : 0;
}

static int check_xattrs(struct bx_rootfs *r, const struct bx_rootfs_entry *e, boxlite_error **err)
{
    for (size_t i = 0; i < e->nxattrs; i++) {
        uint64_t size = strlen(e->xattrs[i].name) + e->xattrs[i].size;
        if (size > XATTR_BYTES_MAX - r->xattr_bytes) {
            return bx_fail(err, BOXLITE_E_INTEGRITY, "extended attributes of more than %u bytes",
                           XATTR_BYTES_MAX);
        }
        r->xattr_bytes += size;
    }
    return 0;
}

int bx_rootfs_add(struct bx_rootfs *r, const char *path, const struct bx_rootfs_entry *e,
                  boxlite_error **err)
{
    struct bx_inode *inode = NULL;
    int rc = end_file(r, err);

    if (rc == 0) {
        rc = check_xattrs(r, e, err);
    }
    if (rc == 0) {
        rc = bx_tree_put(&r->tree, path, e, &inode, err);
    }
    if (rc < 0) {
        return rc;
    }
    r->takes_data = S_ISREG(e->mode);
    if (!r->store) {
        return 0;
    }
    if (e->nxattrs > 0) {
        rc = add_xattrs(r, e, &inode->xattr, err);
        if (rc < 0) {
            return rc;
        }
    }
    return S_ISREG(e->mode) ? begin_file(r, inode, err) : 0;
}

int bx_rootfs_write(struct bx_rootfs *r, const void *data, size_t len, boxlite_error **err)
{
    int rc;

    if (!r->takes_data) {
        return bx_fail(err, BOXLITE_E_INTERNAL, "root image: data without a file");
    }
    if (len > r->max_bytes - r->bytes) {
        rc = bx_fail(err, BOXLITE_E_INTEGRITY, "the image unpacks to more than %llu bytes",
                     (unsigned long long)r->max_bytes);
        bx_hint(err, "if the image is trustworthy, allow a larger one");
        return rc;
    }
    r->bytes += len;
    if (!r->store) {
        return 0;
    }
    rc = sqfs_block_processor_append(r->data, data, len);
    return rc ? bx_rootfs_fail(r, rc, "writing file data", err) : 0;
}

int bx_rootfs_link(struct bx_rootfs *r, const char *path, const char *target, boxlite_error **err)
{
    int rc = end_file(r, err);

    return rc < 0 ? rc : bx_tree_link(&r->tree, path, target, err);
}

int bx_rootfs_remove(struct bx_rootfs *r, const char *path, boxlite_error **err)
{
    int rc = end_file(r, err);

    return rc < 0 ? rc : bx_tree_remove(&r->tree, path, err);
}

int bx_rootfs_opaque(struct bx_rootfs *r, const char *path, uint32_t layer, boxlite_error **err)
{
    int rc = end_file(r, err);

    return rc < 0 ? rc : bx_tree_opaque(&r->tree, path, layer, err);
}

void bx_rootfs_set_layer(struct bx_rootfs *r, uint32_t layer)
{
    r->tree.layer = layer;
}

uint64_t bx_rootfs_room(const struct bx_rootfs *r)
{
    return r->max_bytes - r->bytes;
}

int bx_rootfs_finish(struct bx_rootfs *r, uint64_t *ret_size, boxlite_error **err)
{
    uint64_t size;
    int rc = end_file(r, err);

    if (rc < 0 || !r->store) {
        if (rc == 0) {
            *ret_size = 0;
        }
        return rc;
    }
    r->finished = true;
    rc = sqfs_block_processor_finish(r->data);
    if (rc) {
        return bx_rootfs_fail(r, rc, "writing file data", err);
    }
    /* What it knows of all tails, to find equal ones, makes room for the tables. */
    sqfs_destroy(r->data);
    r->data = NULL;
    rc = bx_rootfs_write_tables(r, err);
    if (rc < 0) {
        return rc;
    }
    /* Virtual disks come in sectors, and some engines want whole pages. */
    size = (r->file.size + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
    rc = file_truncate(&r->file.base, size);
    if (rc) {
        return bx_rootfs_fail(r, rc, "setting its size", err);
    }
    *ret_size = size;
    return 0;
}

/* ---- the check before use */

int bx_rootfs_check(int fd, const char *what, boxlite_error **err)
{
    struct bx_sqfs_file file;
    sqfs_super_t super;
    struct stat st;
    int r;

    if (fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "%s", what);
    }
    file_init(&file, fd);
    file.size = (uint64_t)st.st_size;
    r = sqfs_super_read(&super, &file.base);
    if (r == SQFS_ERROR_IO) {
        return bx_fail_errno(err, BOXLITE_E_IO, file.error, "reading %s", what);
    }
    if (r == 0 && S_ISREG(st.st_mode) && super.compression_id == SQFS_COMP_LZ4 &&
        super.bytes_used <= file.size && super.inode_table_start < super.bytes_used &&
        super.directory_table_start < super.bytes_used && super.id_table_start < super.bytes_used) {
        return 0;
    }
    r = bx_fail(err, BOXLITE_E_INTEGRITY, "%s is damaged", what);
    bx_hint(err, "remove it; it is built again from the image when it is next used");
    return r;
}
