/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h: the directory tree of an image while it is put together, in memory. It knows layers, links and how
 * paths are resolved, but nothing of file data or squashfs.
 *
 * A node is a name in a folder; an inode is what it names. Hard links are nodes that share an inode. Both live as long
 * as the tree, also those that no name leads to any more: data that is still being compressed refers to the inodes,
 * and so everything can lie in large chunks without a header of its own. There is one of each for every entry that
 * the layers ever had, so every byte of the two structs counts.
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
struct bx_chunk;

/* Where the data of a regular file lies that is shorter than a block. */
struct bx_tail {
    uint64_t fragment : 30;
    uint64_t offset : 17; /* in the fragment */
    uint64_t size : 17;   /* 0: an empty file, which has no fragment */
};

struct bx_inode {
    union { /* by type; all of it gives way to ref when the inode has been written */
        struct bx_node *children;          /* folder: the root of their treap */
        const char *link;                  /* symlink */
        uint32_t devno;                    /* device */
        struct sqfs_inode_generic_t *data; /* regular file; allocated by libsquashfs */
        struct bx_tail tail;               /* regular file if `packed` */
        uint64_t ref;                      /* where it lies in the inode table, if `written` */
    };
    uint64_t mode : 16;
    uint64_t packed : 1;
    uint64_t written : 1;
    uint64_t nlink : 23;  /* nodes that name it */
    uint64_t number : 23; /* 0: not numbered yet */
    uint32_t uid, gid, mtime, xattr;
};

struct bx_node {
    struct bx_node *parent; /* NULL: the root */
    struct bx_inode *inode;
    struct bx_node *left, *right; /* in the treap of the folder */
    uint16_t layer, depth; /* a manifest has 512 layers at most */
    char name[];
};

/* Memory that is given out front to back and freed as a whole. */
struct bx_arena {
    struct bx_chunk *chunks; /* the newest first */
};

struct bx_tree {
    struct bx_node *root;
    struct bx_arena nodes, inodes; /* names and symlink targets lie with the nodes */
    uint64_t seed;                 /* of the treaps */
    uint64_t text;
    uint32_t layer;
    uint32_t added; /* entries ever added, also replaced ones: bounds the memory */
};

int bx_tree_init(struct bx_tree *t, boxlite_error **err);
void bx_tree_done(struct bx_tree *t);
/* Puts a new inode at path (replacing as rootfs.h says), "" being the root. */
int bx_tree_put(struct bx_tree *t, const char *path, const struct bx_rootfs_entry *e,
                struct bx_inode **ret, boxlite_error **err);
int bx_tree_link(struct bx_tree *t, const char *path, const char *target, boxlite_error **err);
int bx_tree_remove(struct bx_tree *t, const char *path, boxlite_error **err);
int bx_tree_opaque(struct bx_tree *t, const char *path, uint32_t layer, boxlite_error **err);
/* A folder's children in the order of their names' bytes: an array (caller frees) or NULL when out of memory. */
struct bx_node **bx_tree_children(const struct bx_node *node, uint32_t *ret_n);

#endif
