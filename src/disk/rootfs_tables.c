/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs_tables.c: the back half of the squashfs writer: inode table, directory table, and what follows them.
 *
 * A folder's entries name inodes by number and place, so inodes are written from the leaves up: the folders
 * below, then what else is in it, then its listing, then itself. An inode with several names is written where
 * it is met first. Numbers are given by a walk of its own in the same order, since a folder's inode also
 * holds its parent's number.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "disk/rootfs_sqfs.h"

struct tables {
    struct bx_rootfs *r;
    sqfs_meta_writer_t *inodes, *listings;
    sqfs_dir_writer_t *dirs;
    uint32_t count;
};

static int number_inodes(struct tables *t, struct bx_node *dir)
{
    uint32_t folders = 0, n = 0;
    _cleanup_free_ struct bx_node **children = bx_tree_children(dir, &n);

    if (!children) {
        return SQFS_ERROR_ALLOC;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct bx_inode *inode = children[i]->inode;
        if (S_ISDIR(inode->mode)) {
            int rc = number_inodes(t, children[i]);
            if (rc) {
                return rc;
            }
            folders++;
        } else if (inode->number == 0) {
            inode->number = ++t->count;
        }
    }
    dir->inode->number = ++t->count;
    dir->inode->nlink = 2 + folders;
    return 0;
}

/* An inode of libsquashfs with what is special to its type; the caller frees it. */
static sqfs_inode_generic_t *new_special(const struct bx_inode *inode)
{
    size_t extra = S_ISLNK(inode->mode) ? strlen(inode->link) : 0;
    sqfs_inode_generic_t *n = calloc(1, sizeof(*n) + extra);

    if (!n) {
        return NULL;
    }
    switch (inode->mode & S_IFMT) {
    case S_IFLNK:
        n->base.type = SQFS_INODE_SLINK;
        n->data.slink.nlink = inode->nlink;
        n->data.slink.target_size = (sqfs_u32)extra;
        memcpy(n->extra, inode->link, extra);
        break;
    case S_IFBLK:
    case S_IFCHR:
        n->base.type = S_ISBLK(inode->mode) ? SQFS_INODE_BDEV : SQFS_INODE_CDEV;
        n->data.dev.nlink = inode->nlink;
        n->data.dev.devno = inode->devno;
        break;
    default:
        n->base.type = S_ISFIFO(inode->mode) ? SQFS_INODE_FIFO : SQFS_INODE_SOCKET;
        n->data.ipc.nlink = inode->nlink;
        break;
    }
    return n;
}

static sqfs_inode_generic_t *unpack_tail(const struct bx_tail *tail)
{
    sqfs_inode_generic_t *n = calloc(1, sizeof(*n));

    if (n) {
        n->base.type = SQFS_INODE_FILE;
        n->data.file.file_size = tail->size;
        n->data.file.fragment_index = tail->size ? tail->fragment : BX_NO_FRAGMENT;
        n->data.file.fragment_offset = tail->size ? tail->offset : BX_NO_FRAGMENT;
    }
    return n;
}

static int take_file(struct bx_inode *inode, sqfs_inode_generic_t **ret)
{
    sqfs_inode_generic_t *n = inode->packed ? unpack_tail(&inode->tail) : inode->data;

    if (!n) {
        return inode->packed ? SQFS_ERROR_ALLOC : SQFS_ERROR_INTERNAL;
    }
    inode->data = NULL;
    inode->packed = false;
    *ret = n;
    if (inode->nlink > 1) {
        int rc = sqfs_inode_make_extended(n);
        if (rc) {
            return rc;
        }
    }
    if (n->base.type == SQFS_INODE_EXT_FILE) {
        n->data.file_ext.nlink = inode->nlink;
    }
    return 0;
}

static int write_inode(struct tables *t, struct bx_inode *inode, sqfs_inode_generic_t *n)
{
    uint64_t block = 0;
    uint32_t offset = 0;
    int rc;

    n->base.mode = (sqfs_u16)inode->mode;
    n->base.mod_time = inode->mtime;
    n->base.inode_number = inode->number;
    rc = sqfs_inode_set_xattr_index(n, inode->xattr);
    if (rc == 0) {
        rc = sqfs_id_table_id_to_index(t->r->ids, inode->uid, &n->base.uid_idx);
    }
    if (rc == 0) {
        rc = sqfs_id_table_id_to_index(t->r->ids, inode->gid, &n->base.gid_idx);
    }
    if (rc) {
        return rc;
    }
    sqfs_meta_writer_get_position(t->inodes, &block, &offset);
    inode->ref = block << 16 | offset;
    inode->written = true;
    return sqfs_meta_writer_write_inode(t->inodes, n);
}

