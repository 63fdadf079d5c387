/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c: paths and layers on the in-memory tree.
 *
 * Paths come from hostile archives. The tree is no real file system, so nothing can leave it; what is guarded
 * here is that an image says what it means:
 * - A parent that is missing becomes a folder 0755 of root.
 * - A parent that is a symlink of the same layer is refused: no honest archive has that, it is how archives
 *   try to write elsewhere. A symlink of a lower layer is followed inside the tree, as Docker, containerd and
 *   umoci do (images whose base has /lib -> usr/lib get files below lib/ from later layers); following it above
 *   the root is refused.
 * - Any other parent that is no folder is refused.
 * - A whiteout or opaque mark hides lower layers only, in whatever order the entries of its layer come. Below
 *   something that its own layer put in a folder's place it means nothing (umoci writes such).
 *
 * Memory is bounded by the number of entries and by the sum of their texts, recursion by the depth. The
 * children of a folder are a treap: a search tree by name that is a heap by a random priority, which makes it
 * balanced whatever the order of the names. The priority is no field but the node's address mixed with a secret
 * seed, so no choice of names makes it slow. What the tree looks like inside has no influence on the image.
 */
#include "disk/tree.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/error.h"
#include "base/random.h"
#include "base/str.h"

#define FOLLOW_MAX 40

#define CHUNK_SIZE (64u << 10)

_Static_assert(BX_TREE_DEPTH_MAX <= UINT16_MAX, "a node's depth has 16 bits");
_Static_assert(BX_ROOTFS_ENTRIES_MAX + 2 < 1u << 23, "numbers and counts of links have 23 bits");
_Static_assert(sizeof(struct bx_inode) <= 32, "there is one for every entry: see tree.h");

/* ---- memory */

struct bx_chunk {
    struct bx_chunk *next;
    size_t used; /* of data */
    char data[CHUNK_SIZE - 2 * sizeof(size_t)] __attribute__((aligned(8)));
};

/* Zeroed, aligned to 8 bytes; size is far below a chunk's. */
static void *arena_take(struct bx_arena *a, size_t size)
{
    struct bx_chunk *c = a->chunks;
    void *p;

    size = (size + 7) & ~(size_t)7;
    if (!c || size > sizeof(c->data) - c->used) {
        c = calloc(1, sizeof(*c));
        if (!c) {
            return NULL;
        }
        c->next = a->chunks;
        a->chunks = c;
    }
    p = c->data + c->used;
    c->used += size;
    return p;
}

static void arena_free(struct bx_arena *a)
{
    while (a->chunks) {
        struct bx_chunk *next = a->chunks->next;
        free(a->chunks);
        a->chunks = next;
    }
}

/* ---- treaps */

/* The finalizer of MurmurHash3: each bit of the seed and of the address changes half of the result. */
static uint64_t priority(const struct bx_tree *t, const struct bx_node *node)
{
    uint64_t x = (uint64_t)(uintptr_t)node ^ t->seed;

    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

static void treap_insert(const struct bx_tree *t, struct bx_node **root, struct bx_node *node)
{
    struct bx_node **left = &node->left, **right = &node->right, *rest;

    while (*root && priority(t, *root) >= priority(t, node)) {
        root = strcmp(node->name, (*root)->name) < 0 ? &(*root)->left : &(*root)->right;
    }
    rest = *root;
    *root = node;
    while (rest) { /* what was here goes below the node, split by its name */
        if (strcmp(rest->name, node->name) < 0) {
            *left = rest;
            left = &rest->right;
            rest = *left;
        } else {
            *right = rest;
            right = &rest->left;
            rest = *right;
        }
    }
    *left = *right = NULL;
}

static void treap_remove(const struct bx_tree *t, struct bx_node **root, struct bx_node *node)
{
    struct bx_node *left = node->left, *right = node->right;

    while (*root != node) {
        root = strcmp(node->name, (*root)->name) < 0 ? &(*root)->left : &(*root)->right;
    }
    while (left && right) {
        if (priority(t, left) >= priority(t, right)) {
            *root = left;
            root = &left->right;
            left = *root;
        } else {
            *root = right;
            root = &right->left;
            right = *root;
        }
    }
    *root = left ? left : right;
}

/* ---- nodes and inodes */

/* Takes the names below a folder away. */
static void drop_treap(struct bx_node *node)
{
    for (; node; node = node->right) {
        drop_treap(node->left);
        if (S_ISDIR(node->inode->mode)) {
            drop_treap(node->inode->children);
        }
        node->inode->nlink--;
    }
}

static void unlink_node(const struct bx_tree *t, struct bx_node *node)
{
    struct bx_inode *dir = node->parent->inode;

    treap_remove(t, &dir->children, node);
    node->left = node->right = NULL;
    drop_treap(node);
}

static int fail_code(boxlite_error **err, int code, const char *path, const char *why)
{
    _cleanup_free_ char *shown = bx_escape(path, strlen(path), 200);

    return bx_fail(err, code, "entry %s: %s", shown ? shown : "?", why);
}

static int fail_entry(boxlite_error **err, const char *path, const char *why)
{
    return fail_code(err, BOXLITE_E_INTEGRITY, path, why);
}

static int count_entry(struct bx_tree *t, size_t text, boxlite_error **err)
{
    if (t->added >= BX_ROOTFS_ENTRIES_MAX) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "more than %u entries", BX_ROOTFS_ENTRIES_MAX);
    }
    if (t->text + text > BX_TREE_TEXT_MAX) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "names and links of more than %llu bytes",
                       BX_TREE_TEXT_MAX);
    }
    t->added++;
    t->text += text;
    return 0;
}

