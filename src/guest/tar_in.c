/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar_in.c: the built-in tar-in. See tar.h.
 *
 * Every name is resolved with the target folder as its root, so neither ".." nor a link, from the archive
 * or there before, leads out of it. What is in the way of an entry is replaced, but a folder stays
 * a folder. Times and modes of folders are set last, when nothing is written into them any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "guest/openat2.h"
#include "guest/tar.h"
#include "guest/users.h"

#define CHUNK (128u * 1024u)
/* Folders whose times are restored; those of more stay as they come. */
#define DIRS_MAX 65536
#define PASSWD_MAX (4u << 20)

struct late_dir {
    char *name;
    uint32_t mode;
    struct timespec mtime;
};

struct in {
    struct tar_reader reader;
    int root;
    struct late_dir *dirs;
    size_t ndirs;
    int status;
    const struct user *owner; /* of all, or NULL: as the archive says */
    uint8_t chunk[CHUNK];
};

static int read_stdin(void *data, void *p, size_t len)
{
    ssize_t n = bx_read_full(0, p, len);
    return n < 0 ? (int)n : n == (ssize_t)len ? 0 : n == 0 ? -ENODATA : -EBADMSG;
}

static int complain(struct in *in, const char *name, const char *what, int errnum)
{
    (void)dprintf(2, "tar-in: %s: %s: %s\n", name, what, strerror(errnum < 0 ? -errnum : errnum));
    in->status = 1;
    return -1;
}

/* The name without leading slashes and "." parts; NULL and a complaint if it has "..". In place. */
static char *clean_name(struct in *in, char *name)
{
    char *out = name;
    for (char *p = name; *p;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && p[0] == '.' && p[1] == '.') {
            (void)dprintf(2, "tar-in: refused: a name with \"..\"\n");
            in->status = 1;
            return NULL;
        }
        if (len > 0 && !(len == 1 && *p == '.')) {
            if (out > name) {
                *out++ = '/';
            }
            memmove(out, p, len);
            out += len;
        }
        p += len + (p[len] == '/');
    }
    *out = 0;
    return name;
}

/* Opens the folder of a clean name, making what is missing. *base: the last part. */
static int open_parent(struct in *in, char *name, const char **base)
{
    char *slash = strrchr(name, '/');
    *base = slash ? slash + 1 : name;
    if (!slash) {
        return fcntl(in->root, F_DUPFD_CLOEXEC, 3);
    }
    *slash = 0;
    int fd = open_in_root(in->root, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT) {
        const char *last;
        int parent = open_parent(in, name, &last);
        fd = parent;
        if (parent >= 0) {
            (void)mkdirat(parent, last, 0755);
            (void)close(parent);
            fd = open_in_root(in->root, name, O_RDONLY | O_DIRECTORY, 0);
        }
    }
    *slash = '/';
    return fd;
}

static int set_owner(int dirfd, const char *base, const struct tar_entry *e)
{
    /* An ordinary user owns what it makes. */
    return fchownat(dirfd, base, e->uid, e->gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EPERM ? -errno
                                                                                            : 0;
}

static void set_mtime(int dirfd, const char *base, const struct tar_entry *e)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = e->mtime, .tv_nsec = e->mtime_nsec}};
    (void)utimensat(dirfd, base, times, AT_SYMLINK_NOFOLLOW);
}

