/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.c: images as one archive for other tools.
 *
 * The archive is an OCI image layout. For Docker's form a manifest.json beside it says the same in the old way, with
 * paths into the layout, as `docker save` itself has written since version 25: one file that both kinds of readers
 * take. Blobs are written as they are in the store, each once, and digested on the way, so that damage does not
 * travel on. Nothing is locked meanwhile (the reader of a pipe may be slow): an image that is removed
 * while it is saved makes the saving fail.
 */
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/str.h"
#include "oci/archive.h"
#include "oci/blobs.h"
#include "oci/manifest.h"
#include "oci/reference.h"

#define LAYOUT "{\"imageLayoutVersion\":\"1.0.0\"}"
#define BLOBS "blobs/sha256/"

struct saved {
    struct bx_image_row row;
    struct bx_manifest manifest;
    char *name; /* full, as asked for; NULL if asked for by digest */
};

struct save {
    const struct bx_images *im;
    struct saved *v;
    size_t n;
    int fd;
    uint64_t done, total;
    struct bx_strv written; /* digests */
};

static void save_done(struct save *s)
{
    for (size_t i = 0; i < s->n; i++) {
        bx_image_row_done(&s->v[i].row);
        bx_manifest_done(&s->v[i].manifest);
        free(s->v[i].name);
    }
    free(s->v);
    bx_strv_done(&s->written);
}

static int find_image(struct save *s, const char *ref, boxlite_error **err)
{
    struct saved *v = &s->v[s->n];
    _cleanup_free_ char *full = NULL;
    int r = bx_image_find(s->im, ref, &v->row, err);

    if (r < 0) {
        return r;
    }
    s->n++;
    if (bx_reference_tag(ref, &full, NULL) == 0) {
        for (size_t i = 0; !v->name && i < v->row.names.n; i++) {
            v->name = bx_streq(v->row.names.v[i], full) ? steal_ptr(&full) : NULL;
        }
    }
    r = bx_manifest_parse(v->row.manifest, strlen(v->row.manifest), v->row.digest, &v->manifest,
                          err);
    s->total += v->manifest.config.size;
    for (size_t i = 0; i < v->manifest.n; i++) {
        s->total += v->manifest.items[i].size;
    }
    return r;
}

/* ---- documents */

static json_t *make_descriptor(const struct saved *v)
{
    _cleanup_json_ json_t *doc = json_loads(v->row.manifest, 0, NULL);
    const char *type = json_string_value(json_object_get(doc, "mediaType"));
    json_t *d = json_pack("{s:s, s:s, s:I}", "mediaType",
                          type ? type : "application/vnd.oci.image.manifest.v1+json", "digest",
                          v->row.digest, "size", (json_int_t)strlen(v->row.manifest));

    if (d && v->name) {
        (void)bx_json_set(d, "annotations",
                          json_pack("{s:s, s:s}", "io.containerd.image.name", v->name,
                                    "org.opencontainers.image.ref.name", v->name));
    }
    return d;
}

static json_t *make_index(const struct save *s)
{
    json_t *index = json_pack("{s:i, s:s, s:[]}", "schemaVersion", 2, "mediaType",
                              "application/vnd.oci.image.index.v1+json", "manifests");

    for (size_t i = 0; index && i < s->n; i++) {
        (void)json_array_append_new(json_object_get(index, "manifests"), make_descriptor(&s->v[i]));
    }
    return index;
}

static json_t *blob_name(const char *digest)
{
    return json_sprintf(BLOBS "%s", digest + strlen("sha256:"));
}

/* What people and Docker call it: "python:3.11". */
static json_t *short_name(const char *name)
{
    struct bx_reference ref = {0};
    _cleanup_free_ char *text = NULL;

    if (bx_reference_parse(name, &ref, NULL) < 0) {
        return NULL;
    }
    text = bx_reference_short(&ref);
    bx_reference_done(&ref);
    return text ? json_string(text) : NULL;
}

static json_t *make_docker_image(const struct saved *v)
{
    json_t *image = json_pack("{s:o, s:[], s:[]}", "Config", blob_name(v->manifest.config.digest),
                              "RepoTags", "Layers");

    if (image && v->name) {
        (void)json_array_append_new(json_object_get(image, "RepoTags"), short_name(v->name));
    }
    for (size_t i = 0; image && i < v->manifest.n; i++) {
        (void)json_array_append_new(json_object_get(image, "Layers"),
                                    blob_name(v->manifest.items[i].digest));
    }
    return image;
}