static int write_leaf(struct tables *t, struct bx_inode *inode)
{
    sqfs_inode_generic_t *n = NULL;
    int rc = 0;

    if (inode->written) {
        return 0;
    }
    if (S_ISREG(inode->mode)) {
        rc = take_file(inode, &n);
    } else {
        n = new_special(inode);
        rc = n ? 0 : SQFS_ERROR_ALLOC;
    }
    if (rc == 0) {
        rc = write_inode(t, inode, n);
    }
    free(n);
    return rc;
}

static int write_listing(struct tables *t, struct bx_node *const *children, uint32_t count)
{
    int rc = sqfs_dir_writer_begin(t->dirs, 0);

    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        const struct bx_inode *inode = children[i]->inode;
        rc = sqfs_dir_writer_add_entry(t->dirs, children[i]->name, inode->number, inode->ref,
                                       (sqfs_u16)inode->mode);
    }
    return rc ? rc : sqfs_dir_writer_end(t->dirs);
}

static int write_folder(struct tables *t, const struct bx_node *dir)
{
    uint32_t count = 0;
    _cleanup_free_ struct bx_node **children = bx_tree_children(dir, &count);
    sqfs_inode_generic_t *n;
    int rc = children ? 0 : SQFS_ERROR_ALLOC;

    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        if (S_ISDIR(children[i]->inode->mode)) {
            rc = write_folder(t, children[i]);
        }
    }
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        if (!S_ISDIR(children[i]->inode->mode)) {
            rc = write_leaf(t, children[i]->inode);
        }
    }
    if (rc == 0) {
        rc = write_listing(t, children, count);
    }
    if (rc) {
        return rc;
    }
    /* The root's parent is a number that no inode has, as mksquashfs does it. */
    n = sqfs_dir_writer_create_inode(t->dirs, dir->inode->nlink, dir->inode->xattr,
                                     dir->parent ? dir->parent->inode->number : t->count + 1);
    if (!n) {
        return SQFS_ERROR_ALLOC;
    }
    if (n->base.type == SQFS_INODE_DIR) {
        n->data.dir.nlink = dir->inode->nlink;
    } else {
        n->data.dir_ext.nlink = dir->inode->nlink;
    }
    rc = write_inode(t, dir->inode, n);
    free(n);
    return rc;
}

static int write_inodes_and_listings(struct tables *t)
{
    struct bx_rootfs *r = t->r;
    int rc = number_inodes(t, r->tree.root);

    if (rc) {
        return rc;
    }
    t->inodes = sqfs_meta_writer_create(&r->file.base, r->cmp, 0);
    t->listings = sqfs_meta_writer_create(&r->file.base, r->cmp, SQFS_META_WRITER_KEEP_IN_MEMORY);
    t->dirs = t->listings ? sqfs_dir_writer_create(t->listings, 0) : NULL;
    if (!t->inodes || !t->dirs) {
        return SQFS_ERROR_ALLOC;
    }
    r->super.inode_table_start = r->file.size;
    rc = write_folder(t, r->tree.root);
    if (rc == 0) {
        rc = sqfs_meta_writer_flush(t->inodes);
    }
    if (rc == 0) {
        rc = sqfs_meta_writer_flush(t->listings);
    }
    if (rc) {
        return rc;
    }
    r->super.root_inode_ref = r->tree.root->inode->ref;
    r->super.inode_count = t->count;
    r->super.directory_table_start = r->file.size;
    return sqfs_meta_write_write_to_file(t->listings);
}

int bx_rootfs_write_tables(struct bx_rootfs *r, boxlite_error **err)
{
    struct tables t = {.r = r};
    int rc = write_inodes_and_listings(&t);

    sqfs_destroy(t.dirs);
    sqfs_destroy(t.listings);
    sqfs_destroy(t.inodes);
    if (rc == 0) {
        rc = sqfs_frag_table_write(r->frags, &r->file.base, &r->super, r->cmp);
    }
    if (rc == 0) {
        rc = sqfs_id_table_write(r->ids, &r->file.base, &r->super, r->cmp);
    }
    if (rc == 0) {
        rc = sqfs_xattr_writer_flush(r->xattrs, &r->file.base, &r->super, r->cmp);
    }
    if (rc == 0) {
        r->super.bytes_used = r->file.size;
        rc = sqfs_super_write(&r->super, &r->file.base);
    }
    return rc ? bx_rootfs_fail(r, rc, "writing its tables", err) : 0;
}
