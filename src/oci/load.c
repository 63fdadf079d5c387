/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c: images from OCI image layouts and from `docker save` archives.
 *
 * An archive that is both (newer Docker versions write such) is read as an OCI layout, which keeps the manifest's
 * digest. A `docker save` archive has no manifest in our sense; one is made from its config and layers.
 *
 * The store is locked from the first blob to the last row, so that a removal in another process does not take a
 * blob for unused that has no row yet. If loading fails, what it stored is cleared.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "oci/blobs.h"
#include "oci/layout.h"
#include "oci/manifest.h"
#include "oci/record.h"
#include "oci/reference.h"
#include "oci/root.h"
#include "oci/stream.h"

#define NESTING_MAX 4

struct load {
    const struct bx_images *im;
    struct bx_layout *layout;
    const char *ref; /* for an image without a name of its own; NULL once it is given */
    bool had_ref;
    struct bx_strv *loaded;
};

static int add_loaded(struct load *ld, const char *digest, boxlite_error **err)
{
    int r = bx_strv_add(ld->loaded, digest);

    return r == 0         ? 0
           : r == -ENOMEM ? bx_fail_oom(err)
                          : bx_fail(err, BOXLITE_E_INTEGRITY, "too many images");
}

/* The full name that the image gets: its own if that is a whole reference, else the user's, else none. */
static int choose_name(struct load *ld, const char *own, char **ret, boxlite_error **err)
{
    int r;

    if (own && strpbrk(own, "/:") && bx_reference_tag(own, ret, NULL) == 0) {
        return 0;
    }
    if (ld->ref) {
        r = bx_reference_tag(ld->ref, ret, err);
        ld->ref = NULL;
        return r;
    }
    if (ld->had_ref) {
        r = bx_fail(err, BOXLITE_E_INVALID, "it has several images without a name");
        bx_hint(err, "load it without giving a name; the images are then known by their digests");
        return r;
    }
    return 0;
}

static int blob_path(const char *digest, char *ret, size_t size)
{
    return snprintf(ret, size, "blobs/sha256/%s", digest + strlen("sha256:"));
}

/* A small file, checked against the digest and size that name it. */
static int read_document(struct load *ld, const struct bx_descriptor *d, struct bx_buf *b,
                         boxlite_error **err)
{
    char path[BX_DIGEST_LEN + 16], found[BX_DIGEST_LEN + 1];
    int r;

    (void)blob_path(d->digest, path, sizeof(path));
    r = bx_layout_read(ld->layout, path, b, err);
    if (r < 0) {
        return r;
    }
    if (bx_sha256_mem(bx_buf_data(b), b->len, found) < 0) {
        return bx_fail_oom(err);
    }
    if (!bx_streq(found, d->digest) || b->len != d->size) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s is damaged", path);
    }
    return 0;
}

static int store_document(struct load *ld, const struct bx_buf *b, boxlite_error **err)
{
    char digest[BX_DIGEST_LEN + 1];

    return bx_blob_write(ld->im, bx_buf_data(b), b->len, digest, err);
}

static int finish(struct load *ld, const char *digest, const char *manifest, const char *config,
                  const char *name, boxlite_error **err)
{
    struct bx_record rec = {.digest = digest, .manifest = manifest, .config = config, .name = name};
    int r = bx_root_build(ld->im, digest, &rec.root_size, err);

    if (r == 0) {
        r = bx_record_image(ld->im, &rec, NULL, err);
    }
    return r < 0 ? r : add_loaded(ld, digest, err);
}

/* ---- OCI layouts */

static int store_layers(struct load *ld, const struct bx_manifest *m, boxlite_error **err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < m->n; i++) {
        char path[BX_DIGEST_LEN + 16];
        uint64_t size = 0;
        (void)blob_path(m->items[i].digest, path, sizeof(path));
        r = bx_layout_store(ld->layout, path, m->items[i].digest, NULL, &size, err);
        if (r == 0 && size != m->items[i].size) {
            r = bx_fail(err, BOXLITE_E_INTEGRITY, "%s has not the size that the manifest says",
                        path);
        }
    }
    return r;
}