static json_t *make_docker_list(const struct save *s)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < s->n; i++) {
        (void)json_array_append_new(list, make_docker_image(&s->v[i]));
    }
    return list;
}

static int put_document(struct save *s, const char *name, json_t *(*make)(const struct save *s),
                        boxlite_error **err)
{
    _cleanup_json_ json_t *doc = make(s);
    _cleanup_free_ char *text = doc ? bx_json_text(doc) : NULL;

    return text ? bx_archive_add(s->fd, name, text, strlen(text), err) : bx_fail_oom(err);
}

/* ---- blobs */

static int put_blob(struct save *s, const char *digest, boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    char name[BX_DIGEST_LEN + 16];
    uint64_t size = 0;
    int r = bx_blob_open(s->im, digest, &fd, &size, err);

    if (r == 0) {
        (void)snprintf(name, sizeof(name), BLOBS "%s", digest + strlen("sha256:"));
        r = bx_archive_add_blob(s->fd, name, fd, size, digest, err);
    }
    if (r < 0) {
        bx_wrap(err, "blob %s", digest);
        bx_hint(err, "see what is wrong with: boxlite image verify");
        return r;
    }
    s->done += size;
    if (s->im->progress && s->done < s->total) {
        s->im->progress(s->im->progress_data, "saving", s->done, s->total);
    }
    return 0;
}

static int put_blob_once(struct save *s, const char *digest, boxlite_error **err)
{
    for (size_t i = 0; i < s->written.n; i++) {
        if (bx_streq(s->written.v[i], digest)) {
            return 0;
        }
    }
    s->written.max = 1000000;
    return bx_strv_add(&s->written, digest) < 0 ? bx_fail_oom(err) : put_blob(s, digest, err);
}

static int put_image(struct save *s, const struct saved *v, boxlite_error **err)
{
    int r = put_blob_once(s, v->row.digest, err);

    if (r == 0) {
        r = put_blob_once(s, v->manifest.config.digest, err);
    }
    for (size_t i = 0; r == 0 && i < v->manifest.n; i++) {
        r = put_blob_once(s, v->manifest.items[i].digest, err);
    }
    return r;
}

/* Skopeo gives folders that are not named in the archive to root, which a user's may not. */
static int put_folders(struct save *s, boxlite_error **err)
{
    int r = bx_archive_add_folder(s->fd, "blobs/", err);

    return r < 0 ? r : bx_archive_add_folder(s->fd, BLOBS, err);
}

static int put_all(struct save *s, bool docker, boxlite_error **err)
{
    int r = bx_archive_add(s->fd, "oci-layout", LAYOUT, strlen(LAYOUT), err);

    if (r == 0) {
        r = put_folders(s, err);
    }
    if (r == 0) {
        r = put_document(s, "index.json", make_index, err);
    }
    if (r == 0 && docker) {
        r = put_document(s, "manifest.json", make_docker_list, err);
    }
    for (size_t i = 0; r == 0 && i < s->n; i++) {
        r = put_image(s, &s->v[i], err);
        if (r < 0) {
            bx_wrap(err, "image %s", s->v[i].name ? s->v[i].name : s->v[i].row.digest);
        }
    }
    return r < 0 ? r : bx_archive_end(s->fd, err);
}

int bx_image_save(const struct bx_images *im, const char *const *refs, size_t nrefs, bool docker,
                  int fd, boxlite_error **err)
{
    struct save s = {.im = im, .fd = fd, .v = calloc(nrefs + 1, sizeof(*s.v))};
    int r = s.v ? 0 : bx_fail_oom(err);

    for (size_t i = 0; r == 0 && i < nrefs; i++) {
        r = find_image(&s, refs[i], err);
    }
    if (r == 0) {
        r = put_all(&s, docker, err);
    }
    if (r == 0 && im->progress && s.total) {
        im->progress(im->progress_data, "saving", s.total, s.total);
    }
    save_done(&s);
    return r;
}
