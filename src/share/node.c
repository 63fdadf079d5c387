/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.c: see node.h.
 *
 * Slots hold the nodes; a number is slot + 1 with the slot's generation above, which grows when the slot
 * is used again, so an old number finds nothing. A hash finds a node by its inode. A node lives while the
 * guest remembers it (lookups) or something stands on it (refs): so a node's folder outlives it, and a
 * walk up always ends at the root or at a name that is gone.
 */
#include "share/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DEPTH_MAX 2048 /* folders between a file and the root, when it has to be found again */
#define HASH_MIN 256u

/* ---- stat */

static int statx_into(int fd, const char *name, int flags, struct bx_stat *ret)
{
    struct statx sx;
    if (statx(fd, name, flags | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
              STATX_BASIC_STATS | STATX_BTIME, &sx) < 0) {
        return -errno;
    }
    *ret = (struct bx_stat){
        .st =
            {
                .st_dev = makedev(sx.stx_dev_major, sx.stx_dev_minor),
                .st_ino = sx.stx_ino,
                .st_mode = sx.stx_mode,
                .st_nlink = sx.stx_nlink,
                .st_uid = sx.stx_uid,
                .st_gid = sx.stx_gid,
                .st_rdev = makedev(sx.stx_rdev_major, sx.stx_rdev_minor),
                .st_size = (off_t)sx.stx_size,
                .st_blksize = (blksize_t)sx.stx_blksize,
                .st_blocks = (blkcnt_t)sx.stx_blocks,
                .st_atim = {sx.stx_atime.tv_sec, sx.stx_atime.tv_nsec},
                .st_mtim = {sx.stx_mtime.tv_sec, sx.stx_mtime.tv_nsec},
                .st_ctim = {sx.stx_ctime.tv_sec, sx.stx_ctime.tv_nsec},
            },
        .birth = sx.stx_mask & STATX_BTIME
                     ? (int64_t)((uint64_t)sx.stx_btime.tv_sec * 1000000000u + sx.stx_btime.tv_nsec)
                     : 0,
    };
    return 0;
}

int bx_stat_at(int dirfd, const char *name, struct bx_stat *ret)
{
    return statx_into(dirfd, name, 0, ret);
}

int bx_stat_fd(int fd, struct bx_stat *ret)
{
    return statx_into(fd, "", AT_EMPTY_PATH, ret);
}

const char *bx_proc_path(int fd, char buf[BX_PROC_PATH])
{
    (void)snprintf(buf, BX_PROC_PATH, "/proc/self/fd/%d", fd);
    return buf;
}

/* ---- the table */

