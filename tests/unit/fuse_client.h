/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuse_client.h: a guest's kernel for tests: writes raw FUSE requests, takes the answers apart.
 */
#ifndef BX_TESTS_FUSE_CLIENT_H
#define BX_TESTS_FUSE_CLIENT_H

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/path.h"
#include "harness.h"
#include "share/export.h"

#define ROOT 1u
#define ARG(x) &(x), sizeof(x)

struct fuse_client {
    struct bx_export t;
    int root, proc;
    uint32_t uid;
    unsigned notes, names; /* unasked messages: attributes, names called back */
    struct fuse_notify_inval_inode_out note;
    char name[256]; /* the last one called back */
    struct fuse_out_header head;
    size_t len; /* of the answer's body */
    union {
        uint8_t out[BX_FUSE_REPLY_MAX];
        struct fuse_entry_out entry;
        struct fuse_attr_out attr;
        struct fuse_open_out open;
        struct fuse_write_out write;
        struct fuse_init_out init;
        struct fuse_lseek_out lseek;
        struct fuse_statfs_out statfs;
        struct fuse_getxattr_out xattr;
        struct {
            struct fuse_entry_out entry;
            struct fuse_open_out open;
        } create;
    };
};

static inline void fc_note(void *data, const struct fuse_out_header *head, const void *body)
{
    struct fuse_client *f = data;
    if (head->error == FUSE_NOTIFY_INVAL_ENTRY) {
        f->names++;
        (void)snprintf(f->name, sizeof(f->name), "%s",
                       (const char *)body + sizeof(struct fuse_notify_inval_entry_out));
    } else {
        f->notes++;
        memcpy(&f->note, body, sizeof(f->note));
    }
}

/* One request: arguments, then up to two strings (with their NUL), then bytes. Its error, or 0. */
static inline int fc_ask(struct fuse_client *f, uint32_t op, uint64_t node, const void *arg,
                         size_t arglen, const char *name, const char *name2, const void *data,
                         size_t len)
{
    static uint8_t msg[BX_FUSE_REQUEST_MAX + 16];
    struct fuse_in_header head = {
        .opcode = op, .unique = 7, .nodeid = node, .uid = f->uid, .gid = f->uid};
    size_t at = sizeof(head);
    const struct {
        const void *p;
        size_t n;
    } parts[] = {{arg, arglen},
                 {name, name ? strlen(name) + 1 : 0},
                 {name2, name2 ? strlen(name2) + 1 : 0},
                 {data, len}};
    for (size_t i = 0; i < BX_ARRAY_SIZE(parts); i++) {
        if (parts[i].n > 0) {
            memcpy(msg + at, parts[i].p, parts[i].n);
            at += parts[i].n;
        }
    }
    head.len = (uint32_t)at;
    memcpy(msg, &head, sizeof(head));
    f->head = (struct fuse_out_header){0};
    if (!bx_export_serve(&f->t, msg, at, &f->head, f->out)) {
        return 1; /* silence */
    }
    f->len = f->head.len - sizeof(f->head);
    return f->head.error;
}

static inline void fc_start_with(struct fuse_client *f, const char *dir,
                                 const struct bx_export_options *how)
{
    struct bx_export_options opt = *how;
    const struct fuse_init_in in = {
        .major = 7, .minor = 37, .max_readahead = 1 << 20, .flags = UINT32_MAX};
    f->root = openat(tmpdir_fd(), dir, O_PATH | O_CLOEXEC);
    f->proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    ASSERT_GE(f->root, 0);
    opt.root_fd = f->root;
    opt.proc_fd = f->proc;
    opt.max_fds = opt.max_fds ? opt.max_fds : 64;
    opt.max_handles = opt.max_handles ? opt.max_handles : 64;
    opt.notify = fc_note;
    opt.data = f;
    ASSERT_EQ(bx_export_init(&f->t, &opt), 0);
    ASSERT_EQ(fc_ask(f, FUSE_INIT, 0, ARG(in), NULL, NULL, NULL, 0), 0);
}

static inline void fc_start(struct fuse_client *f, const char *dir)
{
    fc_start_with(f, dir, &(struct bx_export_options){0});
}

static inline void fc_stop(struct fuse_client *f)
{
    bx_export_done(&f->t);
    (void)close(f->root);
    (void)close(f->proc);
}

/* ---- requests by their names; 0 or the error */

static inline int fc_lookup(struct fuse_client *f, uint64_t dir, const char *name)
{
    return fc_ask(f, FUSE_LOOKUP, dir, NULL, 0, name, NULL, NULL, 0);
}

/* The node of a path's parts, 0 if one is missing. */
static inline uint64_t fc_node(struct fuse_client *f, const char *path)
{
    char part[256];
    uint64_t node = ROOT;
    for (const char *p = path; *p; p += strspn(p, "/")) {
        size_t n = strcspn(p, "/");
        (void)snprintf(part, sizeof(part), "%.*s", (int)n, p);
        if (fc_lookup(f, node, part) != 0) {
            return 0;
        }
        node = f->entry.nodeid;
        p += n;
    }
    return node;
}

