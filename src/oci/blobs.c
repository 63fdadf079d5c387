/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blobs.c: files of the OCI image layout in images/.
 *
 * index.json is made from the database whenever that changes; it is there for other tools, BoxLite itself never
 * reads it. A crash between the two leaves an index that is a little old until the next change.
 */
#include "oci/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"

#define LAYOUT "{\"imageLayoutVersion\":\"1.0.0\"}"
#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define LOCK_NAME "lock"
#define LEASE_NAME "lease"

static const char *hex_of(const char *digest)
{
    return digest + strlen("sha256:");
}

static int open_images(const struct bx_images *im, int *ret, boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    int r = bx_home_dir(im->home, "images", &fd, err);

    if (r < 0) {
        return r;
    }
    if (faccessat(fd, "oci-layout", F_OK, 0) < 0) {
        r = bx_write_file(fd, "oci-layout", LAYOUT, strlen(LAYOUT), 0600);
        if (r < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, r, "writing images/oci-layout");
        }
    }
    *ret = steal_fd(&fd);
    return 0;
}

static int open_blobs(const struct bx_images *im, int *ret, boxlite_error **err)
{
    _cleanup_close_ int images = -1, blobs = -1;
    int fd, r = open_images(im, &images, err);

    if (r < 0) {
        return r;
    }
    blobs = bx_open_dir(images, "blobs", 0700);
    fd = blobs < 0 ? blobs : bx_open_dir(blobs, "sha256", 0700);
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, fd, "opening images/blobs/sha256");
    }
    *ret = fd;
    return 0;
}

/* Without `wait`: *ret_fd is -1 if another has it. */
static int lock_file(const struct bx_images *im, const char *name, bool exclusive, bool wait,
                     int *ret_fd, boxlite_error **err)
{
    _cleanup_close_ int images = -1, fd = -1;
    int r = open_images(im, &images, err);

    if (r < 0) {
        return r;
    }
    fd = openat(images, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : bx_lock(fd, exclusive, wait);
    if (r == -EAGAIN && !wait) {
        *ret_fd = -1;
        return 0;
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "locking images/%s", name);
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

int bx_blobs_lock(const struct bx_images *im, int *ret_fd, boxlite_error **err)
{
    return lock_file(im, LOCK_NAME, true, true, ret_fd, err);
}

int bx_blobs_lease(const struct bx_images *im, int *ret_fd, boxlite_error **err)
{
    return lock_file(im, LEASE_NAME, false, true, ret_fd, err);
}

int bx_blobs_unleased(const struct bx_images *im, int *ret_fd, boxlite_error **err)
{
    return lock_file(im, LEASE_NAME, true, false, ret_fd, err);
}

int bx_blobs_partial_dir(const struct bx_images *im, int *ret_fd, boxlite_error **err)
{
    _cleanup_close_ int images = -1;
    int r = open_images(im, &images, err);

    if (r < 0) {
        return r;
    }
    r = bx_open_dir(images, "partial", 0700);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "opening images/partial");
    }
    *ret_fd = r;
    return 0;
}

void bx_hint_space(boxlite_error **err)
{
    if (err && *err && boxlite_error_code(*err) == BOXLITE_E_NO_SPACE &&
        !boxlite_error_hint(*err)) {
        bx_hint(
            err,
            "free some space (boxlite image rm, boxlite rm) or set BOXLITE_HOME to a folder on another disk");
    }
}

/* ---- unnamed ones */

int bx_blob_tmp_new(const struct bx_images *im, const char *prefix, struct bx_blob_tmp *ret,
                    boxlite_error **err)
{
    return bx_home_tmp_file(im->home, prefix, &ret->dirfd, &ret->fd, ret->name, sizeof(ret->name),
                            err);
}

void bx_blob_tmp_done(struct bx_blob_tmp *t)
{
    if (t->dirfd >= 0) {
        (void)unlinkat(t->dirfd, t->name, 0);
    }
    bx_close(&t->fd);
    bx_close(&t->dirfd);
}

int bx_blob_adopt(const struct bx_images *im, int dirfd, const char *name, const char *digest,
                  boxlite_error **err)
{
    _cleanup_close_ int blobs = -1;
    int r = open_blobs(im, &blobs, err);

    if (r < 0) {
        return r;
    }
    if (renameat(dirfd, name, blobs, hex_of(digest)) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "storing blob %s", digest);
    }
    return 0;
}

