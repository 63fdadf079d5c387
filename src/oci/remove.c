/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove.c: finding images by what the user wrote, and removing them.
 *
 * Removing a name removes the image with its last name; removing by digest removes all names. Rows go first, then
 * the files: whatever a crash leaves behind is unreferenced files, which the next removal clears. Blobs that
 * another image uses stay. Boxes that run keep their root image open, so it may go even with force.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "oci/blobs.h"
#include "oci/reference.h"
#include "oci/usage.h"

#define USERS_SHOWN 5u

/* ---- finding */

static int fail_missing(const char *ref, boxlite_error **err)
{
    _cleanup_free_ char *shown = bx_escape(ref, strlen(ref), 300);
    int r = bx_fail(err, BOXLITE_E_NOT_FOUND, "no image %s", shown ? shown : "?");

    bx_hint(
        err,
        "see `boxlite images`; bring one in with `boxlite image import` or `boxlite image load`");
    return r;
}

static bool is_digest_or_prefix(const char *ref)
{
    size_t len = strlen(ref);

    return bx_digest_valid(ref) || (len >= 12 && strspn(ref, "0123456789abcdef") == len);
}

/* By name as it is stored. */
static int find_by_name(const struct bx_images *im, const char *ref, struct bx_image_row *ret,
                        char **ret_name, boxlite_error **err)
{
    struct bx_reference r = {0};
    _cleanup_free_ char *full = NULL;
    _cleanup_error_ boxlite_error *why = NULL;
    int rc = bx_reference_parse(ref, &r, err);

    if (rc < 0) {
        return rc;
    }
    if (r.digest) { /* the digest decides; it may be an index', which only the name of what was pulled by it has */
        free(steal_ptr(&r.tag));
    }
    full = bx_reference_full(&r);
    rc = full ? bx_store_image_find(im->store, full, ret, &why) : bx_fail_oom(&why);
    if (rc == BOXLITE_E_NOT_FOUND && r.digest) {
        free(steal_ptr(&full));
        boxlite_error_free(steal_ptr(&why));
        rc = bx_store_image_find(im->store, r.digest, ret, &why);
    }
    if (rc < 0) {
        (void)bx_fail_again(err, why);
    }
    bx_reference_done(&r);
    if (rc == 0 && ret_name) {
        *ret_name = steal_ptr(&full);
    }
    return rc;
}

static int find(const struct bx_images *im, const char *ref, struct bx_image_row *ret,
                char **ret_name, boxlite_error **err)
{
    _cleanup_error_ boxlite_error *why = NULL;
    int r = find_by_name(im, ref, ret, ret_name, &why);

    if ((r == BOXLITE_E_NOT_FOUND || r == BOXLITE_E_INVALID) && is_digest_or_prefix(ref)) {
        boxlite_error_free(steal_ptr(&why));
        r = bx_store_image_find(im->store, ref, ret, &why);
    }
    if (r == BOXLITE_E_NOT_FOUND) {
        return fail_missing(ref, err);
    }
    if (r < 0 && err) {
        *err = steal_ptr(&why);
    }
    return r;
}

int bx_image_find(const struct bx_images *im, const char *ref, struct bx_image_row *ret,
                  boxlite_error **err)
{
    return find(im, ref, ret, NULL, err);
}

/* ---- removing */

static bool is_used(const struct bx_usage *u, const char *hex)
{
    char digest[BX_DIGEST_LEN + 1];

    (void)snprintf(digest, sizeof(digest), "sha256:%.64s", hex);
    return bx_usage_find(u, digest) != NULL;
}

/* Removes one file unless it is gone, and adds what it took. */
static int clear_file(int dirfd, const char *name, uint64_t *freed)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || unlinkat(dirfd, name, 0) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    *freed += (uint64_t)st.st_size;
    return 0;
}

