/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar_out.c: the built-in tar-out. See tar.h.
 *
 * A walk by descriptors that follows no link below its start and enters no other file systems, so that a
 * copy of "/" does not try /proc. Sockets have no form in an archive and are left out. The tree may
 * change meanwhile: a file that shrinks is filled up with zeros and makes the exit code 1.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "guest/tar.h"

#define DEPTH_MAX 1024
#define PATH_BYTES_MAX (256u * 1024u)
#define BLOCKS_MAX (4u << 20)
#define CHUNK (128u * 1024u)

struct out {
    struct bx_buf path;  /* name in the archive */
    struct bx_buf block; /* headers */
    dev_t dev;
    int depth;
    int status;
    uint8_t chunk[CHUNK];
};

static void complain(struct out *o, const char *what, int errnum)
{
    (void)dprintf(2, "tar-out: %s: %s: %s\n", bx_buf_str(&o->path), what, strerror(errnum));
    o->status = 1;
}

/* -errno: the output is gone, so everything ends. */
static int emit(struct out *o, const void *p, size_t len)
{
    int r = bx_write_full(1, p, len);
    if (r < 0) {
        o->status = 1;
    }
    return r;
}

static int emit_header(struct out *o, struct tar_entry *e)
{
    e->name = (char *)bx_buf_str(&o->path);
    bx_buf_clear(&o->block);
    int r = tar_write_header(&o->block, e);
    if (r < 0) {
        complain(o, "header", -r);
        return r;
    }
    return emit(o, bx_buf_data(&o->block), o->block.len);
}

static struct tar_entry entry_of(const struct stat *st)
{
    return (struct tar_entry){
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .mtime = st->st_mtim.tv_sec,
        .mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
    };
}

/* Exactly size bytes and their padding, as the header has promised. */
static int emit_data(struct out *o, int fd, uint64_t size)
{
    bool whole = true;
    for (uint64_t left = size; left > 0;) {
        size_t want = left < CHUNK ? (size_t)left : CHUNK;
        ssize_t n = whole ? bx_read_full(fd, o->chunk, want) : 0;
        if (n < (ssize_t)want) {
            complain(o, "became shorter", n < 0 ? (int)-n : EIO);
            n = n < 0 ? 0 : n;
            memset(o->chunk + n, 0, want - (size_t)n);
            whole = false;
        }
        int r = emit(o, o->chunk, want);
        if (r < 0) {
            return r;
        }
        left -= want;
    }
    memset(o->chunk, 0, TAR_BLOCK);
    return emit(o, o->chunk, (size_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK));
}

static int out_file(struct out *o, int dirfd, const char *name)
{
    struct stat st;
    _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        complain(o, "open", errno);
        return 0;
    }
    struct tar_entry e = entry_of(&st);
    e.type = TAR_FILE;
    e.size = (uint64_t)st.st_size;
    int r = emit_header(o, &e);
    return r < 0 ? r : emit_data(o, fd, e.size);
}

static int out_link(struct out *o, int dirfd, const char *name, struct tar_entry *e)
{
    char target[4097];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    if (n < 0) {
        complain(o, "readlink", errno);
        return 0;
    }
    target[n] = 0;
    e->type = TAR_SYMLINK;
    e->link = target;
    return emit_header(o, e);
}

static int out_node(struct out *o, int dirfd, const char *name);

static int out_children(struct out *o, int fd)
{
    _cleanup_closedir_ DIR *dir = fdopendir(fd);
    struct dirent *d;
    if (!dir) {
        complain(o, "opendir", errno);
        (void)close(fd);
        return 0;
    }
    size_t len = o->path.len;
    int r = 0;
    while (r == 0 && (d = readdir(dir))) {
        if (bx_streq(d->d_name, ".") || bx_streq(d->d_name, "..")) {
            continue;
        }
        r = bx_buf_appends(&o->path, d->d_name);
        r = r < 0 ? r : out_node(o, fd, d->d_name);
        o->path.len = len; /* cut back; the NUL follows suit */
        bx_buf_data(&o->path)[len] = 0;
    }
    return r;
}

static int out_dir(struct out *o, int dirfd, const char *name, struct tar_entry *e, dev_t dev)
{
    e->type = TAR_DIR;
    int r = bx_buf_appends(&o->path, "/");
    r = r < 0 ? r : emit_header(o, e);
    if (r < 0 || dev != o->dev) {
        return r;
    }
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || o->depth >= DEPTH_MAX) {
        complain(o, "open", fd < 0 ? errno : ELOOP);
        if (fd >= 0) {
            (void)close(fd);
        }
        return 0;
    }
    o->depth++;
    r = out_children(o, fd);
    o->depth--;
    return r;
}

static int out_node(struct out *o, int dirfd, const char *name)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT) { /* gone since it was listed */
            complain(o, "stat", errno);
        }
        return 0;
    }
    struct tar_entry e = entry_of(&st);
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return out_file(o, dirfd, name);
    case S_IFLNK:
        return out_link(o, dirfd, name, &e);
    case S_IFDIR:
        return out_dir(o, dirfd, name, &e, st.st_dev);
    case S_IFIFO:
        e.type = TAR_FIFO;
        return emit_header(o, &e);
    case S_IFCHR:
    case S_IFBLK:
        e.type = S_ISCHR(st.st_mode) ? TAR_CHAR : TAR_BLOCKDEV;
        e.major = major(st.st_rdev);
        e.minor = minor(st.st_rdev);
        return emit_header(o, &e);
    default:
        return 0;
    }
}

static void raise_nofile(void)
{
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
        rl.rlim_cur = rl.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &rl);
    }
}

int tar_out(char *const *argv, size_t argc)
{
    const char *path = argc == 1 ? argv[0] : "";
    static struct out o; /* too big for the stack, zero so that it takes no space in the program */
    static const char end[2 * TAR_BLOCK];
    _cleanup_free_ char *copy = strdup(path);
    struct stat st;
    if (!copy) {
        return 1;
    }
    o.path.max = PATH_BYTES_MAX;
    o.block.max = BLOCKS_MAX;
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--) {
        copy[n - 1] = 0;
    }
    char *slash = strrchr(copy, '/');
    const char *base = slash ? slash + 1 : copy;
    if (bx_buf_appends(&o.path, *base ? base : ".") < 0 || lstat(copy, &st) < 0) {
        (void)dprintf(2, "tar-out: %s: %s\n", path, strerror(errno));
        return 1;
    }
    raise_nofile();
    o.dev = st.st_dev;
    if (out_node(&o, AT_FDCWD, copy) == 0) {
        (void)emit(&o, end, sizeof(end));
    }
    bx_buf_done(&o.path);
    bx_buf_done(&o.block);
    return o.status;
}