static struct bx_inode *new_inode(struct bx_tree *t, const struct bx_rootfs_entry *e)
{
    struct bx_inode *inode = arena_take(&t->inodes, sizeof(*inode));

    if (!inode) {
        return NULL;
    }
    if (S_ISLNK(e->mode)) {
        size_t size = strlen(e->link) + 1;
        char *link = arena_take(&t->nodes, size);
        if (!link) {
            return NULL;
        }
        inode->link = memcpy(link, e->link, size);
    }
    inode->mode = (uint16_t)e->mode;
    inode->uid = e->uid;
    inode->gid = e->gid;
    inode->mtime = e->mtime < 0 ? 0 : e->mtime > UINT32_MAX ? UINT32_MAX : (uint32_t)e->mtime;
    if (S_ISBLK(e->mode) || S_ISCHR(e->mode)) {
        /* The kernel's "new" encoding of 12 + 20 bits. */
        inode->devno =
            (e->dev_minor & 0xff) | (e->dev_major & 0xfff) << 8 | (e->dev_minor & 0xfff00) << 12;
    }
    inode->xattr = UINT32_MAX;
    return inode;
}

static struct bx_node *find_child(const struct bx_node *dir, const char *name)
{
    struct bx_node *node = dir->inode->children;
    int c;

    while (node && (c = strcmp(name, node->name)) != 0) {
        node = c < 0 ? node->left : node->right;
    }
    return node;
}

static int add_child(struct bx_tree *t, struct bx_node *dir, const char *name,
                     struct bx_inode *inode, struct bx_node **ret, boxlite_error **err)
{
    size_t size = strlen(name) + 1;
    struct bx_node *node;

    if (dir->depth >= BX_TREE_DEPTH_MAX) {
        return fail_entry(err, name, "too deep in folders");
    }
    node = arena_take(&t->nodes, offsetof(struct bx_node, name) + size);
    if (!node) {
        return bx_fail_oom(err);
    }
    memcpy(node->name, name, size);
    node->parent = dir;
    node->depth = (uint16_t)(dir->depth + 1);
    node->layer = (uint16_t)t->layer;
    node->inode = inode;
    treap_insert(t, &dir->inode->children, node);
    inode->nlink++;
    *ret = node;
    return 0;
}

static int make_parent(struct bx_tree *t, struct bx_node *dir, const char *name,
                       struct bx_node **ret, boxlite_error **err)
{
    static const struct bx_rootfs_entry folder = {.mode = S_IFDIR | 0755};
    struct bx_inode *inode;
    int r = count_entry(t, strlen(name), err);

    if (r < 0) {
        return r;
    }
    inode = new_inode(t, &folder);
    return inode ? add_child(t, dir, name, inode, ret, err) : bx_fail_oom(err);
}

/* One walk along a path. `rest` is what is still to be resolved; it is replaced when a symlink is followed. */
struct walk {
    struct bx_tree *t;
    const char *path; /* as given, for errors */
    struct bx_node *at;
    char *rest;
    bool make; /* missing parents */
    unsigned followed;
};

static int follow(struct walk *w, const struct bx_node *link, const char *behind,
                  boxlite_error **err)
{
    char *rest;

    if (link->layer == w->t->layer) {
        return fail_entry(err, w->path, "its parent is a symlink of the same layer");
    }
    if (++w->followed > FOLLOW_MAX) {
        return fail_entry(err, w->path, "its parent is a loop of symlinks");
    }
    rest = bx_asprintf("%s/%s", link->inode->link, behind);
    if (!rest) {
        return bx_fail_oom(err);
    }
    if (rest[0] == '/') {
        w->at = w->t->root;
    }
    free(w->rest);
    w->rest = rest;
    return 0;
}

