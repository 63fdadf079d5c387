/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.c: folders and tars of images.
 *
 * Paths come from hostile documents. In a folder they are opened so that the kernel keeps them beneath it
 * (openat2, RESOLVE_BENEATH). In a tar they are only keys of a table: the files themselves are named by number. Links in a
 * tar (old `docker save` archives link equal layers) are followed in the table, a few steps at most.
 *
 * Files of a tar are digested as they are written, so a layer moves into the store by a rename.
 */
#include "oci/layout.h"

#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "oci/manifest.h"
#include "oci/root.h"
#include "oci/tar.h"

#define FILES_MAX 20000u
#define PATH_BYTES_MAX 512u
#define LINKS_MAX 8

struct file {
    char *path;
    char *link; /* where it leads; else it is a file */
    uint64_t size;
    char name[24]; /* in the folder */
    char digest[BX_DIGEST_LEN + 1];
};

struct bx_layout {
    const struct bx_images *im;
    int dirfd;
    bool tar;
    int tmp_parent; /* of a tar: where its folder is, and the folder's name there */
    char tmp_name[64];
    struct file *files;
    size_t n, cap;
};

void bx_layout_free(struct bx_layout *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->n; i++) {
        free(l->files[i].path);
        free(l->files[i].link);
    }
    free(l->files);
    if (l->tmp_parent >= 0) {
        (void)bx_rm_rf(l->tmp_parent, l->tmp_name);
    }
    bx_close(&l->dirfd);
    bx_close(&l->tmp_parent);
    free(l);
}

/* ---- taking a tar apart */

/* Takes path and link. */
static int add_file(struct bx_layout *l, char *path, char *link, struct file **ret,
                    boxlite_error **err)
{
    struct file *f;

    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct file *files = l->n < FILES_MAX ? reallocarray(l->files, cap, sizeof(*files)) : NULL;
        if (!files) {
            free(path);
            free(link);
            return l->n < FILES_MAX
                       ? bx_fail_oom(err)
                       : bx_fail(err, BOXLITE_E_INTEGRITY, "more than %u files", FILES_MAX);
        }
        l->files = files;
        l->cap = cap;
    }
    f = &l->files[l->n];
    *f = (struct file){.path = path, .link = link};
    (void)snprintf(f->name, sizeof(f->name), "%zu", l->n++);
    if (ret) {
        *ret = f;
    }
    return 0;
}

static int copy_data(struct bx_tar *t, const char *path, int fd, struct bx_sha256 *hash,
                     uint64_t *ret_size, boxlite_error **err)
{
    const void *data;
    uint64_t off, at = 0;
    size_t n;
    int r;

    while ((r = bx_tar_data(t, &data, &n, &off, err)) > 0) {
        if (off != at) {
            return bx_tar_refuse(err, path, "a sparse file");
        }
        bx_sha256_update(hash, data, n);
        r = bx_write_full(fd, data, n);
        if (r < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, r, "storing %s", path);
        }
        at += n;
    }
    *ret_size = at;
    return r;
}

static int extract_file(struct bx_layout *l, struct bx_tar *t, char **path, boxlite_error **err)
{
    _cleanup_sha256_ struct bx_sha256 *hash = bx_sha256_new();
    _cleanup_close_ int fd = -1;
    struct file *f = NULL;
    int r = hash ? add_file(l, steal_ptr(path), NULL, &f, err) : bx_fail_oom(err);

    if (r < 0) {
        return r;
    }
    fd = openat(l->dirfd, f->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "storing %s", f->path);
    }
    r = copy_data(t, f->path, fd, hash, &f->size, err);
    if (r == 0) {
        bx_sha256_final(hash, f->digest);
    }
    return r;
}

