/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.c: one more layer on an image.
 *
 * The layer's tar comes from a guest and is hostile; it is packed (gzip, without a date) and digested as it comes,
 * packed and unpacked bytes each in a thread of its own (sink.c), and only then read, by the same reader as any other layer
 * when the new image's root is built. The documents are the base's with what is new added; a base without a history, or
 * with one that does not fit its layers, gets none.
 */
#include "oci/commit.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "oci/blobs.h"
#include "oci/manifest.h"
#include "oci/record.h"
#include "oci/reference.h"
#include "oci/root.h"
#include "oci/sink.h"
#include "oci/stream.h"

/* Of libarchive: fast, and about a tenth larger than the default. */
#define GZIP_OPTIONS "gzip:compression-level=3,gzip:!timestamp"
#define CREATED_BY "boxlite commit"

struct bx_commit {
    const struct bx_images *im;
    struct bx_blob_tmp blob;
    struct archive *gzip;
    struct bx_sink *plain, *packed;
    boxlite_error *error; /* of `packed`, on its way through libarchive */
    uint64_t bytes, size; /* unpacked and packed */
    char diff_id[BX_DIGEST_LEN + 1], digest[BX_DIGEST_LEN + 1];
};

/* ---- the layer */

static la_ssize_t archive_writes(struct archive *a, void *data, const void *bytes, size_t len)
{
    struct bx_commit *c = data;

    if (bx_sink_put(c->packed, bytes, len, &c->error) < 0) {
        archive_set_error(a, EIO, "writing");
        return -1;
    }
    c->size += len;
    return (la_ssize_t)len;
}

static int open_gzip(struct bx_commit *c, boxlite_error **err)
{
    struct archive_entry *entry = archive_entry_new();
    int r = ARCHIVE_FATAL;

    c->gzip = archive_write_new();
    if (entry && c->gzip && archive_write_add_filter_gzip(c->gzip) == ARCHIVE_OK &&
        archive_write_set_format_raw(c->gzip) == ARCHIVE_OK &&
        archive_write_set_options(c->gzip, GZIP_OPTIONS) == ARCHIVE_OK &&
        archive_write_set_bytes_in_last_block(c->gzip, 1) == ARCHIVE_OK &&
        archive_write_open(c->gzip, c, NULL, archive_writes, NULL) == ARCHIVE_OK) {
        archive_entry_set_filetype(entry, AE_IFREG);
        r = archive_write_header(c->gzip, entry);
    }
    archive_entry_free(entry);
    return r == ARCHIVE_OK ? 0 : bx_fail_oom(err);
}

int bx_commit_new(const struct bx_images *im, struct bx_commit **ret, boxlite_error **err)
{
    _cleanup_commit_ struct bx_commit *c = calloc(1, sizeof(*c));
    int r;

    if (!c) {
        return bx_fail_oom(err);
    }
    c->im = im;
    c->blob = (struct bx_blob_tmp)BX_BLOB_TMP_INIT;
    r = bx_blob_tmp_new(im, "blob", &c->blob, err);
    if (r == 0) {
        r = bx_sink_new(-1, &c->plain, err);
    }
    if (r == 0) {
        r = bx_sink_new(c->blob.fd, &c->packed, err);
    }
    if (r == 0) {
        r = open_gzip(c, err);
    }
    if (r == 0) {
        *ret = steal_ptr(&c);
    }
    return r;
}

void bx_commit_free(struct bx_commit *c)
{
    if (c) {
        (void)archive_write_free(c->gzip); /* may still write: before its sink */
        bx_sink_free(c->packed);
        bx_sink_free(c->plain);
        bx_blob_tmp_done(&c->blob);
        boxlite_error_free(c->error);
        free(c);
    }
}

int bx_commit_put(struct bx_commit *c, const void *data, size_t len, boxlite_error **err)
{
    int r;

    if (len > bx_stream_max_bytes(c->im) - c->bytes) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY, "the layer is larger than an image may be");
        bx_hint(err, "see images.unpacked in boxlite-home(7)");
        return r;
    }
    c->bytes += len;
    r = bx_sink_put(c->plain, data, len, err);
    if (r == 0 && archive_write_data(c->gzip, data, len) != (la_ssize_t)len) {
        r = bx_archive_fail(c->gzip, &c->error, "packing the layer", err);
    }
    return r;
}