/* Enters the parent folder NAME. 1: entered, 0: it is missing and not to be made. */
static int enter(struct walk *w, const char *name, size_t len, const char *behind,
                 boxlite_error **err)
{
    struct bx_node *child;
    int r;

    if (len > NAME_MAX) {
        return fail_entry(err, w->path, "a name longer than 255 bytes");
    }
    if (len == 0 || (len == 1 && name[0] == '.')) {
        child = w->at;
    } else if (len == 2 && name[0] == '.' && name[1] == '.') {
        if (!w->at->parent) {
            return fail_entry(err, w->path, "its parent is a symlink that leaves the root");
        }
        child = w->at->parent;
    } else if (!(child = find_child(w->at, name))) {
        if (!w->make) {
            return 0;
        }
        r = make_parent(w->t, w->at, name, &child, err);
        if (r < 0) {
            return r;
        }
    }
    if (!w->make && !S_ISDIR(child->inode->mode) && child->layer == w->t->layer) {
        return 0; /* whatever lower layers had below it is gone already */
    }
    if (S_ISLNK(child->inode->mode)) {
        r = follow(w, child, behind, err);
        return r < 0 ? r : 1;
    }
    if (!S_ISDIR(child->inode->mode)) {
        return fail_entry(err, w->path, "its parent is no folder");
    }
    w->at = child;
    memmove(w->rest, behind, strlen(behind) + 1);
    return 1;
}

/* Resolves all but the last component of path. 1: *ret_dir is the folder and *ret_name the last component within
 * path; 0: a parent is missing (only without make). The root itself has no parent: *ret_dir NULL. */
static int walk_parents(struct bx_tree *t, const char *path, bool make, struct bx_node **ret_dir,
                        const char **ret_name, boxlite_error **err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    struct walk w = {.t = t, .path = path, .at = t->root, .make = make};
    int r = 1;

    if (*path == '\0') {
        *ret_dir = NULL;
        *ret_name = path;
        return 1;
    }
    if (strlen(name) > NAME_MAX) {
        return fail_entry(err, path, "a name longer than 255 bytes");
    }
    w.rest = strndup(path, slash ? (size_t)(slash - path) : 0);
    if (!w.rest) {
        return bx_fail_oom(err);
    }
    while (r > 0 && w.rest[0] != '\0') {
        size_t len = strcspn(w.rest, "/");
        _cleanup_free_ char *part = strndup(w.rest, len);
        _cleanup_free_ char *behind = strdup(w.rest + len + (w.rest[len] == '/'));
        r = part && behind ? enter(&w, part, len, behind, err) : bx_fail_oom(err);
    }
    free(w.rest);
    *ret_dir = w.at;
    *ret_name = name;
    return r;
}

/* Makes `path` name the inode, which is counted already. */
static int set_node(struct bx_tree *t, const char *path, struct bx_inode *inode,
                    boxlite_error **err)
{
    struct bx_node *dir = NULL, *node = t->root;
    const char *name = NULL;
    int r = walk_parents(t, path, true, &dir, &name, err);

    if (r < 0) {
        return r;
    }
    if (dir) {
        node = find_child(dir, name);
    } else if (!S_ISDIR(inode->mode)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the root is no folder");
    }
    if (!node) {
        return add_child(t, dir, name, inode, &node, err);
    }
    if (S_ISDIR(node->inode->mode)) {
        if (S_ISDIR(inode->mode)) {
            inode->children = node->inode->children;
        } else {
            drop_treap(node->inode->children);
        }
    }
    node->inode->nlink--;
    node->inode = inode;
    node->layer = t->layer;
    inode->nlink++;
    return 0;
}

int bx_tree_put(struct bx_tree *t, const char *path, const struct bx_rootfs_entry *e,
                struct bx_inode **ret, boxlite_error **err)
{
    size_t link = S_ISLNK(e->mode) ? strlen(e->link) : 0;
    struct bx_inode *inode;
    int r;

    if (link > BX_TREE_LINK_MAX || (S_ISLNK(e->mode) && link == 0)) {
        return fail_entry(err, path, "a symlink with a target that is empty or too long");
    }
    r = count_entry(t, strlen(path) + link, err);
    if (r < 0) {
        return r;
    }
    inode = new_inode(t, e);
    if (!inode) {
        return bx_fail_oom(err);
    }
    r = set_node(t, path, inode, err);
    if (r < 0) {
        return r;
    }
    *ret = inode;
    return 0;
}

