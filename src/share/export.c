/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.c: see export.h. What the operations have in common: the table of them, answers, attributes,
 * handles.
 */
#include "share/export.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"

void bx_export_set_owner(struct bx_export *t, uid_t uid, gid_t gid)
{
    if (t->opt.fixed_owner) {
        t->uid = uid;
        t->gid = gid;
    }
}

/* ---- attributes */

void bx_call_attr(struct bx_call *c, struct bx_node *n, const struct stat *st,
                  struct fuse_attr *ret)
{
    *ret = (struct fuse_attr){
        .ino = st->st_ino,
        .size = (uint64_t)st->st_size,
        .blocks = (uint64_t)st->st_blocks,
        .atime = (uint64_t)st->st_atim.tv_sec,
        .mtime = (uint64_t)st->st_mtim.tv_sec,
        .ctime = (uint64_t)st->st_ctim.tv_sec,
        .atimensec = (uint32_t)st->st_atim.tv_nsec,
        .mtimensec = (uint32_t)st->st_mtim.tv_nsec,
        .ctimensec = (uint32_t)st->st_ctim.tv_nsec,
        .mode = st->st_mode,
        .nlink = (uint32_t)st->st_nlink,
        .uid = c->t->uid,
        .gid = c->t->gid,
        .blksize = (uint32_t)st->st_blksize,
    };
}

int bx_call_stat(struct bx_call *c, struct bx_node *n, struct bx_stat *ret)
{
    if (n->handles) {
        return bx_stat_fd(n->handles->fd, ret);
    }
    if (n->fd < 0 && n->parent && n->parent->fd >= 0) { /* the common case: no need to open it */
        int r = bx_stat_at(n->parent->fd, n->name, ret);
        if (r == 0 && ret->st.st_dev == n->dev && ret->st.st_ino == n->ino &&
            ret->birth == n->birth && (ret->st.st_mode & S_IFMT) == n->type) {
            return 0;
        }
        return -ESTALE;
    }
    int fd = bx_node_fd(&c->t->nodes, n);
    return fd < 0 ? fd : bx_stat_fd(fd, ret);
}

/* ---- finding */

/* File systems whose files are doors to the kernel or to other processes. */
static const long pseudo[] = {
    PROC_SUPER_MAGIC,   SYSFS_MAGIC,
    DEBUGFS_MAGIC,      TRACEFS_MAGIC,
    SECURITYFS_MAGIC,   SELINUX_MAGIC,
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
    BPF_FS_MAGIC,       EFIVARFS_MAGIC,
    NSFS_MAGIC,         BINFMTFS_MAGIC,
    DEVPTS_SUPER_MAGIC, 0x62656570 /* configfs */,
};

static int check_file_system(int dirfd, const char *name)
{
    struct statfs fs;
    _cleanup_close_ int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstatfs(fd, &fs) < 0) {
        return -errno;
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(pseudo); i++) {
        if ((long)fs.f_type == pseudo[i]) {
            return -EACCES;
        }
    }
    return 0;
}

int bx_call_lookup(struct bx_call *c, struct bx_node *dir, const char *name,
                   struct fuse_entry_out *ret)
{
    const struct stat *hidden = &c->t->opt.hidden;
    struct bx_node *n;
    struct bx_stat st;
    if (!S_ISDIR(dir->type)) {
        return -ENOTDIR;
    }
    int dirfd = bx_node_fd(&c->t->nodes, dir);
    if (dirfd >= 0) {
        bx_fresh_watch(c->t, dir, dirfd);
    }
    int r = dirfd < 0 ? dirfd : bx_stat_at(dirfd, name, &st);
    if (r == 0 && st.st.st_dev != dir->dev) {
        r = check_file_system(dirfd, name);
    }
    if (r == 0 && hidden->st_nlink > 0 && hidden->st_dev == st.st.st_dev &&
        hidden->st_ino == st.st.st_ino) {
        r = -EACCES;
    }
    r = r < 0 ? r : bx_node_get(&c->t->nodes, dir, name, &st, &n);
    if (r < 0) {
        return r;
    }
    *ret = (struct fuse_entry_out){.nodeid = n->id};
    bx_fresh_entry(c->t, dir, true, &ret->entry_valid, &ret->entry_valid_nsec);
    bx_fresh_attr(c->t, n, &st.st, &ret->attr_valid, &ret->attr_valid_nsec);
    bx_call_attr(c, n, &st.st, &ret->attr);
    return 0;
}

int bx_call_writes(const struct bx_call *c)
{
    return c->t->opt.read_only ? -EROFS : 0;
}