int bx_blob_commit(const struct bx_images *im, struct bx_blob_tmp *t, const char *digest,
                   boxlite_error **err)
{
    int r = bx_blob_adopt(im, t->dirfd, t->name, digest, err);

    if (r == 0) {
        bx_close(&t->dirfd);
    }
    return r;
}

/* ---- named ones */

int bx_blob_open(const struct bx_images *im, const char *digest, int *ret_fd, uint64_t *ret_size,
                 boxlite_error **err)
{
    _cleanup_close_ int blobs = -1, fd = -1;
    struct stat st;
    int r = open_blobs(im, &blobs, err);

    if (r < 0) {
        return r;
    }
    fd = openat(blobs, hex_of(digest), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening blob %s", digest);
    }
    if (ret_size) {
        *ret_size = (uint64_t)st.st_size;
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

bool bx_blob_exists(const struct bx_images *im, const char *digest)
{
    _cleanup_close_ int fd = -1;

    return bx_blob_open(im, digest, &fd, NULL, NULL) == 0;
}

int bx_blob_read(const struct bx_images *im, const char *digest, struct bx_buf *b,
                 boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    char found[BX_DIGEST_LEN + 1];
    int r = bx_blob_open(im, digest, &fd, NULL, err);

    if (r < 0) {
        return r;
    }
    r = bx_read_fd(fd, b);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading blob %s", digest);
    }
    if (bx_sha256_mem(bx_buf_data(b), b->len, found) < 0) {
        return bx_fail_oom(err);
    }
    return bx_streq(found, digest)
               ? 0
               : bx_fail(err, BOXLITE_E_INTEGRITY, "blob %s is damaged", digest);
}

int bx_blob_write(const struct bx_images *im, const void *data, size_t len, char *digest,
                  boxlite_error **err)
{
    _cleanup_close_ int blobs = -1;
    int r = open_blobs(im, &blobs, err);

    if (r < 0) {
        return r;
    }
    if (bx_sha256_mem(data, len, digest) < 0) {
        return bx_fail_oom(err);
    }
    r = bx_write_file(blobs, hex_of(digest), data, len, 0600);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "storing blob %s", digest) : 0;
}

int bx_blob_remove(const struct bx_images *im, const char *digest, boxlite_error **err)
{
    _cleanup_close_ int blobs = -1;
    int r = open_blobs(im, &blobs, err);

    if (r < 0) {
        return r;
    }
    if (unlinkat(blobs, hex_of(digest), 0) < 0 && errno != ENOENT) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "removing blob %s", digest);
    }
    return 0;
}

/* ---- index.json */

static json_t *make_entry(const struct bx_image_row *row)
{
    _cleanup_json_ json_t *manifest = json_loads(row->manifest, 0, NULL);
    const char *type = json_string_value(json_object_get(manifest, "mediaType"));

    return json_pack("{s:s, s:s, s:I}", "mediaType", type ? type : MANIFEST_TYPE, "digest",
                     row->digest, "size", (json_int_t)strlen(row->manifest));
}

static int add_to_index(void *data, const struct bx_image_row *row)
{
    json_t *manifests = data;
    size_t n = row->names.n ? row->names.n : 1;

    for (size_t i = 0; i < n; i++) {
        json_t *d = make_entry(row);
        if (d && row->names.n) {
            (void)bx_json_set(
                d, "annotations",
                json_pack("{s:s}", "org.opencontainers.image.ref.name", row->names.v[i]));
        }
        if (json_array_append_new(manifests, d) < 0) {
            return BOXLITE_E_NO_MEMORY;
        }
    }
    return 0;
}

int bx_blobs_write_index(const struct bx_images *im, boxlite_error **err)
{
    _cleanup_json_ json_t *index =
        json_pack("{s:i, s:s, s:[]}", "schemaVersion", 2, "mediaType",
                  "application/vnd.oci.image.index.v1+json", "manifests");
    _cleanup_free_ char *text = NULL;
    _cleanup_close_ int images = -1;
    int r;

    if (!index) {
        return bx_fail_oom(err);
    }
    r = bx_store_image_each(im->store, add_to_index, json_object_get(index, "manifests"), err);
    if (r == BOXLITE_E_NO_MEMORY || (r == 0 && !(text = bx_json_text(index)))) {
        return err && *err ? r : bx_fail_oom(err);
    }
    if (r == 0) {
        r = open_images(im, &images, err);
    }
    if (r < 0) {
        return r;
    }
    r = bx_write_file(images, "index.json", text, strlen(text), 0600);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing images/index.json") : 0;
}
