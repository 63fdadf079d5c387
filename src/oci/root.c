/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root.c: root images, rootfs/HEX.sqfs where HEX is of the manifest's digest.
 *
 * A root is a pure function of its manifest, so it can be thrown away and built again. What guards a build is a
 * lock on the manifest's blob, which is there whenever a build makes sense. Each layer's unpacked bytes are
 * checked against the config's diff_ids, and config and manifest against their digests, so a damaged blob is found.
 */
#include "oci/root.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "disk/rootfs.h"
#include "oci/layer.h"
#include "oci/stream.h"

#define MAX_BYTES_DEFAULT (64ull << 30)
#define HEADERS_MAX (1ull << 30)
#define SPACE_EXTRA (64ull << 20)
#define COMPARE_CHUNK (256u << 10)

uint64_t bx_image_max_bytes(const struct bx_images *im)
{
    return im->max_bytes ? im->max_bytes : MAX_BYTES_DEFAULT;
}

uint64_t bx_stream_max_bytes(const struct bx_images *im)
{
    return bx_image_max_bytes(im) + HEADERS_MAX;
}

static void root_name(const char *digest, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%s.sqfs", digest + strlen("sha256:"));
}

int bx_root_commit(const struct bx_images *im, struct bx_blob_tmp *t, const char *digest,
                   boxlite_error **err)
{
    _cleanup_close_ int dirfd = -1;
    char name[BX_DIGEST_LEN + 8];
    int r = bx_home_dir(im->home, "rootfs", &dirfd, err);

    if (r < 0) {
        return r;
    }
    root_name(digest, name, sizeof(name));
    if (fdatasync(t->fd) < 0 || renameat(t->dirfd, t->name, dirfd, name) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "storing root image %s", name);
    }
    bx_close(&t->dirfd);
    return 0;
}

/* ---- building */

struct build {
    const struct bx_images *im;
    const struct bx_root_wait *wait; /* or NULL: all layers are there */
    struct bx_manifest manifest;
    struct bx_config config;
    uint64_t total, done; /* bytes of layer blobs */
};

static int read_documents(struct build *b, const char *digest, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf manifest = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX);
    _cleanup_buf_ struct bx_buf config = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX);
    int r = bx_blob_read(b->im, digest, &manifest, err);

    if (r == 0) {
        r = bx_manifest_parse(bx_buf_data(&manifest), manifest.len, "manifest", &b->manifest, err);
    }
    if (r == 0) {
        r = b->manifest.kind == BX_DOC_MANIFEST
                ? bx_blob_read(b->im, b->manifest.config.digest, &config, err)
                : bx_fail(err, BOXLITE_E_INTEGRITY, "%s is no manifest", digest);
    }
    if (r == 0) {
        r = bx_config_parse(bx_buf_data(&config), config.len, "config", &b->config, err);
    }
    if (r == 0 && b->config.diff_ids.n != b->manifest.n) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY, "%zu layers but %zu diff_ids", b->manifest.n,
                    b->config.diff_ids.n);
    }
    for (size_t i = 0; r == 0 && i < b->manifest.n; i++) {
        b->total += b->manifest.items[i].size;
    }
    return r;
}

static void layer_progress(void *data, const char *what, uint64_t done, uint64_t total)
{
    struct build *b = data;

    (void)total;
    if (b->im->progress && b->done + done < b->total) {
        b->im->progress(b->im->progress_data, what, b->done + done, b->total);
    }
}

static int apply_layer(struct build *b, struct bx_rootfs *root, size_t i, boxlite_error **err)
{
    const struct bx_descriptor *d = &b->manifest.items[i];
    _cleanup_source_ struct bx_source source = {.fd = -1};
    _cleanup_unpack_ struct bx_unpack unpack = {.first_len = -1};
    _cleanup_close_ int fd = -1;
    char diff_id[BX_DIGEST_LEN + 1];
    int r = b->wait ? b->wait->ready(b->wait->data, i, err) : 0;

    if (r == 0) {
        r = bx_blob_open(b->im, d->digest, &fd, NULL, err);
    }
    if (r == 0) {
        r = bx_source_init(&source, fd, false, -1, err);
    }
    if (r < 0) {
        return r;
    }
    source.progress = layer_progress;
    source.progress_data = b;
    source.progress_what = "building root image";
    if (b->wait) {
        source.check = b->wait->check;
        source.check_data = b->wait->data;
    }
    r = bx_unpack_init(&unpack, &source.stream, bx_stream_max_bytes(b->im), BX_HASH_ALWAYS, err);
    if (r == 0) {
        r = bx_layer_apply(&unpack.stream, root, (uint32_t)i, err);
    }
    if (r == 0) {
        r = bx_stream_drain(&source.stream, err);
    }
    if (r < 0) {
        return r;
    }
    b->done += source.bytes;
    r = bx_unpack_digest(&unpack, diff_id, err);
    if (r < 0) {
        return r;
    }
    return bx_streq(diff_id, b->config.diff_ids.v[i])
               ? 0
               : bx_fail(err, BOXLITE_E_INTEGRITY,
                         "its contents are not what the image's config says");
}

