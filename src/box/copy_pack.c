/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_pack.c: a tree of the host as a tar stream. See copy.h.
 *
 * Walked by descriptors, no symlink below the start is followed. The host's users mean nothing in
 * the box: the other end gives all to one, unless they are asked for. Sockets and devices are left out with a warning. The tree
 * may change meanwhile: a file that shrinks is an error, one that grows is cut.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "box/copy.h"

#define DEPTH_MAX 1024u
#define NAME_BYTES_MAX (64u << 10)
#define CHUNK (128u << 10)

struct pack {
    struct bx_copy *copy;
    const struct bx_log *log;
    struct bx_copy_progress *progress;
    bool owners;
    struct archive *archive;
    struct archive_entry *entry;
    struct bx_buf name; /* in the archive, of what is at hand */
    unsigned depth;
    char *chunk;
    boxlite_error *error; /* of the stream: libarchive only passes a number */
};

static la_ssize_t put(struct archive *a, void *data, const void *p, size_t len)
{
    struct pack *pk = data;
    (void)a;
    return bx_copy_write(pk->copy, p, len, &pk->error) < 0 ? -1 : (la_ssize_t)len;
}

/* A failure of libarchive or of the stream below it. */
static int broke(struct pack *pk, boxlite_error **err)
{
    if (pk->error) {
        return bx_fail_again(err, pk->error);
    }
    return bx_fail(err, BOXLITE_E_INTERNAL, "%s: %s", bx_buf_str(&pk->name),
                   archive_error_string(pk->archive) ? archive_error_string(pk->archive)
                                                     : "packing failed");
}

static int put_header(struct pack *pk, const struct stat *st, const char *target,
                      boxlite_error **err)
{
    struct archive_entry *e = archive_entry_clear(pk->entry);
    archive_entry_set_pathname(e, bx_buf_str(&pk->name));
    archive_entry_set_filetype(e, st->st_mode & S_IFMT);
    archive_entry_set_perm(e, st->st_mode & 07777);
    archive_entry_set_uid(e, pk->owners ? st->st_uid : 0);
    archive_entry_set_gid(e, pk->owners ? st->st_gid : 0);
    archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    archive_entry_set_size(e, S_ISREG(st->st_mode) ? st->st_size : 0);
    if (target) {
        archive_entry_set_symlink(e, target);
    }
    return archive_write_header(pk->archive, e) < ARCHIVE_WARN ? broke(pk, err) : 0;
}

static int pack_file(struct pack *pk, int dirfd, const char *path, boxlite_error **err)
{
    struct stat st;
    _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return bx_fail_errno(err, BOXLITE_E_IO, fd < 0 ? errno : EINVAL, "reading %s",
                             bx_buf_str(&pk->name));
    }
    int r = put_header(pk, &st, NULL, err);
    for (uint64_t left = (uint64_t)st.st_size; r == 0 && left > 0;) {
        ssize_t n = bx_read_full(fd, pk->chunk, left < CHUNK ? (size_t)left : CHUNK);
        if (n <= 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, n < 0 ? (int)n : EIO,
                                 "%s became shorter while it was read", bx_buf_str(&pk->name));
        }
        if (archive_write_data(pk->archive, pk->chunk, (size_t)n) != n) {
            return broke(pk, err);
        }
        bx_copy_tell(pk->progress, (uint64_t)n);
        left -= (uint64_t)n;
    }
    return r;
}

static int pack_link(struct pack *pk, int dirfd, const char *path, const struct stat *st,
                     boxlite_error **err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, path, target, sizeof(target) - 1);
    if (n < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "reading the link %s",
                             bx_buf_str(&pk->name));
    }
    target[n] = '\0';
    return put_header(pk, st, target, err);
}

static int pack_node(struct pack *pk, int dirfd, const char *path, boxlite_error **err);

static int pack_children(struct pack *pk, DIR *dir, boxlite_error **err)
{
    const size_t len = pk->name.len;
    struct dirent *d;
    int r = 0;

    while (r == 0 && (errno = 0, d = readdir(dir))) {
        if (bx_streq(d->d_name, ".") || bx_streq(d->d_name, "..")) {
            continue;
        }
        if (bx_buf_appendf(&pk->name, "/%s", d->d_name) < 0) {
            return bx_fail(err, BOXLITE_E_INVALID, "%s: the path is too long", d->d_name);
        }
        r = pack_node(pk, dirfd(dir), d->d_name, err);
        pk->name.len = len;
        bx_buf_data(&pk->name)[len] = '\0';
    }
    return r == 0 && errno ? bx_fail_errno(err, BOXLITE_E_IO, errno, "reading the folder %s",
                                           bx_buf_str(&pk->name))
                           : r;
}

static int pack_folder(struct pack *pk, int dirfd, const char *path, boxlite_error **err)
{
    struct stat st;
    int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir || fstat(fd, &st) < 0) {
        int r =
            bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the folder %s", bx_buf_str(&pk->name));
        if (!dir) {
            bx_cleanup_close(&fd);
        }
        return r;
    }
    if (pk->depth == DEPTH_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: folders are nested too deeply",
                       bx_buf_str(&pk->name));
    }
    int r = put_header(pk, &st, NULL, err);
    pk->depth++;
    r = r < 0 ? r : pack_children(pk, dir, err);
    pk->depth--;
    return r;
}

static int pack_node(struct pack *pk, int dirfd, const char *path, boxlite_error **err)
{
    struct stat st;
    if (fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "%s", bx_buf_str(&pk->name));
    }
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return pack_file(pk, dirfd, path, err);
    case S_IFDIR:
        return pack_folder(pk, dirfd, path, err);
    case S_IFLNK:
        return pack_link(pk, dirfd, path, &st, err);
    default:
        bx_warn(pk->log, "copy", "%s is no file, folder or link: left out", bx_buf_str(&pk->name));
        return 0;
    }
}

int bx_copy_pack(struct bx_copy *c, const struct bx_log *log, struct bx_copy_progress *progress,
                 int dirfd, const char *path, const char *top, bool owners, boxlite_error **err)
{
    struct pack pk = {.copy = c,
                      .log = log,
                      .progress = progress,
                      .owners = owners,
                      .name = BX_BUF_INIT(NAME_BYTES_MAX)};
    int r = 0;

    pk.archive = archive_write_new();
    pk.entry = archive_entry_new();
    pk.chunk = malloc(CHUNK);
    if (!pk.archive || !pk.entry || !pk.chunk || bx_buf_appends(&pk.name, top) < 0) {
        r = bx_fail_oom(err);
    } else if (archive_write_set_format_pax_restricted(pk.archive) != ARCHIVE_OK ||
               archive_write_set_bytes_in_last_block(pk.archive, 1) != ARCHIVE_OK ||
               archive_write_open(pk.archive, &pk, NULL, put, NULL) != ARCHIVE_OK) {
        r = broke(&pk, err);
    } else {
        r = pack_node(&pk, dirfd, path, err);
    }
    if (r == 0 && archive_write_close(pk.archive) != ARCHIVE_OK) {
        r = broke(&pk, err);
    } else if (r < 0 && pk.archive) {
        (void)archive_write_fail(pk.archive);
    }
    archive_entry_free(pk.entry);
    (void)archive_write_free(pk.archive);
    boxlite_error_free(pk.error);
    bx_buf_done(&pk.name);
    free(pk.chunk);
    return r;
}