/* A symlink's target is relative to its folder and may climb, but not out; a hard link's is a path of the archive. */
static int resolve_link(const char *path, const char *to, bool symbolic, char **ret,
                        boxlite_error **err)
{
    const char *slash = strrchr(path, '/');
    size_t dir = symbolic && slash ? (size_t)(slash - path) : 0;
    _cleanup_free_ char *base = strndup(path, dir);

    if (!base) {
        return bx_fail_oom(err);
    }
    while (symbolic && bx_startswith(to, "../")) {
        char *up = strrchr(base, '/');
        if (*base == '\0') {
            return bx_tar_refuse(err, path, "a link out of the archive");
        }
        *(up ? up : base) = '\0';
        to += 3;
    }
    if (*base) {
        _cleanup_free_ char *joined = bx_asprintf("%s/%s", base, to);
        return joined ? bx_tar_clean_name(joined, path, ret, err) : bx_fail_oom(err);
    }
    return bx_tar_clean_name(to, path, ret, err);
}

static int extract_entry(struct bx_layout *l, struct bx_tar *t, struct archive_entry *entry,
                         boxlite_error **err)
{
    const char *name = archive_entry_pathname(entry), *hard = archive_entry_hardlink(entry);
    const char *soft =
        archive_entry_filetype(entry) == AE_IFLNK ? archive_entry_symlink(entry) : NULL;
    _cleanup_free_ char *path = NULL, *link = NULL;
    int r;

    if (!name || strlen(name) > PATH_BYTES_MAX) {
        return bx_fail(err, BOXLITE_E_INTEGRITY,
                       "an entry without a name, or with one that is too long");
    }
    r = bx_tar_clean_name(name, name, &path, err);
    if (r < 0) {
        return r;
    }
    if (hard || soft) {
        r = resolve_link(path, hard ? hard : soft, !hard, &link, err);
        return r < 0 ? r : add_file(l, steal_ptr(&path), steal_ptr(&link), NULL, err);
    }
    return archive_entry_filetype(entry) == AE_IFREG ? extract_file(l, t, &path, err) : 0;
}

static int extract(struct bx_layout *l, struct bx_stream *in, boxlite_error **err)
{
    _cleanup_tar_ struct bx_tar tar = {0};
    struct archive_entry *entry;
    int r = bx_tar_open(&tar, in, err);

    while (r == 0 && (r = bx_tar_next(&tar, &entry, err)) > 0) {
        r = extract_entry(l, &tar, entry, err);
    }
    return r;
}

static int open_tar(struct bx_layout *l, int fd, uint64_t size, boxlite_error **err)
{
    _cleanup_source_ struct bx_source source = {.fd = -1};
    _cleanup_unpack_ struct bx_unpack unpack = {.first_len = -1};
    int r = bx_home_need_space(l->im->home, 2 * size, "loading it", err);

    if (r == 0) {
        r = bx_home_tmp_dir(l->im->home, "load", &l->tmp_parent, &l->dirfd, l->tmp_name,
                            sizeof(l->tmp_name), err);
    }
    if (r == 0) {
        r = bx_source_init(&source, fd, false, -1, err);
    }
    if (r < 0) {
        return r;
    }
    l->tar = true;
    source.progress = l->im->progress;
    source.progress_data = l->im->progress_data;
    source.progress_what = "loading";
    source.total = size;
    r = bx_unpack_init(&unpack, &source.stream, bx_stream_max_bytes(l->im), BX_HASH_NEVER, err);
    if (r == 0) {
        r = extract(l, &unpack.stream, err);
    }
    return r < 0 ? r : bx_stream_drain(&source.stream, err);
}

int bx_layout_open(const struct bx_images *im, const char *path, struct bx_layout **ret,
                   boxlite_error **err)
{
    _cleanup_layout_ struct bx_layout *l = calloc(1, sizeof(*l));
    _cleanup_close_ int fd = -1;
    struct stat st;
    int r = 0;

    if (!l) {
        return bx_fail_oom(err);
    }
    l->im = im;
    l->dirfd = -1;
    l->tmp_parent = -1;
    fd = bx_streq(path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                             : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening it");
    }
    if (S_ISDIR(st.st_mode)) {
        l->dirfd = steal_fd(&fd);
    } else {
        r = open_tar(l, fd, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, err);
    }
    if (r == 0) {
        *ret = steal_ptr(&l);
    }
    return r;
}

/* ---- files by path */

/* The last entry of that path counts, as it would on disk. */
static struct file *find_file(struct bx_layout *l, const char *path)
{
    for (int hop = 0; hop < LINKS_MAX; hop++) {
        struct file *found = NULL;
        for (size_t i = 0; i < l->n; i++) {
            if (bx_streq(l->files[i].path, path)) {
                found = &l->files[i];
            }
        }
        if (!found || !found->link) {
            return found;
        }
        path = found->link;
    }
    return NULL;
}