static int build_into(struct build *b, struct bx_blob_tmp *t, uint64_t *ret_size,
                      boxlite_error **err)
{
    struct bx_rootfs *root = NULL;
    int r = bx_rootfs_new(t->fd, bx_image_max_bytes(b->im), &root, err);

    for (size_t i = 0; r == 0 && i < b->manifest.n; i++) {
        r = apply_layer(b, root, i, err);
        if (r < 0) {
            bx_wrap(err, "layer %zu (%s)", i + 1, b->manifest.items[i].digest);
        }
    }
    if (r == 0) {
        r = bx_rootfs_finish(root, ret_size, err);
    }
    bx_rootfs_free(root);
    if (r == 0 && b->im->progress && b->total) {
        b->im->progress(b->im->progress_data, "building root image", b->total, b->total);
    }
    return r;
}

/* Builds it in tmp/. */
static int build_tmp(struct build *b, const char *digest, struct bx_blob_tmp *t, uint64_t *ret_size,
                     boxlite_error **err)
{
    int r = read_documents(b, digest, err);

    if (r == 0) {
        r = bx_home_need_space(b->im->home, b->total + SPACE_EXTRA, "building the root image", err);
    }
    if (r == 0) {
        r = bx_blob_tmp_new(b->im, "root", t, err);
    }
    return r < 0 ? r : build_into(b, t, ret_size, err);
}

static int build_root(struct build *b, const char *digest, uint64_t *ret_size, boxlite_error **err)
{
    _cleanup_blob_tmp_ struct bx_blob_tmp t = BX_BLOB_TMP_INIT;
    uint64_t size = 0;
    int r = build_tmp(b, digest, &t, &size, err);

    if (r == 0) {
        r = bx_root_commit(b->im, &t, digest, err);
    }
    if (r == 0) {
        *ret_size = size;
    }
    return r;
}

/* 1: it is there, 0: it is not. */
static int open_root(const struct bx_images *im, const char *digest, int *ret_fd, char **ret_path,
                     boxlite_error **err)
{
    _cleanup_close_ int dirfd = -1, fd = -1;
    _cleanup_free_ char *path = NULL;
    char name[BX_DIGEST_LEN + 8];
    int r = bx_home_dir(im->home, "rootfs", &dirfd, err);

    if (r < 0) {
        return r;
    }
    root_name(digest, name, sizeof(name));
    path = bx_home_path(im->home, "rootfs", name);
    if (!path) {
        return bx_fail_oom(err);
    }
    fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? 0 : bx_fail_errno(err, BOXLITE_E_IO, errno, "opening %s", path);
    }
    r = bx_rootfs_check(fd, path, err);
    if (r < 0) {
        return r;
    }
    *ret_fd = steal_fd(&fd);
    *ret_path = steal_ptr(&path);
    return 1;
}

static int lock_build(const struct bx_images *im, const char *digest,
                      const struct bx_root_wait *wait, int *ret, boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    int r = bx_blob_open(im, digest, &fd, NULL, err);

    while (r == 0 && flock(fd, LOCK_EX | (wait ? LOCK_NB : 0)) < 0) {
        if (errno == EWOULDBLOCK) {
            r = wait->idle(wait->data, err);
        } else if (errno != EINTR) {
            r = bx_fail_errno(err, BOXLITE_E_IO, errno, "locking blob %s", digest);
        }
    }
    if (r < 0) {
        return r;
    }
    *ret = steal_fd(&fd);
    return 0;
}

int bx_root_build(const struct bx_images *im, const char *digest, uint64_t *ret_size,
                  boxlite_error **err)
{
    return bx_root_build_from(im, digest, NULL, ret_size, err);
}