static inline int fc_create(struct fuse_client *f, uint64_t dir, const char *name, uint32_t flags,
                            uint32_t mode)
{
    const struct fuse_create_in in = {.flags = flags, .mode = mode};
    return fc_ask(f, FUSE_CREATE, dir, ARG(in), name, NULL, NULL, 0);
}

static inline int fc_open(struct fuse_client *f, uint64_t node, uint32_t flags, uint64_t *fh)
{
    const struct fuse_open_in in = {.flags = flags};
    int r = fc_ask(f, FUSE_OPEN, node, ARG(in), NULL, NULL, NULL, 0);
    *fh = f->open.fh;
    return r;
}

static inline int fc_opendir(struct fuse_client *f, uint64_t node, uint64_t *fh)
{
    const struct fuse_open_in in = {0};
    int r = fc_ask(f, FUSE_OPENDIR, node, ARG(in), NULL, NULL, NULL, 0);
    *fh = f->open.fh;
    return r;
}

static inline int fc_release(struct fuse_client *f, uint64_t node, uint64_t fh)
{
    const struct fuse_release_in in = {.fh = fh};
    return fc_ask(f, FUSE_RELEASE, node, ARG(in), NULL, NULL, NULL, 0);
}

static inline int fc_write(struct fuse_client *f, uint64_t node, uint64_t fh, uint64_t offset,
                           const void *data, size_t len)
{
    const struct fuse_write_in in = {.fh = fh, .offset = offset, .size = (uint32_t)len};
    return fc_ask(f, FUSE_WRITE, node, ARG(in), NULL, NULL, data, len);
}

static inline int fc_read(struct fuse_client *f, uint64_t node, uint64_t fh, uint64_t offset,
                          uint32_t size)
{
    const struct fuse_read_in in = {.fh = fh, .offset = offset, .size = size};
    return fc_ask(f, FUSE_READ, node, ARG(in), NULL, NULL, NULL, 0);
}

static inline int fc_getattr(struct fuse_client *f, uint64_t node)
{
    const struct fuse_getattr_in in = {0};
    return fc_ask(f, FUSE_GETATTR, node, ARG(in), NULL, NULL, NULL, 0);
}

static inline int fc_setattr(struct fuse_client *f, uint64_t node, struct fuse_setattr_in in)
{
    return fc_ask(f, FUSE_SETATTR, node, ARG(in), NULL, NULL, NULL, 0);
}

static inline int fc_mkdir(struct fuse_client *f, uint64_t dir, const char *name)
{
    const struct fuse_mkdir_in in = {.mode = 0755};
    return fc_ask(f, FUSE_MKDIR, dir, ARG(in), name, NULL, NULL, 0);
}

static inline int fc_mknod(struct fuse_client *f, uint64_t dir, const char *name, uint32_t mode)
{
    const struct fuse_mknod_in in = {.mode = mode, .rdev = 0x103};
    return fc_ask(f, FUSE_MKNOD, dir, ARG(in), name, NULL, NULL, 0);
}

static inline int fc_name(struct fuse_client *f, uint32_t op, uint64_t dir, const char *name)
{
    return fc_ask(f, op, dir, NULL, 0, name, NULL, NULL, 0);
}

static inline int fc_symlink(struct fuse_client *f, uint64_t dir, const char *name, const char *to)
{
    return fc_ask(f, FUSE_SYMLINK, dir, NULL, 0, name, to, NULL, 0);
}

static inline int fc_rename(struct fuse_client *f, uint64_t dir, const char *name, uint64_t newdir,
                            const char *newname, uint32_t flags)
{
    const struct fuse_rename2_in in = {.newdir = newdir, .flags = flags};
    return fc_ask(f, FUSE_RENAME2, dir, ARG(in), name, newname, NULL, 0);
}

static inline int fc_link(struct fuse_client *f, uint64_t node, uint64_t dir, const char *name)
{
    const struct fuse_link_in in = {.oldnodeid = node};
    return fc_ask(f, FUSE_LINK, dir, ARG(in), name, NULL, NULL, 0);
}

static inline int fc_forget(struct fuse_client *f, uint64_t node, uint64_t n)
{
    const struct fuse_forget_in in = {.nlookup = n};
    return fc_ask(f, FUSE_FORGET, node, ARG(in), NULL, NULL, NULL, 0);
}

static inline int fc_setxattr(struct fuse_client *f, uint64_t node, const char *name,
                              const char *value)
{
    const uint32_t in[2] = {(uint32_t)strlen(value), 0};
    return fc_ask(f, FUSE_SETXATTR, node, in, sizeof(in), name, NULL, value, strlen(value));
}

static inline int fc_getxattr(struct fuse_client *f, uint64_t node, const char *name, uint32_t size)
{
    const struct fuse_getxattr_in in = {.size = size};
    return fc_ask(f, name ? FUSE_GETXATTR : FUSE_LISTXATTR, node, ARG(in), name, NULL, NULL, 0);
}

#endif