static int open_beneath(int dirfd, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

static int open_file(struct bx_layout *l, const char *path, boxlite_error **err)
{
    struct stat st;
    _cleanup_close_ int fd = -1;

    if (l->tar) {
        struct file *f = find_file(l, path);
        fd = f ? openat(l->dirfd, f->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (!f) {
            errno = ENOENT;
        }
    } else {
        fd = open_beneath(l->dirfd, path);
        if (fd < 0) {
            errno = -fd;
        }
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return errno == ENOENT ? bx_fail(err, BOXLITE_E_INTEGRITY, "%s is missing", path)
                               : bx_fail_errno(err, BOXLITE_E_IO, errno, "opening %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s is no file", path);
    }
    return steal_fd(&fd);
}

bool bx_layout_has(struct bx_layout *l, const char *path)
{
    _cleanup_close_ int fd = open_file(l, path, NULL);

    return fd >= 0;
}

int bx_layout_read(struct bx_layout *l, const char *path, struct bx_buf *b, boxlite_error **err)
{
    _cleanup_close_ int fd = open_file(l, path, err);
    int r;

    if (fd < 0) {
        return fd;
    }
    r = bx_read_fd(fd, b);
    if (r == -EFBIG || r == -ENOBUFS) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s is larger than %zu bytes", path, b->max);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "reading %s", path) : 0;
}

static int check_digest(const char *path, const char *expected, const char *found,
                        boxlite_error **err)
{
    if (!expected || bx_streq(expected, found)) {
        return 0;
    }
    return bx_fail(err, BOXLITE_E_INTEGRITY, "%s is damaged: its digest is %s", path, found);
}

static int store_from_folder(struct bx_layout *l, const char *path, const char *expected,
                             char *digest, uint64_t *ret_size, boxlite_error **err)
{
    _cleanup_blob_tmp_ struct bx_blob_tmp t = BX_BLOB_TMP_INIT;
    _cleanup_source_ struct bx_source source = {.fd = -1};
    _cleanup_close_ int fd = open_file(l, path, err);
    int r = fd < 0 ? fd : bx_blob_tmp_new(l->im, "blob", &t, err);

    if (r == 0) {
        r = bx_source_init(&source, fd, true, t.fd, err);
    }
    if (r == 0) {
        r = bx_stream_drain(&source.stream, err);
    }
    if (r == 0) {
        r = bx_source_digest(&source, digest, err);
    }
    if (r < 0) {
        return r;
    }
    *ret_size = source.bytes;
    r = check_digest(path, expected, digest, err);
    return r < 0 ? r : bx_blob_commit(l->im, &t, digest, err);
}

static int store_from_tar(struct bx_layout *l, const char *path, const char *expected, char *digest,
                          uint64_t *ret_size, boxlite_error **err)
{
    struct file *f = find_file(l, path);
    int r;

    if (!f) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s is missing", path);
    }
    r = check_digest(path, expected, f->digest, err);
    if (r < 0) {
        return r;
    }
    memcpy(digest, f->digest, sizeof(f->digest));
    *ret_size = f->size;
    /* Another path may have led to the same file before. */
    return bx_blob_exists(l->im, digest) ? 0 : bx_blob_adopt(l->im, l->dirfd, f->name, digest, err);
}

int bx_layout_store(struct bx_layout *l, const char *path, const char *expected, char *digest,
                    uint64_t *ret_size, boxlite_error **err)
{
    char found[BX_DIGEST_LEN + 1];
    int fd = -1, r;

    if (expected && bx_blob_open(l->im, expected, &fd, ret_size, NULL) == 0) {
        bx_close(&fd);
        (void)snprintf(found, sizeof(found), "%s", expected);
        r = 0;
    } else {
        r = l->tar ? store_from_tar(l, path, expected, found, ret_size, err)
                   : store_from_folder(l, path, expected, found, ret_size, err);
    }
    if (r == 0 && digest) {
        memcpy(digest, found, sizeof(found));
    }
    return r;
}
