/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h: the directory tree of an image while it is put together, in memory. It knows layers, links and how
 * paths are resolved, but nothing of file data or squashfs.
 *
 * A node is a name in a folder; an inode is what it names. Hard links are nodes that share an inode. Inodes live
 * as long as the tree, also those that no node names any more: data that is still being compressed refers to them.
 */
#ifndef BX_DISK_TREE_H
#define BX_DISK_TREE_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "disk/rootfs.h"

#define BX_TREE_DEPTH_MAX 1024u
#define BX_TREE_TEXT_MAX (512ull << 20) /* names and symlink targets together */
#define BX_TREE_LINK_MAX 4095u          /* longest symlink target that Linux' squashfs reads */

struct sqfs_inode_generic_t;

struct bx_inode {
    struct bx_inode *next; /* of all of the tree */
    char *link;
    struct sqfs_inode_generic_t *data; /* regular file; allocated by libsquashfs */
    uint64_t ref;                      /* where it lies in the inode table */
    mode_t mode;
    uint32_t uid, gid, mtime, devno, xattr;
    uint32_t nlink;  /* nodes that name it */
    uint32_t number; /* 0: not numbered yet */
    bool written;
};

struct bx_node {
    struct bx_node *parent; /* NULL: the root */
    struct bx_inode *inode;
    void *children; /* tsearch(3), by name */
    size_t nchildren;
    const char *name; /* behind the node, in one allocation */
    uint32_t layer;
    uint32_t depth;
};

struct bx_tree {
    struct bx_node *root;
    struct bx_inode *inodes;
    uint32_t layer;
    uint32_t added; /* entries ever added, also replaced ones: bounds the memory */
    uint64_t text;
};

int bx_tree_init(struct bx_tree *t, boxlite_error **err);
void bx_tree_done(struct bx_tree *t);
/* Puts a new inode at path (replacing as rootfs.h says), "" being the root. */
int bx_tree_put(struct bx_tree *t, const char *path, const struct bx_rootfs_entry *e,
                struct bx_inode **ret, boxlite_error **err);
int bx_tree_link(struct bx_tree *t, const char *path, const char *target, boxlite_error **err);
int bx_tree_remove(struct bx_tree *t, const char *path, boxlite_error **err);
int bx_tree_opaque(struct bx_tree *t, const char *path, uint32_t layer, boxlite_error **err);
/* The children in the order of their names' bytes: an array of node->nchildren (caller frees) or NULL when out of
 * memory. */
struct bx_node **bx_tree_children(const struct bx_node *node);

#endif