/* 1: found, 0: not there. */
static int find_node(struct bx_tree *t, const char *path, struct bx_node **ret, boxlite_error **err)
{
    struct bx_node *dir = NULL;
    const char *name = NULL;
    int r = walk_parents(t, path, false, &dir, &name, err);

    if (r <= 0) {
        return r;
    }
    *ret = dir ? find_child(dir, name) : t->root;
    return *ret ? 1 : 0;
}

int bx_tree_link(struct bx_tree *t, const char *path, const char *target, boxlite_error **err)
{
    struct bx_node *node = NULL;
    int r = find_node(t, target, &node, err);

    if (r < 0) {
        return r;
    }
    if (r == 0) {
        return fail_code(err, BOXLITE_E_NOT_FOUND, path, "a hard link to what is not in the image");
    }
    if (S_ISDIR(node->inode->mode)) {
        return fail_entry(err, path, "a hard link to a folder");
    }
    r = count_entry(t, strlen(path), err);
    return r < 0 ? r : set_node(t, path, node->inode, err);
}

/* Removes what lower layers put at and below node. False if the node itself went. */
static int prune(const struct bx_tree *t, struct bx_node *node, uint32_t layer, bool keep,
                 bool *ret_gone)
{
    _cleanup_free_ struct bx_node **children = NULL;
    uint32_t n = 0;

    if (S_ISDIR(node->inode->mode)) {
        children = bx_tree_children(node, &n);
        if (!children) {
            return -ENOMEM;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        bool gone = false;
        int r = prune(t, children[i], layer, false, &gone);
        if (r < 0) {
            return r;
        }
    }
    *ret_gone =
        !keep && node->layer < layer && (!S_ISDIR(node->inode->mode) || !node->inode->children);
    if (*ret_gone) {
        unlink_node(t, node);
    }
    return 0;
}

static int prune_path(struct bx_tree *t, const char *path, uint32_t layer, bool keep,
                      boxlite_error **err)
{
    struct bx_node *node = NULL;
    bool gone = false;
    int r = find_node(t, path, &node, err);

    if (r <= 0) {
        return r;
    }
    r = prune(t, node, layer, keep || node == t->root, &gone);
    return r < 0 ? bx_fail_oom(err) : 0;
}

int bx_tree_remove(struct bx_tree *t, const char *path, boxlite_error **err)
{
    return prune_path(t, path, t->layer, false, err);
}

int bx_tree_opaque(struct bx_tree *t, const char *path, uint32_t layer, boxlite_error **err)
{
    return prune_path(t, path, layer, true, err);
}

/* Puts the nodes of a treap into v, by name, and tells where the next ones go. */
static struct bx_node **collect(struct bx_node *node, struct bx_node **v)
{
    for (; node; node = node->right) {
        v = collect(node->left, v);
        *v++ = node;
    }
    return v;
}

static uint32_t count(const struct bx_node *node)
{
    uint32_t n = 0;

    for (; node; node = node->right) {
        n += 1 + count(node->left);
    }
    return n;
}

struct bx_node **bx_tree_children(const struct bx_node *node, uint32_t *ret_n)
{
    struct bx_node **v;

    *ret_n = count(node->inode->children);
    v = calloc((size_t)*ret_n + 1, sizeof(*v));
    if (v) {
        (void)collect(node->inode->children, v);
    }
    return v;
}

int bx_tree_init(struct bx_tree *t, boxlite_error **err)
{
    static const struct bx_rootfs_entry folder = {.mode = S_IFDIR | 0755};

    *t = (struct bx_tree){0};
    bx_random(&t->seed, sizeof(t->seed));
    t->root = arena_take(&t->nodes, offsetof(struct bx_node, name) + 1);
    if (!t->root || !(t->root->inode = new_inode(t, &folder))) {
        bx_tree_done(t);
        return bx_fail_oom(err);
    }
    t->root->inode->nlink = 1;
    return 0;
}

/* What libsquashfs allocated (by malloc(3), as its sqfs_free() says). */
static void free_data(const struct bx_arena *inodes)
{
    for (struct bx_chunk *c = inodes->chunks; c; c = c->next) {
        for (size_t at = 0; at < c->used; at += sizeof(struct bx_inode)) {
            struct bx_inode *inode = (struct bx_inode *)(void *)(c->data + at);
            if (S_ISREG(inode->mode) && !inode->packed && !inode->written) {
                free(inode->data);
            }
        }
    }
}

void bx_tree_done(struct bx_tree *t)
{
    free_data(&t->inodes);
    arena_free(&t->inodes);
    arena_free(&t->nodes);
    *t = (struct bx_tree){0};
}
