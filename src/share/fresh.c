/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fresh.c: how long the guest's kernel may keep what it is told, and calling it back.
 *
 * A name is sure while its folder is watched; attributes while the folder of the name is, and for a folder
 * while it is itself, too. A file with several names may be changed by one in a folder that nobody
 * watches, so it is not sure. What is not sure lives for a second.
 *
 * The guest's own changes are events as well, and are not to be called back, for that would empty its
 * cache with every write. They are queued before the system call returns: so events are taken in before a
 * request that changes something and after it, and those of the second time that bear the request's own
 * names are its own. Nothing is lost when the host changes the same name in that moment: what the request
 * is answered with was looked up after both.
 */
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/statfs.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "share/export.h"
#include "share/watch.h"

#define SHORT_MS 1000
#define LONG_MS 30000
/* A folder in which the host does so much is left alone for a while: calling back would be all that we do. */
#define BUSY 100u /* names a second */
#define QUIET (5 * BX_SEC)
#define MIXED (10 * BX_SEC) /* after another user's request */

#define NAMES (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)

/* ---- calling back */

/* Attributes only: with pages, the guest's kernel could have to wait for an answer of ours. */
static void call_back(struct bx_export *t, struct bx_node *n)
{
    if (!t->opt.notify || n->told <= bx_now_mono()) {
        return;
    }
    const struct fuse_notify_inval_inode_out body = {.ino = n->id, .off = -1};
    const struct fuse_out_header head = {.len = sizeof(head) + sizeof(body),
                                         .error = FUSE_NOTIFY_INVAL_INODE};
    n->told = 0;
    t->opt.notify(t->opt.data, &head, &body);
}

static void call_back_name(struct bx_export *t, uint64_t dir, const char *name)
{
    struct {
        struct fuse_notify_inval_entry_out out;
        char name[NAME_MAX + 1];
    } body = {.out = {.parent = dir, .namelen = (uint32_t)strnlen(name, NAME_MAX)}};
    memcpy(body.name, name, body.out.namelen);
    const struct fuse_out_header head = {
        .len = (uint32_t)(sizeof(head) + sizeof(body.out) + body.out.namelen + 1),
        .error = FUSE_NOTIFY_INVAL_ENTRY};
    if (t->opt.notify) {
        t->opt.notify(t->opt.data, &head, &body);
    }
}

/* ---- owner */

static bool has_asker(uint32_t opcode)
{
    switch (opcode) {
    case FUSE_LOOKUP:
    case FUSE_GETATTR:
    case FUSE_SETATTR:
    case FUSE_OPEN:
    case FUSE_OPENDIR:
    case FUSE_CREATE:
    case FUSE_MKDIR:
    case FUSE_ACCESS:
    case FUSE_READDIRPLUS:
        return true;
    default:
        return false; /* sent by the kernel on its own as well */
    }
}

void bx_fresh_asker(struct bx_export *t, const struct fuse_in_header *head)
{
    if (t->opt.fixed_owner || !has_asker(head->opcode)) {
        return;
    }
    if (t->asked && (head->uid != t->uid || head->gid != t->gid)) {
        for (uint32_t i = 0; i < t->nodes.cap; i++) {
            if (t->nodes.slots[i]) {
                call_back(t, t->nodes.slots[i]);
            }
        }
        t->mixed = bx_now_mono() + MIXED;
    }
    t->uid = head->uid;
    t->gid = head->gid;
    t->asked = true;
}

/* ---- how long */

static void set_valid(uint64_t ms, uint64_t *sec, uint32_t *nsec)
{
    *sec = ms / 1000;
    *nsec = (uint32_t)(ms % 1000) * 1000000;
}

static bool is_sure(const struct bx_export *t, const struct bx_node *n, const struct stat *st)
{
    bool named = n == t->nodes.root || (n->parent && n->parent->watch > 0);
    return named && (S_ISDIR(n->type) ? n->watch > 0 : st->st_nlink == 1);
}

void bx_fresh_attr(struct bx_export *t, struct bx_node *n, const struct stat *st, uint64_t *sec,
                   uint32_t *nsec)
{
    uint64_t now = bx_now_mono();
    uint64_t ms = t->mixed > now ? 0 : is_sure(t, n, st) ? LONG_MS : SHORT_MS;
    set_valid(ms, sec, nsec);
    n->told = ms ? now + ms * (BX_SEC / 1000) : 0;
}

void bx_fresh_entry(struct bx_export *t, const struct bx_node *dir, bool there, uint64_t *sec,
                    uint32_t *nsec)
{
    /* A name that is not there has no node, by which it could be found when events were lost. */
    set_valid(dir->watch > 0 && there ? LONG_MS : SHORT_MS, sec, nsec);
}

/* ---- watching */

static bool is_own(const struct bx_export *t, uint64_t dir, const char *name)
{
    for (unsigned i = 0; i < t->nown; i++) {
        if (name ? t->own[i].dir == dir && strcmp(t->own[i].name, name) == 0
                 : t->own[i].self == dir) {
            return true;
        }
    }
    return false;
}

static void on_file(struct bx_export *t, struct bx_node *dir, const char *name)
{
    struct bx_stat st;
    int fd = bx_node_fd(&t->nodes, dir);
    if (fd >= 0 && bx_stat_at(fd, name, &st) == 0) {
        struct bx_node *n = bx_node_same(&t->nodes, &st.st);
        if (n) {
            call_back(t, n);
        }
    }
}

