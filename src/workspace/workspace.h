/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace.h: what a box changed in a folder of the host that it works on, and how that comes back.
 *
 * A workspace is a folder of the host under an overlay of the box: the box sees it and writes beside it
 * (src/share, src/guest). Here is the way back:
 *
 *   baseline.c    what the box saw: one line a node, made before the box' first start
 *   pull.c        the upper folder as a stream from the guest: hostile; becomes a checked list and plain
 *                 files in a private folder
 *   tree.c        descriptors below the workspace's root: no path leads out of it
 *   changes.c     list and baseline together: added, modified, deleted, renamed, …; conflicts
 *   ignore.c      which of them are left out (.boxliteignore, --exclude)
 *   gate.c        which of them are held back: rules are data
 *   journal.c     what one apply does, as it stands on disk before it is done
 *   txn.c         does it, all or nothing; rolls back or finishes what a crash left; undo
 *   merge.c       three-way merge of text; git's part, wrapped
 *   render.c      unified diff
 *
 * Everything of a box is in boxes/ID/workspace/; applies that were made are in workspaces/ of the home, so that
 * undo outlives the box.
 */
#ifndef BX_WORKSPACE_WORKSPACE_H
#define BX_WORKSPACE_WORKSPACE_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/str.h"

#define BX_WS_PATH_MAX 4095u      /* bytes of a path below the root */
#define BX_WS_NODES_MAX 2000000u  /* of a baseline */
#define BX_WS_CHANGES_MAX 500000u /* entries that a guest may send */
#define BX_WS_DEPTH_MAX 512u

/* ---- what a node is */

enum bx_ws_type {
    BX_WS_NONE, /* not there */
    BX_WS_FILE,
    BX_WS_DIR,
    BX_WS_LINK,
    BX_WS_OTHER, /* a device, a pipe, a socket */
};

struct bx_ws_node {
    enum bx_ws_type type;
    uint32_t mode; /* 07777 */
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    uint64_t ino;
};

void bx_ws_node_of(const struct stat *st, struct bx_ws_node *ret);
/* What a user would call unchanged: type, size and times, for a folder its being one. */
bool bx_ws_node_same(const struct bx_ws_node *a, const struct bx_ws_node *b);

/* ---- tree.c */

/* The root of a workspace: the folder itself, no link. */
int bx_ws_open_root(const char *path, int *ret, boxlite_error **err);
/* A checked relative path: not empty, no "..", ".", empty part or NUL, bounded. */
bool bx_ws_path_ok(const char *path);
/* Opens below root; no link on the way is followed, none leads out. -errno. */
int bx_ws_openat(int root, const char *path, int flags, mode_t mode);
/* The folder that holds path ("a/b/c": "a/b"); *base points into path. -errno. */
int bx_ws_open_parent(int root, const char *path, const char **base);
/* NONE when it, or a folder on the way, is not there. 0 or -errno. */
int bx_ws_stat(int root, const char *path, struct bx_ws_node *ret);
/* The link's target; caller frees. */
int bx_ws_readlink(int root, const char *path, char **ret);

/* ---- baseline.c */

struct bx_ws_entry {
    char *path;
    struct bx_ws_node node;
};

struct bx_ws_baseline {
    struct bx_ws_entry
        *v; /* sorted by path, bytewise with '/' lowest: a folder before what is in it */
    size_t n, cap;
    char *text; /* holds the paths, when it was read */
};

void bx_ws_baseline_done(struct bx_ws_baseline *b);
/* Walks the tree. */
int bx_ws_baseline_walk(int root, struct bx_ws_baseline *ret, boxlite_error **err);
int bx_ws_baseline_write(const struct bx_ws_baseline *b, int dirfd, const char *name,
                         boxlite_error **err);
int bx_ws_baseline_read(int dirfd, const char *name, struct bx_ws_baseline *ret,
                        boxlite_error **err);
/* From the file's bytes, which are taken (also on failure). */
int bx_ws_baseline_parse(char *text, size_t len, struct bx_ws_baseline *ret, boxlite_error **err);
/* NULL: it was not there. */
const struct bx_ws_node *bx_ws_baseline_find(const struct bx_ws_baseline *b, const char *path);
/* The first entry below the folder, and how many there are. */
size_t bx_ws_baseline_below(const struct bx_ws_baseline *b, const char *dir, size_t *ret_first);
/* How paths are ordered: '/' before all other bytes. */
int bx_ws_path_cmp(const char *a, const char *b);

/* ---- pull.c */

struct bx_ws_item {
    char *path;
    enum bx_ws_type type;
    bool whiteout, opaque; /* whiteout: type is NONE */
    uint32_t mode;
    uint64_t size;
    int64_t mtime_ns;
    char *target;  /* of a link */
    unsigned file; /* its content is the file of that number in the private folder */
    char digest[72];
};

struct bx_ws_pulled {
    struct bx_ws_item *v; /* sorted as a baseline is */
    size_t n, cap;
    int dirfd; /* borrowed: where the contents are */
};

typedef ssize_t (*bx_ws_read_fn)(void *data, void *p, size_t size, boxlite_error **err);
/* Reads a layer from the guest; contents go to dirfd as files "0", "1", …. limit: bytes of all contents. */
int bx_ws_pull(bx_ws_read_fn read, void *data, int dirfd, uint64_t limit, struct bx_ws_pulled *ret,
               boxlite_error **err);
void bx_ws_pulled_done(struct bx_ws_pulled *p);

/* ---- changes.c */