static int load_manifest(struct load *ld, const struct bx_descriptor *d, const char *own_name,
                         const struct bx_buf *text, const struct bx_manifest *m,
                         boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf config = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX);
    _cleanup_config_ struct bx_config parsed = {0};
    _cleanup_free_ char *name = NULL;
    int r = read_document(ld, &m->config, &config, err);

    if (r == 0) { /* before anything is stored: it may be for another platform */
        r = bx_config_parse(bx_buf_data(&config), config.len, "config", &parsed, err);
    }
    if (r == 0) {
        r = choose_name(ld, own_name, &name, err);
    }
    if (r == 0) {
        r = store_layers(ld, m, err);
    }
    if (r == 0) {
        r = store_document(ld, &config, err);
    }
    if (r == 0) {
        r = store_document(ld, text, err);
    }
    return r < 0 ? r : finish(ld, d->digest, bx_buf_str(text), bx_buf_str(&config), name, err);
}

static int fail_platform(boxlite_error **err)
{
    int r =
        bx_fail(err, BOXLITE_E_UNSUPPORTED, "it has no image for linux/%s", bx_host_architecture());

    bx_hint(err, "get the image for linux/%s", bx_host_architecture());
    return r;
}

static int load_descriptor(struct load *ld, const struct bx_descriptor *d, const char *own_name,
                           int nesting, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX);
    _cleanup_manifest_ struct bx_manifest m = {0};
    const struct bx_descriptor *chosen;
    int r = read_document(ld, d, &text, err);

    if (r == 0) {
        r = bx_manifest_parse(bx_buf_data(&text), text.len, d->digest, &m, err);
    }
    if (r < 0) {
        return r;
    }
    if (m.kind == BX_DOC_MANIFEST) {
        return load_manifest(ld, d, own_name, &text, &m, err);
    }
    chosen = bx_index_choose(&m);
    if (!chosen) {
        return fail_platform(err);
    }
    if (nesting >= NESTING_MAX) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "indexes nested too deep");
    }
    return load_descriptor(ld, chosen, own_name ? own_name : chosen->name, nesting + 1, err);
}

static bool for_other_platform(const struct bx_descriptor *d)
{
    return (d->os && !bx_streq(d->os, "linux")) ||
           (d->architecture && !bx_streq(d->architecture, bx_host_architecture()));
}

static int load_oci(struct load *ld, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX);
    _cleanup_manifest_ struct bx_manifest index = {0};
    int r = bx_layout_read(ld->layout, "index.json", &text, err);

    if (r == 0) {
        r = bx_manifest_parse(bx_buf_data(&text), text.len, "index.json", &index, err);
    }
    if (r == 0 && index.kind != BX_DOC_INDEX) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY, "index.json is no index");
    }
    for (size_t i = 0; r == 0 && i < index.n; i++) {
        if (!for_other_platform(&index.items[i])) {
            r = load_descriptor(ld, &index.items[i], index.items[i].name, 0, err);
        }
    }
    return r == 0 && ld->loaded->n == 0 ? fail_platform(err) : r;
}

/* ---- docker save */

static int find_media_type(struct load *ld, const char *digest, const char **ret,
                           boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    enum bx_packing packing = BX_PACK_NONE;
    uint8_t first[8];
    ssize_t n;
    int r = bx_blob_open(ld->im, digest, &fd, NULL, err);

    if (r < 0) {
        return r;
    }
    n = bx_read_full(fd, first, sizeof(first));
    r = n < 0 ? bx_fail_errno(err, BOXLITE_E_IO, (int)n, "reading blob %s", digest)
              : bx_packing_find(first, (size_t)n, &packing, err);
    if (r == 0) {
        *ret = bx_packing_media_type(packing);
    }
    return r;
}

static int store_docker_layers(struct load *ld, const struct bx_docker_image *image,
                               struct bx_layer_info *layers, char (*digests)[BX_DIGEST_LEN + 1],
                               boxlite_error **err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < image->layers.n; i++) {
        layers[i].digest = digests[i];
        r = bx_layout_store(ld->layout, image->layers.v[i], NULL, digests[i], &layers[i].size, err);
        if (r == 0) {
            r = find_media_type(ld, digests[i], &layers[i].media_type, err);
        }
    }
    return r;
}

static int name_docker_image(struct load *ld, const struct bx_docker_image *image,
                             const char *digest, boxlite_error **err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < image->tags.n; i++) {
        _cleanup_free_ char *name = NULL;
        r = bx_reference_tag(image->tags.v[i], &name, err);
        if (r == 0) {
            r = bx_store_image_name(ld->im->store, name, digest, err);
        }
    }
    return r < 0 ? r : bx_blobs_write_index(ld->im, err);
}

