/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_unpack.c: a tar stream as a tree of the host. See copy.h.
 *
 * The guest wrote the stream, and the guest is hostile. What must hold:
 *  - nothing outside the target is touched: each name is taken apart, ".." is refused, the first
 *    part must be what was asked for, and the folders on the way are opened one by one without
 *    following links, so that neither a link made by the stream nor one that was there before leads
 *    elsewhere;
 *  - what is in the way is unlinked, never written through;
 *  - files belong to the calling user; set-user-ID and set-group-ID are dropped; devices, FIFOs and
 *    hard links are not made, nor files with holes (an agent that is whole sends neither of these);
 *  - memory is bounded: modes and times of folders, set last, for DIRS_MAX of them.
 * A size that the disk cannot hold is refused before anything of the file is written.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "box/copy.h"

#define DIRS_MAX 200000u
#define NAME_MAX_BYTES (64u << 10)
#define PARTS_MAX 1024u
#define CHUNK (128u << 10)
#define MODE_MASK 01777
#define SMALL (1 << 20) /* sizes below are not worth asking the file system */

struct late {
    char *path; /* below the target */
    mode_t mode;
    struct timespec mtime;
};

struct unpack {
    struct bx_copy *copy;
    const struct bx_log *log;
    struct bx_copy_progress *progress;
    struct archive *archive;
    int root;
    const char *expect, *top;
    struct late *late;
    size_t nlate, cap;
    char *in, *out; /* chunks: from the stream, to files */
    bool any;       /* something came at all */
    boxlite_error *error;
};

static la_ssize_t get(struct archive *a, void *data, const void **ret)
{
    struct unpack *u = data;
    (void)a;
    *ret = u->in;
    ssize_t n = bx_copy_read(u->copy, u->in, CHUNK, &u->error);
    u->any = u->any || n > 0;
    bx_copy_tell(u->progress, n > 0 ? (uint64_t)n : 0);
    return n;
}

static int broke(struct unpack *u, boxlite_error **err)
{
    if (u->error) {
        return bx_fail_again(err, u->error);
    }
    int r = u->any ? 0 : bx_copy_finish(u->copy, err); /* it may have said why there is nothing */
    if (r < 0) {
        return r;
    }
    const char *why = archive_error_string(u->archive);
    return bx_fail(err, BOXLITE_E_INTEGRITY, "the archive from the box is damaged: %s",
                   why ? why : "no reason given");
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* The place of a name below the target, or "" for the top that is the target itself. */
static int place_of(const struct unpack *u, const char *name, struct bx_buf *ret,
                    boxlite_error **err)
{
    bool all = bx_streq(u->expect, "."), first = !all;
    unsigned parts = 0;
    int r = bx_streq(u->top, ".") ? 0 : bx_buf_appends(ret, u->top);

    for (const char *p = name; r == 0 && *p;) {
        size_t n = strcspn(p, "/");
        bool dots = (n == 2 && memcmp(p, "..", 2) == 0) || (p == name && n == 0);
        if (dots || ++parts > PARTS_MAX) {
            return bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent the name \"%.200s\"", name);
        }
        if (n > 0 && !(n == 1 && *p == '.')) {
            if (first) {
                if (strlen(u->expect) != n || memcmp(p, u->expect, n) != 0) {
                    return bx_fail(err, BOXLITE_E_INTEGRITY,
                                   "the box sent \"%.200s\" where \"%s\" was asked for", name,
                                   u->expect);
                }
                first = false;
            } else {
                r = ret->len ? bx_buf_appends(ret, "/") : 0;
                r = r < 0 ? r : bx_buf_append(ret, p, n);
            }
        }
        p += n + (p[n] == '/');
    }
    if (r < 0 || first) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent a name that is %s",
                       first ? "empty" : "too long");
    }
    return 0;
}

/* Opens the folder that holds `path` (not empty), making what is missing. *ret_base: the last
 * part. */