/* Nothing that is in it is sure any more. */
static void call_back_all(struct bx_export *t, const struct bx_node *dir)
{
    for (uint32_t i = 0; i < t->nodes.cap; i++) {
        struct bx_node *n = t->nodes.slots[i];
        if (n && n->parent == dir) {
            call_back(t, n);
            call_back_name(t, dir->id, n->name);
        }
    }
}

static void stop_watching(struct bx_export *t, struct bx_node *dir)
{
    if (dir->watch > 0) {
        bx_watch_remove(t->opt.watch, dir->watch, dir->id, t);
        dir->watch = 0;
        call_back_all(t, dir);
    }
}

static bool is_busy(struct bx_node *dir)
{
    uint64_t now = bx_now_mono();
    if (now - dir->since > BX_SEC) {
        dir->since = now;
        dir->events = 0;
    }
    return ++dir->events > BUSY;
}

static void on_event(void *data, uint64_t id, const char *name, uint32_t mask)
{
    struct bx_export *t = data;
    struct bx_node *dir = bx_node_find(&t->nodes, id);
    if (!dir || is_own(t, id, name)) {
        return;
    }
    if (mask & IN_Q_OVERFLOW) { /* nothing is sure any more */
        call_back_all(t, dir);
    }
    if (mask & (IN_IGNORED | IN_DELETE_SELF)) {
        stop_watching(t, dir);
    }
    if (name && mask & NAMES) {
        call_back_name(t, id, name);
        if (is_busy(dir)) {
            stop_watching(t, dir);
        }
    } else if (name) {
        on_file(t, dir, name);
    }
    call_back(t, dir);
}

/* Events of another machine's changes do not come. */
static bool is_local(int fd)
{
    static const long local[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,
                                 TMPFS_MAGIC,      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
                                 0x2fc12fc1 /* zfs */};
    struct statfs fs;
    for (size_t i = 0; fstatfs(fd, &fs) == 0 && i < BX_ARRAY_SIZE(local); i++) {
        if ((long)fs.f_type == local[i]) {
            return true;
        }
    }
    return false;
}

void bx_fresh_watch(struct bx_export *t, struct bx_node *dir, int fd)
{
    bool quiet = dir->events > BUSY && bx_now_mono() - dir->since < QUIET;
    if (dir->watch != 0 || !t->opt.watch || quiet) {
        return;
    }
    dir->watch = is_local(fd) ? bx_watch_add(t->opt.watch, fd, dir->id, on_event, t) : -1;
}

void bx_fresh_gone(void *data, struct bx_node *n)
{
    struct bx_export *t = data;
    if (n->watch > 0) {
        bx_watch_remove(t->opt.watch, n->watch, n->id, t);
    }
    n->watch = 0;
}

/* ---- the guest's own changes */

static bool changes(uint32_t opcode)
{
    switch (opcode) {
    case FUSE_SETATTR:
    case FUSE_SYMLINK:
    case FUSE_MKNOD:
    case FUSE_MKDIR:
    case FUSE_UNLINK:
    case FUSE_RMDIR:
    case FUSE_RENAME:
    case FUSE_RENAME2:
    case FUSE_LINK:
    case FUSE_OPEN: /* O_TRUNC */
    case FUSE_CREATE:
    case FUSE_WRITE:
    case FUSE_RELEASE: /* of a file that was written */
    case FUSE_SETXATTR:
    case FUSE_REMOVEXATTR:
    case FUSE_FALLOCATE:
    case FUSE_COPY_FILE_RANGE:
        return true;
    default:
        return false;
    }
}

static void add_own(struct bx_export *t, uint64_t dir, const char *name, uint64_t self)
{
    struct bx_own *own = &t->own[t->nown++];
    own->dir = dir;
    own->self = self;
    (void)snprintf(own->name, sizeof(own->name), "%s", name);
}

static void add_node(struct bx_export *t, const struct bx_node *n)
{
    if (n) {
        add_own(t, n->parent ? n->parent->id : 0, n->parent ? n->name : "", n->id);
    }
}

bool bx_fresh_begin(struct bx_export *t, const struct bx_node *node,
                    const struct bx_fuse_request *r)
{
    if (!t->opt.watch || !changes(r->head.opcode)) {
        return false;
    }
    bx_watch_drain(t->opt.watch);
    t->nown = 0;
    add_node(t, node);
    if (r->name && node) {
        add_own(t, node->id, r->name, 0);
    }
    if (r->head.opcode == FUSE_LINK) {
        add_node(t, bx_node_find(&t->nodes, r->arg.link.oldnodeid));
    } else if (r->head.opcode == FUSE_COPY_FILE_RANGE) {
        add_node(t, bx_node_find(&t->nodes, r->arg.copy.nodeid_out));
    } else if (r->name2 && r->head.opcode != FUSE_SYMLINK) {
        add_own(t, r->arg.rename.newdir, r->name2, r->arg.rename.newdir);
    }
    return true;
}

void bx_fresh_end(struct bx_export *t)
{
    bx_watch_drain(t->opt.watch);
    t->nown = 0;
}