int bx_call_dir(struct bx_call *c)
{
    return S_ISDIR(c->node->type) ? bx_node_fd(&c->t->nodes, c->node) : -ENOTDIR;
}

void bx_call_reply(struct bx_call *c, const void *body, size_t len)
{
    memcpy(c->out, body, len);
    c->len = len;
}

int bx_kill_set_ids(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode) || !(st.st_mode & (S_ISUID | S_ISGID))) {
        return 0;
    }
    return fchmod(fd, st.st_mode & BX_MODE_MASK) < 0 ? -errno : 0;
}

/* ---- handles */

static int grow_handles(struct bx_handles *h)
{
    uint32_t cap = h->cap ? h->cap * 2 : 64;
    if (h->used >= h->max) {
        return -ENFILE;
    }
    if (h->used < h->cap) {
        return 0;
    }
    struct bx_handle **slots = realloc(h->slots, cap * sizeof(struct bx_handle *));
    h->slots = slots ? slots : h->slots;
    uint32_t *generations = realloc(h->generations, cap * sizeof(*generations));
    h->generations = generations ? generations : h->generations;
    if (!slots || !generations) {
        return -ENOMEM;
    }
    memset(slots + h->cap, 0, (cap - h->cap) * sizeof(struct bx_handle *));
    memset(generations + h->cap, 0, (cap - h->cap) * sizeof(*generations));
    h->cap = cap;
    return 0;
}

int bx_handle_new(struct bx_call *c, struct bx_node *n, int fd, bool is_dir, uint64_t *ret)
{
    struct bx_handles *all = &c->t->handles;
    int r = grow_handles(all);
    struct bx_handle *h = r < 0 ? NULL : calloc(1, sizeof(*h));
    if (!h) {
        (void)close(fd);
        return r < 0 ? r : -ENOMEM;
    }
    while (all->slots[all->hint % all->cap]) {
        all->hint++;
    }
    uint32_t slot = all->hint++ % all->cap;
    h->id = (uint64_t)all->generations[slot] << 32 | (slot + 1);
    h->fd = fd;
    h->is_dir = is_dir;
    h->node = n;
    h->next = n->handles;
    n->handles = h;
    bx_node_ref(n);
    all->slots[slot] = h;
    all->used++;
    *ret = h->id;
    return 0;
}

struct bx_handle *bx_handle_find(const struct bx_call *c, uint64_t id, bool is_dir)
{
    const struct bx_handles *all = &c->t->handles;
    uint32_t slot = (uint32_t)id - 1;
    struct bx_handle *h = slot < all->cap ? all->slots[slot] : NULL;
    return h && h->id == id && h->is_dir == is_dir ? h : NULL;
}

void bx_handle_free(struct bx_export *t, struct bx_handle *h)
{
    struct bx_handle **p = &h->node->handles;
    uint32_t slot = (uint32_t)h->id - 1;
    while (*p != h) {
        p = &(*p)->next;
    }
    *p = h->next;
    t->handles.slots[slot] = NULL;
    t->handles.generations[slot]++;
    t->handles.used--;
    bx_node_unref(&t->nodes, h->node);
    (void)close(h->fd);
    free(h->entries);
    free(h);
}

/* ---- a tree's life */

int bx_export_init(struct bx_export *t, const struct bx_export_options *opt)
{
    *t = (struct bx_export){.opt = *opt, .handles = {.max = opt->max_handles}};
    int r = bx_nodes_init(&t->nodes, opt->root_fd, opt->proc_fd, opt->max_fds);
    t->nodes.gone = bx_fresh_gone;
    t->nodes.data = t;
    return r;
}

void bx_export_done(struct bx_export *t)
{
    for (uint32_t i = 0; i < t->handles.cap; i++) {
        if (t->handles.slots[i]) {
            bx_handle_free(t, t->handles.slots[i]);
        }
    }
    free(t->handles.slots);
    free(t->handles.generations);
    t->handles = (struct bx_handles){0};
    bx_nodes_done(&t->nodes);
}

/* What a kernel that starts anew, or ends, remembers: nothing. */
static int start_anew(struct bx_export *t)
{
    const struct bx_export_options opt = t->opt;
    uid_t uid = t->uid;
    gid_t gid = t->gid;
    bx_export_done(t);
    int r = bx_export_init(t, &opt);
    t->uid = uid;
    t->gid = gid;
    return r;
}

#define WANTED                                                                                     \
    (FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES | FUSE_AUTO_INVAL_DATA |              \
     FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES |         \
     FUSE_CACHE_SYMLINKS | FUSE_HANDLE_KILLPRIV_V2 | FUSE_ASYNC_DIO)