static int open_parent(const struct unpack *u, char *path, const char **ret_base,
                       boxlite_error **err)
{
    _cleanup_close_ int fd = fcntl(u->root, F_DUPFD_CLOEXEC, 3);
    char *p = path, *slash;

    while (fd >= 0 && (slash = strchr(p, '/'))) {
        *slash = '\0';
        if (mkdirat(fd, p, 0755) < 0 && errno != EEXIST) {
            int r = bx_fail_errno(err, BOXLITE_E_IO, errno, "making the folder %s", path);
            *slash = '/';
            return r;
        }
        int next = openat(fd, p, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            int r = errno == ELOOP || errno == ENOTDIR
                        ? bx_fail(err, BOXLITE_E_INTEGRITY,
                                  "%s is no folder here, or a link, which is not followed", path)
                        : bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the folder %s", path);
            *slash = '/';
            return r;
        }
        (void)close(fd);
        fd = next;
        *slash = '/';
        p = slash + 1;
    }
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the target folder");
    }
    *ret_base = p;
    return steal_fd(&fd);
}

/* ---- Entries --------------------------------------------------------------------------------- */

static struct timespec mtime_of(struct archive_entry *e)
{
    return (struct timespec){.tv_sec = archive_entry_mtime(e),
                             .tv_nsec = archive_entry_mtime_nsec(e) % 1000000000L};
}

static int make_room(int dirfd, const char *base, const char *path, boxlite_error **err)
{
    return unlinkat(dirfd, base, 0) == 0 || errno == ENOENT
               ? 0
               : bx_fail_errno(err, BOXLITE_E_IO, errno == EPERM ? EISDIR : errno, "replacing %s",
                               path);
}

static int check_space(int fd, int64_t size, const char *path, boxlite_error **err)
{
    struct statvfs vfs;
    if (size < SMALL || fstatvfs(fd, &vfs) < 0) {
        return 0;
    }
    if ((uint64_t)size / vfs.f_frsize >= vfs.f_bavail) {
        return bx_fail(err, BOXLITE_E_NO_SPACE, "%s: %lld bytes do not fit on the disk", path,
                       (long long)size);
    }
    return 0;
}

static int make_file(struct unpack *u, int dirfd, const char *base, const char *path,
                     struct archive_entry *e, boxlite_error **err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of(e)};
    int r = make_room(dirfd, base, path, err);
    la_ssize_t n;

    if (r < 0) {
        return r;
    }
    _cleanup_close_ int fd =
        openat(dirfd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "creating %s", path);
    }
    r = check_space(fd, archive_entry_size(e), path, err);
    while (r == 0 && (n = archive_read_data(u->archive, u->out, CHUNK)) != 0) {
        if (n < 0) {
            return broke(u, err);
        }
        r = bx_write_full(fd, u->out, (size_t)n);
        r = r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing %s", path) : 0;
    }
    if (r == 0 && (fchmod(fd, archive_entry_perm(e) & MODE_MASK) < 0 || futimens(fd, times) < 0)) {
        r = bx_fail_errno(err, BOXLITE_E_IO, errno, "mode and time of %s", path);
    }
    return r;
}

static int make_link(int dirfd, const char *base, const char *path, struct archive_entry *e,
                     boxlite_error **err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of(e)};
    const char *target = archive_entry_symlink(e);
    target = target ? target : archive_entry_symlink_utf8(e);
    if (!target || !*target) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent the link %s without a target", path);
    }
    int r = make_room(dirfd, base, path, err);
    if (r < 0) {
        return r;
    }
    if (symlinkat(target, dirfd, base) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "making the link %s", path);
    }
    (void)utimensat(dirfd, base, times, AT_SYMLINK_NOFOLLOW);
    return 0;
}

/* A folder's mode and time are set last: they may forbid writing, and writing changes the time. */
static int make_folder(struct unpack *u, int dirfd, const char *base, const char *path,
                       struct archive_entry *e, boxlite_error **err)
{
    struct stat st;
    if (mkdirat(dirfd, base, 0700) < 0 &&
        (errno != EEXIST || fstatat(dirfd, base, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
         !S_ISDIR(st.st_mode))) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "making the folder %s", path);
    }
    if (u->nlate == DIRS_MAX) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent more than %u folders", DIRS_MAX);
    }
    if (u->nlate == u->cap) {
        size_t cap = u->cap ? 2 * u->cap : 64;
        struct late *late = realloc(u->late, cap * sizeof(*late));
        if (!late) {
            return bx_fail_oom(err);
        }
        u->late = late;
        u->cap = cap;
    }
    struct late l = {strdup(path), archive_entry_perm(e) & MODE_MASK, mtime_of(e)};
    if (!l.path) {
        return bx_fail_oom(err);
    }
    u->late[u->nlate++] = l;
    return 0;
}