/* Removes every file of a folder that is named by a digest (and `suffix`) nobody uses. */
static int clear_folder(const struct bx_images *im, const char *folder, const char *suffix,
                        const struct bx_usage *u, uint64_t *freed, boxlite_error **err)
{
    _cleanup_closedir_ DIR *dir = NULL;
    int fd = openat(im->home->fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        return errno == ENOENT ? 0 : bx_fail_errno(err, BOXLITE_E_IO, errno, "opening %s", folder);
    }
    dir = fdopendir(fd);
    if (!dir) {
        int saved = errno;
        bx_close(&fd);
        return bx_fail_errno(err, BOXLITE_E_IO, saved, "reading %s", folder);
    }
    for (struct dirent *e; (e = readdir(dir));) {
        bool ours = strspn(e->d_name, "0123456789abcdef") == 64 && bx_streq(e->d_name + 64, suffix);
        int r = ours && !is_used(u, e->d_name) ? clear_file(dirfd(dir), e->d_name, freed) : 0;
        if (r < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, r, "removing %s/%s", folder, e->d_name);
        }
    }
    return 0;
}

int bx_blobs_clear_counted(const struct bx_images *im, uint64_t *ret_freed, boxlite_error **err)
{
    _cleanup_usage_ struct bx_usage u = {0};
    _cleanup_close_ int unleased = -1;
    uint64_t freed = 0;
    int r = bx_blobs_unleased(im, &unleased, err);

    *ret_freed = 0;
    if (r < 0 || unleased < 0) {
        return r;
    }
    r = bx_usage_read(im, &u, err);
    if (r == 0) {
        r = clear_folder(im, "images/blobs/sha256", "", &u, &freed, err);
    }
    if (r == 0) {
        r = clear_folder(im, "rootfs", ".sqfs", &u, &freed, err);
    }
    *ret_freed = freed;
    return r;
}

int bx_blobs_clear(const struct bx_images *im, boxlite_error **err)
{
    uint64_t freed;

    return bx_blobs_clear_counted(im, &freed, err);
}

/* ---- boxes of an image */

struct users {
    const char *digest;
    struct bx_buf names; /* the first few, ", " between them */
    unsigned n;
};

static int add_user(void *data, const struct bx_box_row *row)
{
    struct users *u = data;

    if (bx_streq(row->digest, u->digest) && u->n++ < USERS_SHOWN) {
        (void)bx_buf_appendf(&u->names, "%s%s", u->n > 1 ? ", " : "", row->name);
    }
    return 0;
}

static int check_unused(const struct bx_images *im, const struct bx_image_row *row, const char *ref,
                        boxlite_error **err)
{
    struct users u = {.digest = row->digest, .names = BX_BUF_INIT(1024)};
    int r = bx_store_box_each(im->store, add_user, &u, err);

    if (r == 0 && u.n > 0) {
        r = bx_fail(err, BOXLITE_E_BUSY, "image %s is used by %s %s%s", ref,
                    u.n == 1 ? "box" : "boxes", bx_buf_str(&u.names),
                    u.n > USERS_SHOWN ? " and others" : "");
        bx_hint(err, "remove the box%s first (boxlite rm), or use --force", u.n == 1 ? "" : "es");
    }
    bx_buf_done(&u.names);
    return r;
}

static int remove_row(const struct bx_images *im, const char *ref, bool force, boxlite_error **err)
{
    struct bx_image_row row = {0};
    _cleanup_free_ char *name = NULL;
    int r = find(im, ref, &row, &name, err);

    if (r < 0) {
        return r;
    }
    if (name && row.names.n > 1) {
        r = bx_store_image_unname(im->store, name, err);
    } else {
        r = force ? 0 : check_unused(im, &row, ref, err);
        if (r == 0) {
            r = bx_store_image_delete(im->store, row.digest, err);
        }
    }
    bx_image_row_done(&row);
    return r;
}

int bx_image_remove(const struct bx_images *im, const char *ref, bool force, boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    int r = bx_blobs_lock(im, &lock, err);

    if (r == 0) {
        r = remove_row(im, ref, force, err);
    }
    if (r == 0) {
        r = bx_blobs_write_index(im, err);
    }
    return r < 0 ? r : bx_blobs_clear(im, err);
}
