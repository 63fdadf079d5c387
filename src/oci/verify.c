/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c: whether what lies on the disk is what an image's digest promises.
 *
 * Every blob is digested. The root image is a pure function of the blobs, so it is built again and compared byte by
 * byte: no digest of it is kept that could be wrong itself. Repair removes what is damaged, so that a pull or load
 * brings it in again, and puts a newly built root image in the place of one that differs.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "oci/blobs.h"
#include "oci/manifest.h"
#include "oci/root.h"
#include "oci/stream.h"

struct verify {
    const struct bx_images *im;
    bool repair;
    bool incomplete; /* a blob is missing, or was and is removed now */
};

/* A damaged blob: told, and removed if asked for. */
static int fail_blob(struct verify *v, const char *digest, const char *why, boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    int r = 0;

    v->incomplete = true;
    if (v->repair) {
        r = bx_blobs_lock(v->im, &lock, err);
        if (r == 0) {
            r = bx_blob_remove(v->im, digest, err);
        }
    }
    return r < 0 ? r : bx_fail(err, BOXLITE_E_INTEGRITY, "blob %s is %s", digest, why);
}

static int digest_blob(struct verify *v, int fd, uint64_t size, char *ret, boxlite_error **err)
{
    _cleanup_source_ struct bx_source source = {.fd = -1};
    int r = bx_source_init(&source, fd, true, -1, err);

    if (r < 0) {
        return r;
    }
    source.progress = v->im->progress;
    source.progress_data = v->im->progress_data;
    source.progress_what = "verifying";
    source.total = size;
    r = bx_stream_drain(&source.stream, err);
    return r < 0 ? r : bx_source_digest(&source, ret, err);
}

static int verify_blob(struct verify *v, const char *digest, uint64_t want, boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    _cleanup_error_ boxlite_error *why = NULL;
    char found[BX_DIGEST_LEN + 1];
    uint64_t size = 0;
    int r = bx_blob_open(v->im, digest, &fd, &size, &why);

    if (r == BOXLITE_E_NOT_FOUND) {
        v->incomplete = true;
        return bx_fail(err, BOXLITE_E_INTEGRITY, "blob %s is missing", digest);
    }
    if (r < 0) {
        return bx_fail_again(err, why);
    }
    if (size != want) {
        return fail_blob(v, digest, "of the wrong size", err);
    }
    r = digest_blob(v, fd, size, found, err);
    if (r < 0) {
        return r;
    }
    return bx_streq(found, digest) ? 0 : fail_blob(v, digest, "damaged", err);
}

/* All blobs are looked at, so that one repair finds all that is damaged; the first failure is told. */
static int verify_blobs(struct verify *v, const struct bx_image_row *row,
                        const struct bx_manifest *m, boxlite_error **err)
{
    int r = verify_blob(v, row->digest, strlen(row->manifest), err);

    for (size_t i = 0; i <= m->n; i++) {
        const struct bx_descriptor *d = i < m->n ? &m->items[i] : &m->config;
        int next = verify_blob(v, d->digest, d->size, r < 0 ? NULL : err);
        r = r < 0 ? r : next;
    }
    return r;
}

/* What the database says. */
static int read_manifest(const struct bx_image_row *row, struct bx_manifest *ret,
                         boxlite_error **err)
{
    char found[BX_DIGEST_LEN + 1];
    int r;

    if (bx_sha256_mem(row->manifest, strlen(row->manifest), found) < 0) {
        return bx_fail_oom(err);
    }
    if (!bx_streq(found, row->digest)) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY, "the database has a manifest that is damaged");
        bx_hint(err, "remove the image and bring it in again");
        return r;
    }
    return bx_manifest_parse(row->manifest, strlen(row->manifest), "manifest", ret, err);
}

static int verify_root(struct verify *v, const struct bx_image_row *row, boxlite_error **err)
{
    bool same = false;
    int r = bx_root_compare(v->im, row->digest, v->repair, &same, err);

    if (r < 0 || same || v->repair) {
        return r;
    }
    r = bx_fail(err, BOXLITE_E_INTEGRITY, "its root image is not what its layers make");
    bx_hint(err, "build it anew with: boxlite image verify --repair");
    return r;
}

int bx_image_verify(const struct bx_images *im, const char *ref, bool repair, boxlite_error **err)
{
    struct verify v = {.im = im, .repair = repair};
    _cleanup_manifest_ struct bx_manifest m = {0};
    struct bx_image_row row = {0};
    int r = bx_image_find(im, ref, &row, err);

    if (r < 0) {
        return r;
    }
    r = read_manifest(&row, &m, err);
    if (r == 0) {
        r = verify_blobs(&v, &row, &m, err);
    }
    if (v.incomplete) {
        bx_hint(err, "%sbring the image in again with: boxlite pull or boxlite image load",
                repair ? "what was damaged is removed; " : "use --repair, then ");
    }
    if (r == 0) {
        r = verify_root(&v, &row, err);
    }
    if (r < 0) {
        bx_wrap(err, "image %s", row.names.n ? row.names.v[0] : row.digest);
    }
    bx_image_row_done(&row);
    return r;
}