static int op_init(struct bx_call *c)
{
    const struct fuse_init_in *in = &c->r->arg.init;
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION,
        .minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION,
    };
    if (in->major < FUSE_KERNEL_VERSION || (in->major == FUSE_KERNEL_VERSION && in->minor < 31)) {
        return -EPROTO;
    }
    if (in->major == FUSE_KERNEL_VERSION) { /* a newer one asks again */
        out.max_readahead = in->max_readahead < BX_FUSE_IO_MAX ? in->max_readahead : BX_FUSE_IO_MAX;
        out.flags = in->flags & WANTED;
        out.max_background = 64;
        out.congestion_threshold = 48;
        out.max_write = BX_FUSE_IO_MAX;
        out.time_gran = 1;
        out.max_pages = BX_FUSE_IO_MAX / 4096;
        int r = c->t->started ? start_anew(c->t) : 0;
        if (r < 0) {
            return r;
        }
        c->t->started = true;
    }
    bx_call_reply(c, &out, sizeof(out));
    return 0;
}

static int op_destroy(struct bx_call *c)
{
    return start_anew(c->t);
}

static int op_forget(struct bx_call *c)
{
    c->silent = true;
    if (c->node != c->t->nodes.root) {
        bx_node_forget(&c->t->nodes, c->node, c->r->arg.forget.nlookup);
    }
    return 0;
}

static int op_batch_forget(struct bx_call *c)
{
    c->silent = true;
    for (uint32_t i = 0; i < c->r->arg.batch_forget.count; i++) {
        struct fuse_forget_one one;
        memcpy(&one, c->r->data + i * sizeof(one), sizeof(one));
        struct bx_node *n = bx_node_find(&c->t->nodes, one.nodeid);
        if (n && n != c->t->nodes.root) {
            bx_node_forget(&c->t->nodes, n, one.nlookup);
        }
    }
    return 0;
}

static int op_interrupt(struct bx_call *c)
{
    c->silent = true; /* what it would interrupt has been answered */
    return 0;
}

/* ---- serving */

static bx_op_fn find_op(uint32_t opcode, bool *needs_node)
{
    static const struct {
        uint32_t opcode;
        bx_op_fn fn;
        bool needs_node;
    } own[] = {
        {FUSE_INIT, op_init, false},           {FUSE_DESTROY, op_destroy, false},
        {FUSE_FORGET, op_forget, true},        {FUSE_BATCH_FORGET, op_batch_forget, false},
        {FUSE_INTERRUPT, op_interrupt, false},
    };
    const bx_op_fn *const tables[] = {bx_ops_name, bx_ops_attr, bx_ops_file, bx_ops_dir};
    *needs_node = true;
    for (size_t i = 0; i < BX_ARRAY_SIZE(own); i++) {
        if (own[i].opcode == opcode) {
            *needs_node = own[i].needs_node;
            return own[i].fn;
        }
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(tables); i++) {
        if (opcode <= FUSE_COPY_FILE_RANGE && tables[i][opcode]) {
            return tables[i][opcode];
        }
    }
    return NULL;
}

static int run(struct bx_call *c)
{
    bool needs_node;
    bx_op_fn fn = find_op(c->r->head.opcode, &needs_node);
    if (!fn) {
        return -ENOSYS;
    }
    c->node = bx_node_find(&c->t->nodes, c->r->head.nodeid);
    if (needs_node && !c->node) {
        c->silent = c->r->head.opcode == FUSE_FORGET;
        return -ESTALE;
    }
    bx_fresh_asker(c->t, &c->r->head);
    bool changes = bx_fresh_begin(c->t, c->node, c->r);
    int r = fn(c);
    if (changes) {
        bx_fresh_end(c->t);
    }
    return r;
}

bool bx_export_serve(struct bx_export *t, const void *msg, size_t len, struct fuse_out_header *head,
                     uint8_t *out)
{
    struct bx_fuse_request r;
    int error = bx_fuse_parse(msg, len, &r);
    if (error == -EPROTO) {
        return false;
    }
    struct bx_call c = {.t = t, .r = &r, .out = out};
    c.silent = r.head.opcode == FUSE_FORGET || r.head.opcode == FUSE_BATCH_FORGET;
    error = error < 0 ? error : run(&c);
    *head = (struct fuse_out_header){
        .len = (uint32_t)(sizeof(*head) + (error < 0 ? 0 : c.len)),
        .error = error,
        .unique = r.head.unique,
    };
    return !c.silent;
}