int bx_root_build_from(const struct bx_images *im, const char *digest,
                       const struct bx_root_wait *wait, uint64_t *ret_size, boxlite_error **err)
{
    struct build b = {.im = im, .wait = wait};
    _cleanup_close_ int lock = -1, fd = -1;
    _cleanup_free_ char *path = NULL;
    struct stat st;
    int r = lock_build(im, digest, wait, &lock, err);

    if (r < 0) {
        return r;
    }
    r = open_root(im, digest, &fd, &path, NULL);
    if (r > 0 && fstat(fd, &st) == 0) {
        *ret_size = (uint64_t)st.st_size;
        return 0;
    }
    /* Missing, or damaged: then it is replaced. */
    r = build_root(&b, digest, ret_size, err);
    bx_manifest_done(&b.manifest);
    bx_config_done(&b.config);
    return r;
}

/* ---- comparing */

/* Whether two files hold the same bytes. */
static int same_bytes(int a, int b, bool *ret, boxlite_error **err)
{
    _cleanup_free_ uint8_t *one = malloc(COMPARE_CHUNK), *two = malloc(COMPARE_CHUNK);
    ssize_t n, m;

    if (!one || !two) {
        return bx_fail_oom(err);
    }
    if (lseek(a, 0, SEEK_SET) < 0 || lseek(b, 0, SEEK_SET) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "reading root images");
    }
    do {
        n = bx_read_full(a, one, COMPARE_CHUNK);
        m = bx_read_full(b, two, COMPARE_CHUNK);
        if (n < 0 || m < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, (int)(n < 0 ? n : m), "reading root images");
        }
        *ret = n == m && memcmp(one, two, (size_t)n) == 0;
    } while (*ret && n > 0);
    return 0;
}

static int compare(struct build *b, const char *digest, bool repair, bool *ret, boxlite_error **err)
{
    _cleanup_blob_tmp_ struct bx_blob_tmp t = BX_BLOB_TMP_INIT;
    _cleanup_close_ int fd = -1;
    _cleanup_free_ char *path = NULL;
    uint64_t size = 0;
    int found = open_root(b->im, digest, &fd, &path, NULL), r;

    if (found == 0) {
        *ret = true;
        return 0;
    }
    r = build_tmp(b, digest, &t, &size, err);
    *ret = false; /* one that is no squashfs at all differs, too */
    if (r == 0 && found > 0) {
        r = same_bytes(fd, t.fd, ret, err);
    }
    return r == 0 && !*ret && repair ? bx_root_commit(b->im, &t, digest, err) : r;
}

int bx_root_compare(const struct bx_images *im, const char *digest, bool repair, bool *ret_same,
                    boxlite_error **err)
{
    struct build b = {.im = im};
    _cleanup_close_ int lock = -1;
    int r = lock_build(im, digest, NULL, &lock, err);

    if (r == 0) {
        r = compare(&b, digest, repair, ret_same, err);
    }
    bx_manifest_done(&b.manifest);
    bx_config_done(&b.config);
    return r;
}

/* ---- use */

int64_t bx_root_used(const struct bx_images *im, const char *digest)
{
    _cleanup_close_ int fd = -1;
    char name[BX_DIGEST_LEN + 8];
    struct stat st;

    root_name(digest, name, sizeof(name));
    return bx_home_dir(im->home, "rootfs", &fd, NULL) == 0 &&
                   fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0
               ? (int64_t)st.st_mtime
               : 0;
}

int bx_image_root(const struct bx_images *im, const struct bx_image_row *row, int *ret_fd,
                  char **ret_path, boxlite_error **err)
{
    struct bx_image_row changed = *row;
    _cleanup_close_ int fd = -1;
    _cleanup_free_ char *path = NULL;
    int r;

    if (!bx_digest_valid(row->digest)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the database has an image with a bad digest");
    }
    r = open_root(im, row->digest, &fd, &path, err);
    if (r == 0) {
        r = bx_root_build(im, row->digest, &changed.rootfs_size, err);
        if (r == 0) {
            r = bx_store_image_put(im->store, &changed, err);
        }
        if (r == 0) {
            r = open_root(im, row->digest, &fd, &path, err);
        }
        if (r == 0) {
            return bx_fail(err, BOXLITE_E_BUSY, "the root image was removed while it was built");
        }
    }
    if (r < 0) {
        bx_hint_space(err);
        bx_wrap(err, "image %s", row->names.n ? row->names.v[0] : row->digest);
        return r;
    }
    /* When it was last used, for those who prune: see prune.c. */
    (void)futimens(fd, NULL);
    *ret_fd = steal_fd(&fd);
    if (ret_path) {
        *ret_path = steal_ptr(&path);
    }
    return 0;
}