static int end_layer(struct bx_commit *c, boxlite_error **err)
{
    int r;

    if (archive_write_close(c->gzip) != ARCHIVE_OK) {
        return bx_archive_fail(c->gzip, &c->error, "packing the layer", err);
    }
    r = bx_sink_finish(c->plain, c->diff_id, err);
    if (r == 0) {
        r = bx_sink_finish(c->packed, c->digest, err);
    }
    if (r == 0 && fdatasync(c->blob.fd) < 0) {
        r = bx_fail_errno(err, BOXLITE_E_IO, errno, "storing the layer");
    }
    return r < 0 ? r : bx_blob_commit(c->im, &c->blob, c->digest, err);
}

/* ---- documents */

static int merge_env(json_t *config, const json_t *more, boxlite_error **err)
{
    _cleanup_strv_ struct bx_strv env = {0};
    int r = bx_json_strv(config, "Env", true, &env, err);

    for (size_t i = 0; r == 0 && i < json_array_size(more); i++) {
        const char *text = json_string_value(json_array_get(more, i));
        const char *equals = text ? strchr(text, '=') : NULL;
        _cleanup_free_ char *name = equals ? strndup(text, (size_t)(equals - text)) : NULL;
        if (!name || bx_strv_setenv(&env, name, equals + 1) < 0) {
            r = bx_fail_oom(err);
        }
    }
    if (r == 0 && bx_json_set(config, "Env", bx_json_from_strv(&env)) < 0) {
        r = bx_fail_oom(err);
    }
    return r;
}

/* Settings replace the base's, but for environment and labels, which join them. */
static int merge_config(json_t *config, const json_t *more, boxlite_error **err)
{
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)more, key, value)
    {
        json_t *old = json_object_get(config, key);
        if (r < 0) {
            break;
        }
        if (strcmp(key, "Env") == 0) {
            r = merge_env(config, value, err);
        } else if (strcmp(key, "Labels") == 0 && json_is_object(old)) {
            r = json_object_update(old, value) < 0 ? bx_fail_oom(err) : 0;
        } else {
            r = json_object_set(config, key, value) < 0 ? bx_fail_oom(err) : 0;
        }
    }
    return r;
}

static bool has_fitting_history(const json_t *doc)
{
    const json_t *steps = json_object_get(doc, "history");
    size_t layers = 0;

    for (size_t i = 0; i < json_array_size(steps); i++) {
        layers += !json_is_true(json_object_get(json_array_get(steps, i), "empty_layer"));
    }
    return layers > 0 &&
           layers == json_array_size(json_object_get(json_object_get(doc, "rootfs"), "diff_ids"));
}

/* Adds to an array in a document. */
static int append(json_t *array, json_t *value, boxlite_error **err)
{
    return json_array_append_new(array, value) < 0 ? bx_fail_oom(err) : 0;
}

static int make_config(const struct bx_commit *c, const struct bx_commit_spec *spec,
                       const struct bx_image_row *base, char **ret, boxlite_error **err)
{
    _cleanup_json_ json_t *doc = NULL;
    json_t *config = NULL;
    int r = bx_json_parse(base->config, strlen(base->config), "config of the image", &doc, err);

    if (r < 0) {
        return r;
    }
    config = json_object_get(doc, "config");
    if (!json_is_object(config) && (bx_json_set(doc, "config", json_object()) < 0 ||
                                    !(config = json_object_get(doc, "config")))) {
        return bx_fail_oom(err);
    }
    r = merge_config(config, spec->config, err);
    if (r == 0 && has_fitting_history(doc)) {
        r = append(json_object_get(doc, "history"),
                   json_pack("{s:s, s:s*}", "created_by", CREATED_BY, "comment", spec->comment),
                   err);
    }
    if (r == 0) {
        r = append(json_object_get(json_object_get(doc, "rootfs"), "diff_ids"),
                   json_string(c->diff_id), err);
    }
    if (r == 0 && !(*ret = bx_json_text(doc))) {
        r = bx_fail_oom(err);
    }
    return r;
}