static int make_entry(struct unpack *u, struct archive_entry *e, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf path = BX_BUF_INIT(NAME_MAX_BYTES);
    const char *name = archive_entry_pathname(e), *base;
    mode_t type = archive_entry_filetype(e);

    name = name ? name : archive_entry_pathname_utf8(e); /* the locale may not know all letters */
    int r = place_of(u, name ? name : "", &path, err);
    if (r < 0) {
        return r;
    }
    if (path.len == 0) {
        return type == S_IFDIR ? 0 : bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent no folder");
    }
    if (archive_entry_sparse_count(e) > 0) { /* a few bytes that would fill the disk with zeros */
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent the sparse file %s",
                       bx_buf_str(&path));
    }
    if (archive_entry_hardlink(e)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent the hard link %s",
                       bx_buf_str(&path));
    }
    _cleanup_close_ int dirfd = open_parent(u, (char *)bx_buf_data(&path), &base, err);
    if (dirfd < 0) {
        return dirfd;
    }
    switch (type) {
    case S_IFREG:
        return make_file(u, dirfd, base, bx_buf_str(&path), e, err);
    case S_IFDIR:
        return make_folder(u, dirfd, base, bx_buf_str(&path), e, err);
    case S_IFLNK:
        return make_link(dirfd, base, bx_buf_str(&path), e, err);
    default:
        bx_warn(u->log, "copy", "%s is no file, folder or link: left out", bx_buf_str(&path));
        return 0;
    }
}

static int finish_folders(struct unpack *u, boxlite_error **err)
{
    int r = 0;
    while (u->nlate > 0) {
        struct late *l = &u->late[--u->nlate];
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, l->mtime};
        const char *base;
        _cleanup_close_ int dirfd = r < 0 ? -1 : open_parent(u, l->path, &base, err);
        _cleanup_close_ int fd =
            dirfd < 0 ? -1 : openat(dirfd, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (r == 0 && dirfd < 0) {
            r = dirfd;
        } else if (r == 0 && fd >= 0 && (futimens(fd, times) < 0 || fchmod(fd, l->mode) < 0)) {
            r = bx_fail_errno(err, BOXLITE_E_IO, errno, "mode and time of %s", l->path);
        }
        free(l->path);
    }
    free(u->late);
    return r;
}

static int unpack_all(struct unpack *u, boxlite_error **err)
{
    struct archive_entry *e;
    int a, r = 0;

    if (archive_read_support_format_tar(u->archive) != ARCHIVE_OK ||
        archive_read_open(u->archive, u, NULL, get, NULL) != ARCHIVE_OK) {
        return broke(u, err);
    }
    while (r == 0 && (a = archive_read_next_header(u->archive, &e)) != ARCHIVE_EOF) {
        r = a < ARCHIVE_WARN ? broke(u, err) : make_entry(u, e, err);
    }
    return r;
}

int bx_copy_unpack(struct bx_copy *c, const struct bx_log *log, struct bx_copy_progress *progress,
                   int dirfd, const char *expect, const char *top, boxlite_error **err)
{
    struct unpack u = {
        .copy = c, .log = log, .progress = progress, .root = dirfd, .expect = expect, .top = top};
    int r;

    u.archive = archive_read_new();
    u.in = malloc(CHUNK);
    u.out = malloc(CHUNK);
    r = u.archive && u.in && u.out ? unpack_all(&u, err) : bx_fail_oom(err);
    int late = finish_folders(&u, r == 0 ? err : NULL);
    (void)archive_read_free(u.archive);
    boxlite_error_free(u.error);
    free(u.in);
    free(u.out);
    return r < 0 ? r : late;
}