/* Reads the entry's data off the input, into fd or nowhere (-1). Only a failed read is an error. */
static int take_data(struct in *in, int fd, uint64_t size, int *write_error)
{
    for (uint64_t left = size; left > 0;) {
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        int r = read_stdin(NULL, in->chunk, n);
        if (r < 0) {
            return -EBADMSG;
        }
        if (fd >= 0 && *write_error == 0) {
            *write_error = bx_write_full(fd, in->chunk, n);
        }
        left -= n;
    }
    size_t pad = (size_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
    return pad > 0 && read_stdin(NULL, in->chunk, pad) < 0 ? -EBADMSG : 0;
}

static int make_file(struct in *in, int dirfd, const char *base, const struct tar_entry *e,
                     int *taken)
{
    int error = 0;
    _cleanup_close_ int fd =
        openat(dirfd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    *taken = take_data(in, fd, e->size, &error);
    int r = *taken < 0 ? *taken : error;
    r = r < 0 ? r : set_owner(dirfd, base, e);
    if (r == 0 && fchmod(fd, e->mode) < 0) {
        r = -errno;
    }
    return r;
}

static void remember_dir(struct in *in, const struct tar_entry *e)
{
    if (in->ndirs >= DIRS_MAX) {
        return;
    }
    if ((in->ndirs & (in->ndirs - 1)) == 0) {
        size_t cap = in->ndirs ? in->ndirs * 2 : 1;
        struct late_dir *dirs = realloc(in->dirs, cap * sizeof(*dirs));
        if (!dirs) {
            return;
        }
        in->dirs = dirs;
    }
    struct late_dir d = {.name = strdup(e->name),
                         .mode = e->mode,
                         .mtime = {.tv_sec = e->mtime, .tv_nsec = e->mtime_nsec}};
    if (d.name) {
        in->dirs[in->ndirs++] = d;
    }
}

static int make_dir(struct in *in, int dirfd, const char *base, const struct tar_entry *e)
{
    struct stat st;
    if (mkdirat(dirfd, base, 0700) < 0) {
        /* A link to a folder may stand for it (/bin and the like). */
        if (errno != EEXIST || fstatat(dirfd, base, &st, 0) < 0) {
            return -errno;
        }
        if (!S_ISDIR(st.st_mode)) {
            return -ENOTDIR;
        }
        if (fstatat(dirfd, base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
            return 0;
        }
    }
    int r = set_owner(dirfd, base, e);
    if (r == 0) {
        remember_dir(in, e);
    }
    return r;
}

static int make_hardlink(struct in *in, int dirfd, const char *base, const struct tar_entry *e)
{
    const char *old;
    char *target = clean_name(in, e->link);
    if (!target || !*target) {
        return -EINVAL;
    }
    _cleanup_close_ int fd = open_parent(in, target, &old);
    if (fd < 0) {
        return fd;
    }
    return linkat(fd, old, dirfd, base, 0) < 0 ? -errno : 0;
}

static int make_special(int dirfd, const char *base, const struct tar_entry *e)
{
    mode_t type = e->type == TAR_FIFO ? S_IFIFO : e->type == TAR_CHAR ? S_IFCHR : S_IFBLK;
    if (mknodat(dirfd, base, type | 0600, makedev(e->major, e->minor)) < 0) {
        return -errno;
    }
    int r = set_owner(dirfd, base, e);
    return r == 0 && fchmodat(dirfd, base, e->mode, 0) < 0 ? -errno : r;
}

static int make_node(struct in *in, int dirfd, const char *base, const struct tar_entry *e,
                     int *taken)
{
    if (e->type != TAR_DIR && unlinkat(dirfd, base, 0) < 0 && errno != ENOENT) {
        return -errno;
    }
    int r;
    switch (e->type) {
    case TAR_FILE:
        r = make_file(in, dirfd, base, e, taken);
        break;
    case TAR_DIR:
        return make_dir(in, dirfd, base, e);
    case TAR_HARDLINK:
        return make_hardlink(in, dirfd, base, e);
    case TAR_SYMLINK:
        r = symlinkat(e->link, dirfd, base) < 0 ? -errno : set_owner(dirfd, base, e);
        break;
    case TAR_CHAR:
    case TAR_BLOCKDEV:
    case TAR_FIFO:
        r = make_special(dirfd, base, e);
        break;
    default:
        return -ENOTSUP;
    }
    if (r == 0) {
        set_mtime(dirfd, base, e);
    }
    return r;
}

/* One entry with its data. An entry that fails is told and skipped; -1: the input itself is bad. */
static int extract(struct in *in)
{
    struct tar_entry *e = &in->reader.entry;
    int taken = 1; /* 0: the data has been read, < 0: reading failed */
    char *name = clean_name(in, e->name);
    if (name && *name) {
        const char *base;
        _cleanup_close_ int dirfd = open_parent(in, name, &base);
        int r = dirfd < 0 ? dirfd : make_node(in, dirfd, base, e, &taken);
        if (r < 0 && taken >= 0) {
            (void)complain(in, e->name, "extracting", r);
        }
    }
    if (taken > 0) {
        int ignored = 0;
        taken = take_data(in, -1, e->size, &ignored);
    }
    return taken;
}

static void finish_dirs(struct in *in)
{
    for (size_t i = in->ndirs; i-- > 0;) {
        struct late_dir *d = &in->dirs[i];
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, d->mtime};
        _cleanup_close_ int fd =
            open_in_root(in->root, d->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        if (fd < 0 || fchmod(fd, d->mode) < 0 || futimens(fd, times) < 0) {
            (void)complain(in, d->name, "mode and time", fd < 0 ? fd : errno);
        }
        free(d->name);
    }
    free(in->dirs);
}

static int open_root(const char *dir)
{
    _cleanup_free_ char *copy = strdup(dir);
    if (!copy) {
        return -ENOMEM;
    }
    for (char *slash = copy; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        (void)mkdir(copy, 0755);
        *slash = '/';
    }
    (void)mkdir(copy, 0755);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int resolve_owner(struct in *in, const char *spec)
{
    static struct user user;
    struct failure f = {0};
    struct bx_buf passwd = BX_BUF_INIT(PASSWD_MAX), group = BX_BUF_INIT(PASSWD_MAX);
    users_read("/etc/passwd", &passwd);
    users_read("/etc/group", &group);
    int r = users_resolve(spec, bx_buf_str(&passwd), bx_buf_str(&group), &user, &f);
    bx_buf_done(&passwd);
    bx_buf_done(&group);
    if (r < 0) {
        (void)dprintf(2, "tar-in: %s\n", f.text);
        return r;
    }
    in->owner = &user;
    return 0;
}

int tar_in(char *const *argv, size_t argc)
{
    const char *dir = argv[0];
    static struct in in;
    in.reader.read = read_stdin;
    (void)umask(0);
    in.root = open_root(dir);
    if (in.root < 0) {
        (void)complain(&in, dir, "target folder", in.root);
        return 1;
    }
    if (argc > 1 && resolve_owner(&in, argv[1]) < 0) {
        return 1;
    }
    int r;
    while ((r = tar_read_header(&in.reader)) > 0) {
        if (in.owner) {
            in.reader.entry.uid = in.owner->uid;
            in.reader.entry.gid = in.owner->gid;
        }
        if (extract(&in) < 0) {
            r = -EBADMSG;
            in.reader.problem = "the archive is cut off";
            break;
        }
    }
    if (r < 0) {
        (void)complain(&in, "input", in.reader.problem ? in.reader.problem : "reading", r);
    }
    tar_reader_done(&in.reader);
    finish_dirs(&in);
    bx_close(&in.root);
    return in.status;
}