enum bx_ws_kind {
    BX_WS_ADDED = 1,
    BX_WS_MODIFIED,
    BX_WS_DELETED,
    BX_WS_RENAMED,
    BX_WS_MODE,    /* only the mode */
    BX_WS_RETYPED, /* a file became a link, say */
};

struct bx_ws_change {
    enum bx_ws_kind kind;
    char *path;
    char *from;                   /* RENAMED: what it was called */
    struct bx_ws_node old, fresh; /* as the box saw it; as it left it */
    char *old_target, *target;    /* of links */
    int file;                     /* number of the new content, or -1 */
    bool binary;
    char *conflict; /* why it cannot be applied, or NULL */
    char *rule;     /* name of the rule that holds it back, or NULL */
    char *allow;    /* what to name to let it through */
};

struct bx_ws_changes {
    struct bx_ws_change *v; /* by path */
    size_t n, cap;
    size_t ignored;     /* left out by .boxliteignore and excludes */
    size_t git_ignored; /* left out because git ignores them */
    size_t outside;     /* left out because paths were named and these are not below them */
};

void bx_ws_changes_done(struct bx_ws_changes *c);
void bx_ws_change_done(struct bx_ws_change *c);
int bx_ws_compare(int root, const struct bx_ws_baseline *base, const struct bx_ws_pulled *now,
                  struct bx_ws_changes *ret, boxlite_error **err);
/* Sorted by path; takes the change's strings, also on failure. */
int bx_ws_changes_add(struct bx_ws_changes *c, struct bx_ws_change *take, boxlite_error **err);
/* Removes those for which keep() is false; *count grows by their number. */
void bx_ws_changes_filter(struct bx_ws_changes *c,
                          bool (*keep)(const struct bx_ws_change *, void *), void *data,
                          size_t *count);
const char *bx_ws_kind_name(enum bx_ws_kind kind);

/* ---- ignore.c */

struct bx_ws_ignore;
/* Patterns as in a .gitignore file; text may be hostile (the user's folder is not, the guest's is). */
int bx_ws_ignore_new(const char *text, struct bx_ws_ignore **ret, boxlite_error **err);
int bx_ws_ignore_add(struct bx_ws_ignore *ig, const char *pattern, boxlite_error **err);
bool bx_ws_ignored(const struct bx_ws_ignore *ig, const char *path, bool dir);
void bx_ws_ignore_free(struct bx_ws_ignore *ig);
/* One shell pattern against a name or path: '*' '?' '[…]' stop at '/', "**" does not. */
bool bx_ws_match(const char *pattern, const char *text);

/* ---- gate.c */

struct bx_ws_rules;
/* The built-in rules. */
int bx_ws_rules_new(struct bx_ws_rules **ret, boxlite_error **err);
/* More from a file's text: see docs/workspaces.md. */
int bx_ws_rules_parse(struct bx_ws_rules *r, const char *text, boxlite_error **err);
void bx_ws_rules_free(struct bx_ws_rules *r);
/* Sets rule and allow of every change that a rule holds back and `allow` does not name (a rule's name, a path, or
 * "all"). INVALID: a name that is neither. */
int bx_ws_gate(const struct bx_ws_rules *rules, const struct bx_ws_changes *changes,
               const struct bx_strv *allow, boxlite_error **err);

/* ---- render.c */

/* The lines of two texts as a unified diff with three lines around each change; nothing when they are the same. Past
 * out->max: NO_SPACE. */
int bx_ws_unified(const char *old, size_t old_len, const char *fresh, size_t fresh_len,
                  struct bx_buf *out, boxlite_error **err);
struct bx_ws_lines {
    size_t added, removed;
};
int bx_ws_count_lines(const char *old, size_t old_len, const char *fresh, size_t fresh_len,
                      struct bx_ws_lines *ret, boxlite_error **err);

/* ---- merge.c */

/* git's three-way merge of text: 1: merged into *ret, 0: the changes meet, or < 0: an error (git is missing, …). */
int bx_ws_merge(const struct bx_buf *base, const struct bx_buf *ours, const struct bx_buf *theirs,
                struct bx_buf *ret, boxlite_error **err);

/* ---- plans: journal.c */

/* One apply: what is to be done to the tree, in order. */
enum bx_ws_op_type {
    BX_WS_OP_REMOVE = 1, /* a file or link */
    BX_WS_OP_RMDIR,
    BX_WS_OP_MKDIR,
    BX_WS_OP_PUT, /* a file or link, new or in the place of an old one */
    BX_WS_OP_CHMOD,
};

struct bx_ws_op {
    enum bx_ws_op_type type;
    char *path;
    struct bx_ws_node old; /* as it must be found */
    enum bx_ws_type put;   /* PUT: FILE or LINK */
    uint32_t mode;         /* PUT of a file, MKDIR, CHMOD */
    int64_t mtime_ns;      /* PUT of a file; 0: now */
    char *target;          /* PUT of a link */
    int source;            /* PUT of a file: number of its content in the source folder */
    uint64_t size;         /* PUT of a file: of its content */
    uint64_t ino;          /* of the staged node, once it is */
};

struct bx_ws_plan {
    struct bx_ws_op *v;
    size_t n, cap;
};
void bx_ws_plan_done(struct bx_ws_plan *p);
int bx_ws_plan_add(struct bx_ws_plan *p, struct bx_ws_op *take, boxlite_error **err);
/* In the order in which they are done: what goes goes first, deepest first; then what comes, from the top. */
void bx_ws_plan_sort(struct bx_ws_plan *p);

#endif
