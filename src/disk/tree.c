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
 * children are balanced trees (tsearch), so no choice of names makes it slow.
 */
#include "disk/tree.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/error.h"
#include "base/str.h"

#define FOLLOW_MAX 40

static int compare_nodes(const void *a, const void *b)
{
    return strcmp(((const struct bx_node *)a)->name, ((const struct bx_node *)b)->name);
}

static void drop_subtree(void *p);

static void drop_children(struct bx_node *node)
{
    tdestroy(node->children, drop_subtree);
    node->children = NULL;
    node->nchildren = 0;
}

/* Frees a node and all below it; it must be unlinked from its parent already. */
static void drop_subtree(void *p)
{
    struct bx_node *node = p;

    drop_children(node);
    if (node->inode) {
        node->inode->nlink--;
    }
    free(node);
}

static void unlink_node(struct bx_node *node)
{
    (void)tdelete(node, &node->parent->children, compare_nodes);
    node->parent->nchildren--;
    drop_subtree(node);
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
    struct bx_inode *inode = calloc(1, sizeof(*inode));

    if (!inode) {
        return NULL;
    }
    if (S_ISLNK(e->mode) && !(inode->link = strdup(e->link))) {
        free(inode);
        return NULL;
    }
    inode->mode = e->mode;
    inode->uid = e->uid;
    inode->gid = e->gid;
    inode->mtime = e->mtime < 0 ? 0 : e->mtime > UINT32_MAX ? UINT32_MAX : (uint32_t)e->mtime;
    if (S_ISBLK(e->mode) || S_ISCHR(e->mode)) {
        /* The kernel's "new" encoding of 12 + 20 bits. */
        inode->devno =
            (e->dev_minor & 0xff) | (e->dev_major & 0xfff) << 8 | (e->dev_minor & 0xfff00) << 12;
    }
    inode->xattr = UINT32_MAX;
    inode->next = t->inodes;
    t->inodes = inode;
    return inode;
}

static struct bx_node *find_child(const struct bx_node *dir, const char *name, size_t len)
{
    char copy[NAME_MAX + 1];
    const struct bx_node key = {.name = copy};
    void *found;

    memcpy(copy, name, len);
    copy[len] = '\0';
    found = tfind(&key, &dir->children, compare_nodes);
    return found ? *(struct bx_node **)found : NULL;
}

static int add_child(struct bx_tree *t, struct bx_node *dir, const char *name, size_t len,
                     struct bx_inode *inode, struct bx_node **ret, boxlite_error **err)
{
    struct bx_node *node;

    if (dir->depth >= BX_TREE_DEPTH_MAX) {
        return fail_entry(err, name, "too deep in folders");
    }
    node = calloc(1, sizeof(*node) + len + 1);
    if (!node) {
        return bx_fail_oom(err);
    }
    node->name = memcpy(node + 1, name, len);
    node->parent = dir;
    node->depth = dir->depth + 1;
    node->layer = t->layer;
    if (!tsearch(node, &dir->children, compare_nodes)) {
        free(node);
        return bx_fail_oom(err);
    }
    dir->nchildren++;
    node->inode = inode;
    inode->nlink++;
    *ret = node;
    return 0;
}

static int make_parent(struct bx_tree *t, struct bx_node *dir, const char *name, size_t len,
                       struct bx_node **ret, boxlite_error **err)
{
    static const struct bx_rootfs_entry folder = {.mode = S_IFDIR | 0755};
    struct bx_inode *inode;
    int r = count_entry(t, len, err);

    if (r < 0) {
        return r;
    }
    inode = new_inode(t, &folder);
    return inode ? add_child(t, dir, name, len, inode, ret, err) : bx_fail_oom(err);
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
    } else if (!(child = find_child(w->at, name, len))) {
        if (!w->make) {
            return 0;
        }
        r = make_parent(w->t, w->at, name, len, &child, err);
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
        node = find_child(dir, name, strlen(name));
    } else if (!S_ISDIR(inode->mode)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the root is no folder");
    }
    if (!node) {
        return add_child(t, dir, name, strlen(name), inode, &node, err);
    }
    if (!S_ISDIR(inode->mode) || !S_ISDIR(node->inode->mode)) {
        drop_children(node);
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
    *ret = dir ? find_child(dir, name, strlen(name)) : t->root;
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
static int prune(struct bx_node *node, uint32_t layer, bool keep, bool *ret_gone)
{
    _cleanup_free_ struct bx_node **children = bx_tree_children(node);
    size_t n = node->nchildren;

    if (!children) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        bool gone = false;
        int r = prune(children[i], layer, false, &gone);
        if (r < 0) {
            return r;
        }
    }
    *ret_gone = !keep && node->layer < layer && node->nchildren == 0;
    if (*ret_gone) {
        unlink_node(node);
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
    r = prune(node, layer, keep || node == t->root, &gone);
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

struct collect {
    struct bx_node **v;
    size_t n;
};

static void collect_node(const void *nodep, VISIT which, void *data)
{
    struct collect *c = data;

    if (which == postorder || which == leaf) {
        c->v[c->n++] = *(struct bx_node *const *)nodep;
    }
}

struct bx_node **bx_tree_children(const struct bx_node *node)
{
    struct collect c = {.v = calloc(node->nchildren + 1, sizeof(struct bx_node *))};

    if (c.v) {
        twalk_r(node->children, collect_node, &c);
    }
    return c.v;
}

int bx_tree_init(struct bx_tree *t, boxlite_error **err)
{
    static const struct bx_rootfs_entry folder = {.mode = S_IFDIR | 0755};

    *t = (struct bx_tree){0};
    t->root = calloc(1, sizeof(*t->root));
    if (!t->root || !(t->root->inode = new_inode(t, &folder))) {
        bx_tree_done(t);
        return bx_fail_oom(err);
    }
    t->root->name = "";
    t->root->inode->nlink = 1;
    return 0;
}

void bx_tree_done(struct bx_tree *t)
{
    if (t->root) {
        drop_subtree(t->root);
    }
    while (t->inodes) {
        struct bx_inode *next = t->inodes->next;
        free(t->inodes->link);
        free(t->inodes->data); /* made by libsquashfs with malloc(3), as its sqfs_free() */
        free(t->inodes);
        t->inodes = next;
    }
    *t = (struct bx_tree){0};
}