static uint32_t hash_of(dev_t dev, ino_t ino)
{
    uint64_t h = ((uint64_t)ino ^ ((uint64_t)dev << 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

static int grow_hash(struct bx_nodes *t)
{
    uint32_t size = t->nhash ? t->nhash * 2 : HASH_MIN;
    struct bx_node **hash = calloc(size, sizeof(struct bx_node *));
    if (!hash) {
        return t->nhash ? 0 : -ENOMEM; /* longer chains do as well */
    }
    for (uint32_t i = 0; i < t->nhash; i++) {
        for (struct bx_node *n = t->hash[i], *next; n; n = next) {
            struct bx_node **head = &hash[hash_of(n->dev, n->ino) & (size - 1)];
            next = n->next;
            n->next = *head;
            *head = n;
        }
    }
    free(t->hash);
    t->hash = hash;
    t->nhash = size;
    return 0;
}

static int grow_slots(struct bx_nodes *t)
{
    uint32_t cap = t->cap ? t->cap * 2 : 64;
    if (t->cap >= BX_NODES_MAX) {
        return -ENFILE;
    }
    struct bx_node **slots = realloc(t->slots, cap * sizeof(struct bx_node *));
    t->slots = slots ? slots : t->slots;
    uint32_t *generations = realloc(t->generations, cap * sizeof(*generations));
    t->generations = generations ? generations : t->generations;
    if (!slots || !generations) {
        return -ENOMEM;
    }
    memset(slots + t->cap, 0, (cap - t->cap) * sizeof(struct bx_node *));
    memset(generations + t->cap, 0, (cap - t->cap) * sizeof(*generations));
    t->cap = cap;
    return 0;
}

/* A free slot: behind the last one that was taken, so that each is found in few steps. */
static int take_slot(struct bx_nodes *t, uint32_t *ret)
{
    if (t->used == t->cap) {
        int r = grow_slots(t);
        if (r < 0) {
            return r;
        }
    }
    while (t->slots[t->free_hint % t->cap]) {
        t->free_hint++;
    }
    *ret = t->free_hint++ % t->cap;
    return 0;
}

static void unhash(struct bx_nodes *t, struct bx_node *n)
{
    struct bx_node **p = &t->hash[hash_of(n->dev, n->ino) & (t->nhash - 1)];
    while (*p && *p != n) {
        p = &(*p)->next;
    }
    if (*p) {
        *p = n->next;
        n->next = NULL;
    }
}

static void drop_fd(struct bx_nodes *t, struct bx_node *n)
{
    if (n->fd < 0 || n == t->root) {
        return;
    }
    *(n->newer ? &n->newer->older : &t->newest) = n->older;
    *(n->older ? &n->older->newer : &t->oldest) = n->newer;
    n->newer = n->older = NULL;
    (void)close(n->fd);
    n->fd = -1;
    t->nfds--;
}

static void link_newest(struct bx_nodes *t, struct bx_node *n)
{
    n->newer = NULL;
    n->older = t->newest;
    *(t->newest ? &t->newest->newer : &t->oldest) = n;
    t->newest = n;
}

static void keep_fd(struct bx_nodes *t, struct bx_node *n, int fd)
{
    while (t->nfds >= t->max_fds && t->oldest) {
        drop_fd(t, t->oldest);
    }
    n->fd = fd;
    link_newest(t, n);
    t->nfds++;
}

static int new_node(struct bx_nodes *t, const struct bx_stat *st, struct bx_node **ret)
{
    uint32_t slot;
    int r = t->used >= t->nhash ? grow_hash(t) : 0;
    r = r < 0 ? r : take_slot(t, &slot);
    struct bx_node *n = r < 0 ? NULL : calloc(1, sizeof(*n));
    if (!n) {
        return r < 0 ? r : -ENOMEM;
    }
    n->id = (uint64_t)t->generations[slot] << 32 | (slot + 1);
    n->type = st->st.st_mode & S_IFMT;
    n->dev = st->st.st_dev;
    n->ino = st->st.st_ino;
    n->birth = st->birth;
    n->fd = -1;
    struct bx_node **head = &t->hash[hash_of(n->dev, n->ino) & (t->nhash - 1)];
    n->next = *head;
    *head = n;
    t->slots[slot] = n;
    t->used++;
    *ret = n;
    return 0;
}

static void free_node(struct bx_nodes *t, struct bx_node *n)
{
    uint32_t slot = (uint32_t)n->id - 1;
    if (t->gone) {
        t->gone(t->data, n);
    }
    unhash(t, n);
    drop_fd(t, n);
    t->slots[slot] = NULL;
    t->generations[slot]++;
    t->used--;
    free(n->name);
    free(n);
}

/* Frees it when nobody needs it, and then perhaps its folder, and so on. */
static void release(struct bx_nodes *t, struct bx_node *n)
{
    while (n && n != t->root && n->lookups == 0 && n->refs == 0) {
        struct bx_node *parent = n->parent;
        free_node(t, n);
        if (parent) {
            parent->refs--;
        }
        n = parent;
    }
}

int bx_nodes_init(struct bx_nodes *t, int root_fd, int proc_fd, uint32_t max_fds)
{
    struct bx_stat st;
    *t = (struct bx_nodes){.proc_fd = proc_fd, .max_fds = max_fds};
    int r = bx_stat_fd(root_fd, &st);
    r = r < 0 ? r : new_node(t, &st, &t->root);
    if (r == 0) {
        t->root->fd = root_fd;
        t->root->lookups = 1;
        struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
        int fd = (int)syscall(SYS_openat2, root_fd, ".", &how, sizeof(how));
        t->no_openat2 = fd < 0 && (errno == ENOSYS || errno == EPERM);
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    return r;
}

void bx_nodes_done(struct bx_nodes *t)
{
    if (t->root) {
        t->root->fd = -1; /* borrowed */
    }
    for (uint32_t i = 0; i < t->cap; i++) {
        if (t->slots[i]) {
            if (t->gone) {
                t->gone(t->data, t->slots[i]);
            }
            if (t->slots[i]->fd >= 0) {
                (void)close(t->slots[i]->fd);
            }
            free(t->slots[i]->name);
            free(t->slots[i]);
        }
    }
    free(t->slots);
    free(t->generations);
    free(t->hash);
    *t = (struct bx_nodes){.proc_fd = -1};
}

struct bx_node *bx_node_find(const struct bx_nodes *t, uint64_t id)
{
    uint32_t slot = (uint32_t)id - 1;
    struct bx_node *n = slot < t->cap ? t->slots[slot] : NULL;
    return n && n->id == id && n->lookups > 0 ? n : NULL;
}

struct bx_node *bx_node_same(const struct bx_nodes *t, const struct stat *st)
{
    struct bx_node *n = t->hash[hash_of(st->st_dev, st->st_ino) & (t->nhash - 1)];
    while (n && (n->dev != st->st_dev || n->ino != st->st_ino)) {
        n = n->next;
    }
    return n;
}

static bool is_same(const struct bx_node *n, const struct bx_stat *st)
{
    return n->dev == st->st.st_dev && n->ino == st->st.st_ino && n->birth == st->birth &&
           n->type == (st->st.st_mode & S_IFMT);
}

/* A folder that the host has moved below one that the guest knows inside it: that one's place is old. */
static void cut_loop(struct bx_nodes *t, struct bx_node *n, struct bx_node *dir)
{
    for (struct bx_node *at = dir; at; at = at->parent) {
        if (at->parent == n) {
            (void)bx_node_rename(t, at, NULL, NULL);
            return;
        }
    }
}

static int set_place(struct bx_nodes *t, struct bx_node *n, struct bx_node *dir, const char *name)
{
    struct bx_node *old = n->parent;
    char *copy = name ? strdup(name) : NULL;
    if (copy && n->refs > 1) {
        cut_loop(t, n, dir);
    }
    free(n->name);
    n->name = copy;
    n->parent = copy ? dir : NULL;
    if (n->parent) {
        dir->refs++;
    }
    if (old) {
        old->refs--;
        release(t, old);
    }
    return name && !copy ? -ENOMEM : 0;
}

int bx_node_rename(struct bx_nodes *t, struct bx_node *n, struct bx_node *dir, const char *name)
{
    if (n == t->root || n == dir ||
        (dir == n->parent && n->name && name && strcmp(n->name, name) == 0)) {
        return 0;
    }
    n->refs++; /* it may stand on what is let go */
    int r = set_place(t, n, dir, name);
    n->refs--;
    release(t, n);
    return r;
}

int bx_node_get(struct bx_nodes *t, struct bx_node *dir, const char *name, const struct bx_stat *st,
                struct bx_node **ret)
{
    struct bx_node *n = bx_node_same(t, &st->st);
    if (n && !is_same(n, st)) {
        unhash(t, n); /* its number has gone to another file */
        n = NULL;
    }
    int r = n ? 0 : new_node(t, st, &n);
    if (r < 0) {
        return r;
    }
    n->lookups++;
    r = bx_node_rename(t, n, dir, name);
    if (r < 0) {
        n->lookups--;
        release(t, n);
        return r;
    }
    *ret = n;
    return 0;
}

void bx_node_forget(struct bx_nodes *t, struct bx_node *n, uint64_t lookups)
{
    n->lookups -= lookups < n->lookups ? lookups : n->lookups;
    release(t, n);
}

void bx_node_ref(struct bx_node *n)
{
    n->refs++;
}

void bx_node_unref(struct bx_nodes *t, struct bx_node *n)
{
    n->refs--;
    release(t, n);
}

/* ---- descriptors */

/* Opens the path of `count` names, the last of which may be anything, below dirfd. */
static int open_names(int dirfd, struct bx_node *const *chain, size_t count)
{
    int fd = -1;
    for (size_t i = 0; i < count; i++) {
        bool last = i + 1 == count;
        int next = openat(fd < 0 ? dirfd : fd, chain[i]->name,
                          O_PATH | O_NOFOLLOW | O_CLOEXEC | (last ? 0 : O_DIRECTORY));
        int error = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        if (next < 0) {
            return -error;
        }
        fd = next;
    }
    return fd;
}

static int open_beneath(int dirfd, struct bx_node *const *chain, size_t count)
{
    char path[PATH_MAX];
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(chain[i]->name);
        if (len + n + 2 > sizeof(path)) {
            return open_names(dirfd, chain, count);
        }
        memcpy(path + len, chain[i]->name, n);
        len += n;
        path[len++] = i + 1 == count ? '\0' : '/';
    }
    struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    for (int tries = 0; tries < 8; tries++) {
        int fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN) {
            return fd >= 0 ? fd : -errno;
        }
    }
    return open_names(dirfd, chain, count); /* renames all around: EAGAIN each time */
}

static int find_again(struct bx_nodes *t, struct bx_node *n)
{
    _cleanup_free_ struct bx_node **chain = malloc(DEPTH_MAX * sizeof(struct bx_node *));
    struct bx_node *at = n;
    size_t count = 0;
    if (!chain) {
        return -ENOMEM;
    }
    for (; at->fd < 0; at = at->parent) {
        if (!at->parent) {
            return -ESTALE;
        }
        if (count == DEPTH_MAX) {
            return -ENAMETOOLONG;
        }
        chain[DEPTH_MAX - ++count] = at;
    }
    struct bx_node *const *first = chain + DEPTH_MAX - count;
    return t->no_openat2 || count == 1 ? open_names(at->fd, first, count)
                                       : open_beneath(at->fd, first, count);
}

int bx_node_fd(struct bx_nodes *t, struct bx_node *n)
{
    if (n->fd >= 0) {
        if (n != t->root && n != t->newest) {
            *(n->newer ? &n->newer->older : &t->newest) = n->older;
            *(n->older ? &n->older->newer : &t->oldest) = n->newer;
            link_newest(t, n);
        }
        return n->fd;
    }
    int fd = find_again(t, n);
    if (fd < 0) {
        return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
    }
    struct bx_stat st;
    int r = bx_stat_fd(fd, &st);
    if (r < 0 || !is_same(n, &st)) {
        (void)close(fd);
        return r < 0 ? r : -ESTALE;
    }
    keep_fd(t, n, fd);
    return fd;
}

int bx_node_open(struct bx_nodes *t, struct bx_node *n, int flags)
{
    char name[16];
    if (S_ISLNK(n->type)) {
        return -ELOOP;
    }
    if (!S_ISREG(n->type) && !S_ISDIR(n->type)) {
        return -EACCES; /* a device, a pipe or a socket of the host */
    }
    int fd = bx_node_fd(t, n);
    if (fd < 0) {
        return fd;
    }
    (void)snprintf(name, sizeof(name), "%d", fd);
    int opened = openat(t->proc_fd, name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return opened < 0 ? -errno : opened;
}