static int finish_docker(struct load *ld, const struct bx_docker_image *image,
                         const struct bx_buf *config, const struct bx_layer_info *layers,
                         boxlite_error **err)
{
    char config_digest[BX_DIGEST_LEN + 1], digest[BX_DIGEST_LEN + 1];
    _cleanup_free_ char *manifest = NULL, *name = NULL;
    int r = bx_blob_write(ld->im, bx_buf_data(config), config->len, config_digest, err);

    if (r < 0) {
        return r;
    }
    manifest = bx_manifest_make(config_digest, config->len, layers, image->layers.n);
    r = manifest ? bx_blob_write(ld->im, manifest, strlen(manifest), digest, err)
                 : bx_fail_oom(err);
    if (r == 0 && image->tags.n == 0) {
        r = choose_name(ld, NULL, &name, err);
    }
    if (r == 0) {
        r = finish(ld, digest, manifest, bx_buf_str(config), name, err);
    }
    return r < 0 || image->tags.n == 0 ? r : name_docker_image(ld, image, digest, err);
}

static int load_docker_image(struct load *ld, const struct bx_docker_image *image,
                             boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf config = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX);
    _cleanup_config_ struct bx_config parsed = {0};
    _cleanup_free_ struct bx_layer_info *layers = calloc(image->layers.n + 1, sizeof(*layers));
    _cleanup_free_ char(*digests)[BX_DIGEST_LEN + 1] =
        calloc(image->layers.n + 1, sizeof(*digests));
    int r = layers && digests ? bx_layout_read(ld->layout, image->config, &config, err)
                              : bx_fail_oom(err);

    if (r == 0) {
        r = bx_config_parse(bx_buf_data(&config), config.len, image->config, &parsed, err);
    }
    if (r == 0) {
        r = store_docker_layers(ld, image, layers, digests, err);
    }
    return r < 0 ? r : finish_docker(ld, image, &config, layers, err);
}

static int load_docker(struct load *ld, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(BX_MANIFEST_BYTES_MAX);
    _cleanup_docker_list_ struct bx_docker_list list = {0};
    int r = bx_layout_read(ld->layout, "manifest.json", &text, err);

    if (r == 0) {
        r = bx_docker_list_parse(bx_buf_data(&text), text.len, &list, err);
    }
    for (size_t i = 0; r == 0 && i < list.n; i++) {
        r = load_docker_image(ld, &list.v[i], err);
    }
    return r == 0 && list.n == 0 ? bx_fail(err, BOXLITE_E_INTEGRITY, "it has no images") : r;
}

/* ---- both */

static int load_locked(struct load *ld, boxlite_error **err)
{
    _cleanup_close_ int lock = -1;
    int r = bx_blobs_lock(ld->im, &lock, err);

    if (r < 0) {
        return r;
    }
    if (bx_layout_has(ld->layout, "oci-layout")) {
        r = load_oci(ld, err);
    } else if (bx_layout_has(ld->layout, "manifest.json")) {
        r = load_docker(ld, err);
    } else {
        r = bx_fail(err, BOXLITE_E_INVALID,
                    "it is neither an OCI image layout nor a docker archive");
        bx_hint(err, "the tar of a root file system is brought in by `boxlite image import`");
    }
    if (r < 0) {
        (void)bx_blobs_clear(ld->im, NULL);
    }
    return r;
}

int bx_image_load(const struct bx_images *im, const char *path, const char *ref,
                  struct bx_strv *ret, boxlite_error **err)
{
    _cleanup_layout_ struct bx_layout *layout = NULL;
    _cleanup_strv_ struct bx_strv loaded = {0};
    _cleanup_free_ char *name = NULL;
    struct load ld = {.im = im, .ref = ref, .had_ref = ref != NULL, .loaded = &loaded};
    int r = ref ? bx_reference_tag(ref, &name, err) : 0;

    if (r < 0) {
        return r;
    }
    r = bx_layout_open(im, path, &layout, err);
    if (r == 0) {
        ld.layout = layout;
        r = load_locked(&ld, err);
    }
    if (r < 0) {
        bx_hint_space(err);
        bx_wrap(err, "loading %s", bx_streq(path, "-") ? "standard input" : path);
        return r;
    }
    for (size_t i = 0; i < loaded.n; i++) {
        if (bx_strv_add(ret, loaded.v[i]) < 0) {
            return bx_fail_oom(err);
        }
    }
    return 0;
}