static int make_manifest(const struct bx_commit *c, const struct bx_image_row *base,
                         const char *config, const char *config_digest, char **ret,
                         boxlite_error **err)
{
    static const char oci[] = "application/vnd.oci.image.layer.v1.tar+gzip",
                      docker[] = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    _cleanup_json_ json_t *doc = NULL;
    int r = bx_json_parse(base->manifest, strlen(base->manifest), "manifest", &doc, err);
    const char *type = json_string_value(json_object_get(doc, "mediaType"));
    json_t *d = json_object_get(doc, "config");
    bool of_docker = type && strstr(type, "docker");

    if (r < 0) {
        return r;
    }
    /* What is said of the base is not true of this one. */
    (void)json_object_del(doc, "annotations");
    (void)json_object_del(doc, "subject");
    if (bx_json_set(d, "digest", json_string(config_digest)) < 0 ||
        bx_json_set(d, "size", json_integer((json_int_t)strlen(config))) < 0) {
        return bx_fail_oom(err);
    }
    r = append(json_object_get(doc, "layers"),
               json_pack("{s:s, s:s, s:I}", "mediaType", of_docker ? docker : oci, "digest",
                         c->digest, "size", (json_int_t)c->size),
               err);
    if (r == 0 && !(*ret = bx_json_text(doc))) {
        r = bx_fail_oom(err);
    }
    return r;
}

/* ---- the image */

/* With the row the lease has done its service; while the lock is held, nothing is cleared between. */
static int record(struct bx_commit *c, const struct bx_record *rec, int *lease, char **ret_digest,
                  boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    int r = bx_blobs_lock(c->im, &lock, err);

    if (r < 0) {
        return r;
    }
    bx_close(lease);
    return bx_record_image(c->im, rec, ret_digest, err);
}

static int make_image(struct bx_commit *c, const struct bx_commit_spec *spec,
                      const struct bx_image_row *base, const char *name, int *lease,
                      char **ret_digest, boxlite_error **err)
{
    char config_digest[BX_DIGEST_LEN + 1], digest[BX_DIGEST_LEN + 1];
    _cleanup_free_ char *config = NULL, *manifest = NULL;
    struct bx_record rec = {.digest = digest, .name = name};
    int r = end_layer(c, err);

    if (r == 0) {
        r = make_config(c, spec, base, &config, err);
    }
    if (r == 0) {
        r = bx_blob_write(c->im, config, strlen(config), config_digest, err);
    }
    if (r == 0) {
        r = make_manifest(c, base, config, config_digest, &manifest, err);
    }
    if (r == 0) {
        r = bx_blob_write(c->im, manifest, strlen(manifest), digest, err);
    }
    if (r == 0) {
        r = bx_root_build(c->im, digest, &rec.root_size, err);
    }
    rec.manifest = manifest;
    rec.config = config;
    return r < 0 ? r : record(c, &rec, lease, ret_digest, err);
}

/* What a failure left, unless a transfer holds blobs without rows. */
static void clear(const struct bx_images *im)
{
    _cleanup_close_ int lock = -1;

    if (bx_blobs_lock(im, &lock, NULL) == 0) {
        (void)bx_blobs_clear(im, NULL);
    }
}

int bx_commit_finish(struct bx_commit *c, const struct bx_commit_spec *spec, char **ret_digest,
                     boxlite_error **err)
{
    struct bx_image_row base = {0};
    _cleanup_free_ char *name = NULL;
    _cleanup_close_ int lease = -1;
    int r = bx_reference_tag(spec->ref, &name, err);

    if (r == 0) {
        r = bx_blobs_lease(c->im, &lease, err);
    }
    if (r < 0) {
        return r;
    }
    r = bx_image_find(c->im, spec->base, &base, err);
    if (r < 0) {
        bx_wrap(err, "the image that the box was made from");
        bx_hint(err, "bring it in again: %s", spec->base);
        return r;
    }
    r = make_image(c, spec, &base, name, &lease, ret_digest, err);
    bx_image_row_done(&base);
    bx_close(&lease);
    if (r < 0) {
        clear(c->im);
    }
    return r;
}
