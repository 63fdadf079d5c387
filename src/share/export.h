/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h: one shared folder or file, and the FUSE operations on it.
 *
 * The guest is hostile from its first request, so what must hold stands here and not in the guest's
 * kernel: every operation works on descriptors below the root (node.h); a read-only tree is checked
 * before each change; only plain files and folders are opened; no device node, set-uid bit or attribute
 * outside user.* is made; nothing waits for the guest, and all that it can make grow has a bound.
 *
 * Owner. On the host all belongs to the calling user. In the guest a file belongs to whoever looks:
 * the answer carries the asker's ids, so root, uid 1000 and any other user can work side by side, and git
 * finds its own repository. The kernel caches attributes for all, so when the asker changes what was told
 * is called back, and until one of them has been quiet for a while nothing is to be cached. A workspace's
 * lower layer is read by overlayfs as root: there the owner is fixed.
 */
#ifndef BX_SHARE_EXPORT_H
#define BX_SHARE_EXPORT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "share/node.h"
#include "share/request.h"

struct bx_handle {
    uint64_t id;
    int fd;
    bool is_dir;
    struct bx_node *node;
    struct bx_handle *next; /* of the node */
    uint8_t *entries;       /* a folder's, read and not yet told */
    size_t at, len;
    uint64_t offset; /* of the entry at `at` */
};

struct bx_handles {
    struct bx_handle **slots;
    uint32_t *generations;
    uint32_t cap, used, hint, max;
};

/* Sends a message that answers nothing. */
typedef void (*bx_notify_fn)(void *data, const struct fuse_out_header *head, const void *body);

struct bx_export_options {
    int root_fd; /* O_PATH, borrowed */
    bool read_only;
    bool fixed_owner;   /* bx_export_set_owner() tells it */
    struct stat hidden; /* a folder that is not to be entered; st_nlink 0: none */
    uint32_t max_fds;   /* descriptors of nodes */
    uint32_t max_handles;
    int proc_fd;            /* /proc/self/fd, borrowed */
    struct bx_watch *watch; /* borrowed; NULL: nothing is watched */
    bx_notify_fn notify;    /* may be NULL */
    void *data;
};

/* A name that the request under way changes, and a node that it does. */
struct bx_own {
    uint64_t dir, self;
    char name[NAME_MAX + 1];
};

struct bx_export {
    struct bx_export_options opt;
    struct bx_nodes nodes;
    struct bx_handles handles;
    bool started; /* INIT was answered */
    uid_t uid;    /* owner, or the last asker */
    gid_t gid;
    bool asked;     /* somebody has asked */
    uint64_t mixed; /* until then several ask */
    struct bx_own own[4];
    unsigned nown;
};

/* A request under way. */
struct bx_call {
    struct bx_export *t;
    const struct bx_fuse_request *r;
    struct bx_node *node; /* the request's; never NULL in an operation */
    uint8_t *out;         /* BX_FUSE_REPLY_MAX bytes */
    size_t len;           /* of the answer */
    bool silent;          /* no answer */
};

int bx_export_init(struct bx_export *t, const struct bx_export_options *opt); /* 0 or -errno */
void bx_export_done(struct bx_export *t);
void bx_export_set_owner(struct bx_export *t, uid_t uid, gid_t gid);
/* Does one request. False: there is no answer. Else head is filled, its body (head->len less the head)
 * stands in out, which has BX_FUSE_REPLY_MAX bytes. */
bool bx_export_serve(struct bx_export *t, const void *msg, size_t len, struct fuse_out_header *head,
                     uint8_t *out);

/* ---- for the operations (ops_*.c); all return 0 or -errno */
typedef int (*bx_op_fn)(struct bx_call *c);
extern const bx_op_fn bx_ops_name[FUSE_COPY_FILE_RANGE + 1]; /* folders and names */
extern const bx_op_fn bx_ops_attr[FUSE_COPY_FILE_RANGE + 1]; /* attributes */
extern const bx_op_fn bx_ops_file[FUSE_COPY_FILE_RANGE + 1]; /* open files */
extern const bx_op_fn bx_ops_dir[FUSE_COPY_FILE_RANGE + 1];  /* open folders */

#define BX_MODE_MASK 01777u /* what the guest can set: no set-uid, no set-gid */

void bx_call_reply(struct bx_call *c, const void *body, size_t len);
/* EROFS for a read-only tree. */
int bx_call_writes(const struct bx_call *c);
/* The call's folder, open. */
int bx_call_dir(struct bx_call *c);
/* The entry of `name` in dir, found and counted; refuses what may not be entered. */
int bx_call_lookup(struct bx_call *c, struct bx_node *dir, const char *name,
                   struct fuse_entry_out *ret);
void bx_call_attr(struct bx_call *c, struct bx_node *n, const struct stat *st,
                  struct fuse_attr *ret);
/* A node's present state, by an open file if it has no name any more. */
int bx_call_stat(struct bx_call *c, struct bx_node *n, struct bx_stat *ret);
struct bx_handle *bx_handle_find(const struct bx_call *c, uint64_t id, bool is_dir);
/* Takes fd. */
int bx_handle_new(struct bx_call *c, struct bx_node *n, int fd, bool is_dir, uint64_t *ret);
void bx_handle_free(struct bx_export *t, struct bx_handle *h);
int bx_kill_set_ids(int fd);

/* ---- fresh.c: how long the guest may keep what it is told */
void bx_fresh_asker(struct bx_export *t, const struct fuse_in_header *head);
void bx_fresh_attr(struct bx_export *t, struct bx_node *n, const struct stat *st, uint64_t *sec,
                   uint32_t *nsec);
void bx_fresh_entry(struct bx_export *t, const struct bx_node *dir, bool there, uint64_t *sec,
                    uint32_t *nsec);
/* Before anything in a folder is told. */
void bx_fresh_watch(struct bx_export *t, struct bx_node *dir, int fd);
void bx_fresh_gone(void *export, struct bx_node *n);
/* Around a request; true: it changes something, end() is due. */
bool bx_fresh_begin(struct bx_export *t, const struct bx_node *node,
                    const struct bx_fuse_request *r);
void bx_fresh_end(struct bx_export *t);

#endif
