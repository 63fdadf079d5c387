/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h: what the guest's kernel knows of a tree: node numbers, each for one inode of the host.
 *
 * A node is found again by its folder and name, and is the same inode (device, number, time of birth)
 * or it is stale (ESTALE): a number never comes to mean another file. Descriptors (O_PATH) are a cache
 * with a bound, so a tree of any size needs few. Nothing here follows a symbolic link, and a path is
 * walked below the root's descriptor with openat2(RESOLVE_BENEATH), or name by name without it.
 */
#ifndef BX_SHARE_NODE_H
#define BX_SHARE_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define BX_NODES_MAX (1u << 20)

struct bx_node {
    uint64_t id;      /* slot and generation; the root's is 1 */
    uint64_t lookups; /* what the guest owes in forgets */
    uint32_t refs;    /* nodes in it, handles on it */
    mode_t type;      /* S_IFMT bits */
    dev_t dev;
    ino_t ino;
    int64_t birth;          /* ns, 0: the file system has none */
    struct bx_node *parent; /* NULL: root, or the name is gone */
    char *name;
    int fd;                        /* O_PATH, -1: not open */
    struct bx_node *newer, *older; /* of those with a descriptor */
    struct bx_node *next;          /* same hash */
    struct bx_handle *handles;     /* open files of it */
    int watch;                     /* of a folder (watch.h), 0: not tried yet, < 0: not possible */
    uint32_t events; /* of a folder's names, since then */
    uint64_t since;
    uint64_t told;                 /* until when the guest may hold attributes: monotonic */
};

struct bx_nodes {
    struct bx_node **slots;
    uint32_t *generations;
    uint32_t nslots, cap, free_hint, used;
    struct bx_node **hash;
    uint32_t nhash;
    struct bx_node *newest, *oldest;
    uint32_t nfds, max_fds;
    int proc_fd;     /* /proc/self/fd */
    bool no_openat2; /* the kernel has none */
    struct bx_node *root;
    void (*gone)(void *data, struct bx_node *n); /* before one is freed; may be NULL */
    void *data;
};

struct bx_stat {
    struct stat st;
    int64_t birth;
};

/* root_fd is borrowed for as long as the table lives. 0 or -errno. */
int bx_nodes_init(struct bx_nodes *t, int root_fd, int proc_fd, uint32_t max_fds);
void bx_nodes_done(struct bx_nodes *t);
/* NULL: unknown, or forgotten by the guest. */
struct bx_node *bx_node_find(const struct bx_nodes *t, uint64_t id);
/* The node of what was found as `name` in dir, made if it is new; counts one lookup. -ENFILE, -ENOMEM. */
int bx_node_get(struct bx_nodes *t, struct bx_node *dir, const char *name, const struct bx_stat *st,
                struct bx_node **ret);
/* The node of an inode, if there is one. */
struct bx_node *bx_node_same(const struct bx_nodes *t, const struct stat *st);
void bx_node_forget(struct bx_nodes *t, struct bx_node *n, uint64_t lookups);
void bx_node_ref(struct bx_node *n);
void bx_node_unref(struct bx_nodes *t, struct bx_node *n);
/* It is called so now; dir NULL: it has no name any more. -ENOMEM leaves it without one. */
int bx_node_rename(struct bx_nodes *t, struct bx_node *n, struct bx_node *dir, const char *name);
/* An O_PATH descriptor, borrowed until the next call with another node. -ESTALE. */
int bx_node_fd(struct bx_nodes *t, struct bx_node *n);
/* Opens it for data; only plain files and folders (-ELOOP for a link, -EACCES for the rest). */
int bx_node_open(struct bx_nodes *t, struct bx_node *n, int flags);
/* Of a name in an open folder, without following a link. */
int bx_stat_at(int dirfd, const char *name, struct bx_stat *ret);
int bx_stat_fd(int fd, struct bx_stat *ret);
/* A path for calls that take no descriptor: /proc/self/fd/N. */
#define BX_PROC_PATH 32
const char *bx_proc_path(int fd, char buf[BX_PROC_PATH]);

#endif
