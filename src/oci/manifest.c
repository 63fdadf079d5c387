/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.c: reading and making image documents.
 *
 * Digests found here become file names and sizes become limits, so each is checked as it is read. Media types
 * decide what a document is; without one (old layouts) its shape does. How a layer is packed is not taken from
 * its media type but from its bytes (stream.c): both occur wrong in the wild, and the digest covers the bytes.
 */
#include "oci/manifest.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"

#define OCI "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."
#define INDEX_ENTRIES_MAX 1024u
#define DOCKER_IMAGES_MAX 256u

static const struct {
    const char *type;
    enum bx_document kind;
} documents[] = {
    {OCI "manifest.v1+json", BX_DOC_MANIFEST},
    {DOCKER "distribution.manifest.v2+json", BX_DOC_MANIFEST},
    {OCI "index.v1+json", BX_DOC_INDEX},
    {DOCKER "distribution.manifest.list.v2+json", BX_DOC_INDEX},
};

static const char *const layer_types[] = {
    OCI "layer.v1.tar",
    OCI "layer.v1.tar+gzip",
    OCI "layer.v1.tar+zstd",
    DOCKER "image.rootfs.diff.tar",
    DOCKER "image.rootfs.diff.tar.gzip",
    DOCKER "image.rootfs.diff.tar.zstd",
};

const char *bx_host_architecture(void)
{
    static const char *const names[][2] = {
        {"x86_64", "amd64"},    {"aarch64", "arm64"}, {"riscv64", "riscv64"},
        {"ppc64le", "ppc64le"}, {"s390x", "s390x"},
    };
    struct utsname u;

    for (size_t i = 0; uname(&u) == 0 && i < BX_ARRAY_SIZE(names); i++) {
        if (bx_streq(u.machine, names[i][0])) {
            return names[i][1];
        }
    }
    return "unknown";
}

/* ---- descriptors */

void bx_descriptor_done(struct bx_descriptor *d)
{
    free(d->digest);
    free(d->os);
    free(d->architecture);
    free(d->variant);
    free(d->name);
    *d = (struct bx_descriptor){0};
}

static int copy_text(const char *s, char **ret, boxlite_error **err)
{
    if (s && !(*ret = strdup(s))) {
        return bx_fail_oom(err);
    }
    return 0;
}

static int parse_descriptor(const json_t *v, struct bx_descriptor *ret, boxlite_error **err)
{
    const char *digest = NULL;
    uint64_t size = 0;
    int r = bx_json_str(v, "digest", false, &digest, err);

    if (r == 0) {
        r = bx_json_u64(v, "size", false, BX_BLOB_BYTES_MAX, &size, err);
    }
    if (r < 0) {
        return r;
    }
    if (!bx_digest_valid(digest)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "a digest is not sha256: and 64 hex digits");
    }
    ret->size = size;
    return copy_text(digest, &ret->digest, err);
}

/* A name that a layout gives an image: containerd's full one, or the specification's. */
static int parse_name(const json_t *v, struct bx_descriptor *ret, boxlite_error **err)
{
    static const char *const keys[] = {"io.containerd.image.name",
                                       "org.opencontainers.image.ref.name"};
    json_t *annotations = NULL;
    const char *name = NULL;
    int r = bx_json_object(v, "annotations", true, &annotations, err);

    for (size_t i = 0; r == 0 && annotations && !name && i < BX_ARRAY_SIZE(keys); i++) {
        r = bx_json_str(annotations, keys[i], true, &name, err);
    }
    return r < 0 ? r : copy_text(name, &ret->name, err);
}

static int parse_index_entry(const json_t *v, struct bx_descriptor *ret, boxlite_error **err)
{
    json_t *platform = NULL;
    const char *os = NULL, *architecture = NULL, *variant = NULL;
    int r = parse_descriptor(v, ret, err);

    if (r == 0) {
        r = parse_name(v, ret, err);
    }
    if (r == 0) {
        r = bx_json_object(v, "platform", true, &platform, err);
    }
    if (r == 0 && platform) {
        r = bx_json_str(platform, "os", true, &os, err);
    }
    if (r == 0 && platform) {
        r = bx_json_str(platform, "architecture", true, &architecture, err);
    }
    if (r == 0 && platform) {
        r = bx_json_str(platform, "variant", true, &variant, err);
    }
    ret->no_image = os && bx_streq(os, "unknown");
    if (r == 0) {
        r = copy_text(os, &ret->os, err);
    }
    if (r == 0) {
        r = copy_text(variant, &ret->variant, err);
    }
    return r < 0 ? r : copy_text(architecture, &ret->architecture, err);
}

static int parse_layer(const json_t *v, struct bx_descriptor *ret, boxlite_error **err)
{
    const char *type = NULL;
    int r = bx_json_str(v, "mediaType", true, &type, err);

    if (r < 0) {
        return r;
    }
    for (size_t i = 0; type && i < BX_ARRAY_SIZE(layer_types); i++) {
        if (bx_streq(type, layer_types[i])) {
            return parse_descriptor(v, ret, err);
        }
    }
    if (type && (strstr(type, ".foreign.") || strstr(type, ".nondistributable."))) {
        r = bx_fail(err, BOXLITE_E_UNSUPPORTED,
                    "a foreign layer, which its registry does not hold");
        bx_hint(err, "such images (of Windows) cannot run here");
        return r;
    }
    if (type) {
        _cleanup_free_ char *shown = bx_escape(type, strlen(type), 100);
        return bx_fail(err, BOXLITE_E_UNSUPPORTED, "a layer of type %s", shown ? shown : "?");
    }
    return parse_descriptor(v, ret, err);
}

/* ---- manifests and indexes */

void bx_manifest_done(struct bx_manifest *m)
{
    for (size_t i = 0; i < m->n; i++) {
        bx_descriptor_done(&m->items[i]);
    }
    free(m->items);
    bx_descriptor_done(&m->config);
    *m = (struct bx_manifest){0};
}

static int parse_items(const json_t *doc, const char *key, size_t max, struct bx_manifest *m,
                       int (*parse)(const json_t *v, struct bx_descriptor *ret,
                                    boxlite_error **err),
                       boxlite_error **err)
{
    json_t *items = NULL;
    int r = bx_json_array(doc, key, false, &items, err);

    if (r < 0) {
        return r;
    }
    if (json_array_size(items) > max) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "more than %zu %s", max, key);
    }
    m->items = calloc(json_array_size(items) + 1, sizeof(*m->items));
    if (!m->items) {
        return bx_fail_oom(err);
    }
    for (size_t i = 0; r == 0 && i < json_array_size(items); i++) {
        m->n = i + 1;
        r = parse(json_array_get(items, i), &m->items[i], err);
        if (r < 0) {
            bx_wrap(err, "%s[%zu]", key, i);
        }
    }
    return r;
}

static int find_kind(const json_t *doc, enum bx_document *ret, boxlite_error **err)
{
    const char *type = NULL;
    _cleanup_free_ char *shown = NULL;
    int r = bx_json_str(doc, "mediaType", true, &type, err);

    if (r < 0) {
        return r;
    }
    if (!type) {
        *ret = json_object_get(doc, "manifests") ? BX_DOC_INDEX : BX_DOC_MANIFEST;
        return 0;
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(documents); i++) {
        if (bx_streq(type, documents[i].type)) {
            *ret = documents[i].kind;
            return 0;
        }
    }
    shown = bx_escape(type, strlen(type), 100);
    return bx_fail(err, BOXLITE_E_UNSUPPORTED, "a document of type %s", shown ? shown : "?");
}

static int parse_document(const json_t *doc, struct bx_manifest *m, boxlite_error **err)
{
    json_t *config = NULL;
    uint64_t version = 2;
    int r = bx_json_u64(doc, "schemaVersion", true, 1000, &version, err);

    if (r < 0) {
        return r;
    }
    if (version != 2) {
        r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "schema version %llu", (unsigned long long)version);
        bx_hint(err, "the image has an old format; push it again with a newer tool");
        return r;
    }
    r = find_kind(doc, &m->kind, err);
    if (r < 0) {
        return r;
    }
    if (m->kind == BX_DOC_INDEX) {
        return parse_items(doc, "manifests", INDEX_ENTRIES_MAX, m, parse_index_entry, err);
    }
    r = bx_json_object(doc, "config", false, &config, err);
    if (r == 0) {
        r = parse_descriptor(config, &m->config, err);
    }
    return r < 0 ? r : parse_items(doc, "layers", BX_LAYERS_MAX, m, parse_layer, err);
}

int bx_manifest_parse(const void *data, size_t len, const char *what, struct bx_manifest *ret,
                      boxlite_error **err)
{
    _cleanup_json_ json_t *doc = NULL;
    struct bx_manifest m = {0};
    int r = bx_json_parse(data, len, what, &doc, err);

    if (r < 0) {
        return r;
    }
    r = parse_document(doc, &m, err);
    if (r < 0) {
        bx_wrap(err, "%s", what);
        bx_manifest_done(&m);
        return r;
    }
    *ret = m;
    return 0;
}

const struct bx_descriptor *bx_index_choose_variant(const struct bx_manifest *index,
                                                    const char *variant)
{
    const char *host = bx_host_architecture();
    const struct bx_descriptor *plain = NULL;

    for (size_t i = 0; i < index->n; i++) {
        const struct bx_descriptor *d = &index->items[i];
        if (!d->os || !d->architecture || d->no_image || !bx_streq(d->os, "linux") ||
            !bx_streq(d->architecture, host)) {
            continue;
        }
        if (!variant || (d->variant && bx_streq(d->variant, variant))) {
            return d;
        }
        if (!d->variant && !plain) {
            plain = d;
        }
    }
    /* An index of one image may leave the platform to the image's config. */
    return plain || index->n != 1 || index->items[0].os ? plain : &index->items[0];
}

const struct bx_descriptor *bx_index_choose(const struct bx_manifest *index)
{
    return bx_index_choose_variant(index, NULL);
}

char *bx_index_platforms(const struct bx_manifest *index)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(512);
    _cleanup_free_ char *list = NULL;

    for (size_t i = 0; i < index->n; i++) {
        const struct bx_descriptor *d = &index->items[i];
        if (d->no_image || !d->os || !d->architecture ||
            bx_buf_appendf(&text, "%s%s/%s%s%s", text.len ? ", " : "", d->os, d->architecture,
                           d->variant ? "/" : "", d->variant ? d->variant : "") < 0) {
            continue; /* more than fit a message are left out */
        }
    }
    list = bx_buf_steal(&text, NULL);
    return list ? bx_escape(list, strlen(list), 300) : NULL;
}

int bx_manifest_media_type(const void *data, size_t len, char **ret, boxlite_error **err)
{
    _cleanup_json_ json_t *doc = NULL;
    const char *type = documents[0].type;
    int r = bx_json_parse(data, len, "manifest", &doc, err);

    r = r < 0 ? r : bx_json_str(doc, "mediaType", true, &type, err);
    return r < 0 ? r : copy_text(type, ret, err);
}

/* ---- configs */

void bx_config_done(struct bx_config *c)
{
    free(c->platform);
    bx_strv_done(&c->diff_ids);
    *c = (struct bx_config){0};
}

static int check_platform(const char *os, const char *architecture, boxlite_error **err)
{
    _cleanup_free_ char *shown = NULL;
    int r;

    if (bx_streq(os, "linux") && bx_streq(architecture, bx_host_architecture())) {
        return 0;
    }
    shown = bx_asprintf("%s/%s", os, architecture);
    r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "the image is for %.64s, this host is linux/%s",
                shown ? shown : "?", bx_host_architecture());
    bx_hint(err, "get the image for linux/%s", bx_host_architecture());
    return r;
}

static int parse_config(const json_t *doc, struct bx_config *c, boxlite_error **err)
{
    const char *os = NULL, *architecture = NULL;
    json_t *rootfs = NULL;
    int r = bx_json_str(doc, "os", false, &os, err);

    if (r == 0) {
        r = bx_json_str(doc, "architecture", false, &architecture, err);
    }
    if (r == 0) {
        r = check_platform(os, architecture, err);
    }
    if (r == 0) {
        r = bx_json_object(doc, "rootfs", false, &rootfs, err);
    }
    c->diff_ids.max = BX_LAYERS_MAX;
    if (r == 0) {
        r = bx_json_strv(rootfs, "diff_ids", false, &c->diff_ids, err);
    }
    for (size_t i = 0; r == 0 && i < c->diff_ids.n; i++) {
        if (!bx_digest_valid(c->diff_ids.v[i])) {
            r = bx_fail(err, BOXLITE_E_INTEGRITY, "rootfs.diff_ids[%zu] is no digest", i);
        }
    }
    if (r < 0) {
        return r;
    }
    c->platform = bx_asprintf("%s/%s", os, architecture);
    return c->platform ? 0 : bx_fail_oom(err);
}

int bx_config_parse(const void *data, size_t len, const char *what, struct bx_config *ret,
                    boxlite_error **err)
{
    _cleanup_json_ json_t *doc = NULL;
    struct bx_config c = {0};
    int r = bx_json_parse(data, len, what, &doc, err);

    if (r < 0) {
        return r;
    }
    r = parse_config(doc, &c, err);
    if (r < 0) {
        bx_wrap(err, "%s", what);
        bx_config_done(&c);
        return r;
    }
    *ret = c;
    return 0;
}

/* ---- docker save */

void bx_docker_list_done(struct bx_docker_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->v[i].config);
        bx_strv_done(&l->v[i].tags);
        bx_strv_done(&l->v[i].layers);
    }
    free(l->v);
    *l = (struct bx_docker_list){0};
}

static int parse_docker_image(const json_t *v, struct bx_docker_image *ret, boxlite_error **err)
{
    const char *config = NULL;
    int r = bx_json_str(v, "Config", false, &config, err);

    ret->tags.max = DOCKER_IMAGES_MAX;
    ret->layers.max = BX_LAYERS_MAX;
    if (r == 0) {
        r = bx_json_strv(v, "RepoTags", true, &ret->tags, err);
    }
    if (r == 0) {
        r = bx_json_strv(v, "Layers", false, &ret->layers, err);
    }
    return r < 0 ? r : copy_text(config, &ret->config, err);
}

int bx_docker_list_parse(const void *data, size_t len, struct bx_docker_list *ret,
                         boxlite_error **err)
{
    _cleanup_json_ json_t *doc = NULL;
    _cleanup_docker_list_ struct bx_docker_list list = {0};
    int r = bx_json_parse(data, len, "manifest.json", &doc, err);

    if (r < 0) {
        return r;
    }
    if (!json_is_array(doc) || json_array_size(doc) > DOCKER_IMAGES_MAX) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "manifest.json: not a list of at most %u images",
                       DOCKER_IMAGES_MAX);
    }
    list.v = calloc(json_array_size(doc) + 1, sizeof(*list.v));
    if (!list.v) {
        return bx_fail_oom(err);
    }
    for (size_t i = 0; i < json_array_size(doc); i++) {
        list.n = i + 1;
        r = parse_docker_image(json_array_get(doc, i), &list.v[i], err);
        if (r < 0) {
            bx_wrap(err, "manifest.json[%zu]", i);
            return r;
        }
    }
    *ret = list;
    list = (struct bx_docker_list){0};
    return 0;
}

/* ---- making */

char *bx_config_make(const json_t *config, const char *diff_id)
{
    _cleanup_json_ json_t *doc = json_pack(
        "{s:s, s:s, s:O?, s:{s:s, s:[s]}, s:[{s:s}]}", "architecture", bx_host_architecture(), "os",
        "linux", "config", config ? (json_t *)config : NULL, "rootfs", "type", "layers", "diff_ids",
        diff_id, "history", "created_by", "boxlite image import");

    if (!doc) {
        return NULL;
    }
    if (!config) {
        (void)json_object_set_new(doc, "config", json_object());
    }
    return bx_json_text(doc);
}

char *bx_manifest_make(const char *config_digest, uint64_t config_size,
                       const struct bx_layer_info *layers, size_t nlayers)
{
    _cleanup_json_ json_t *doc =
        json_pack("{s:i, s:s, s:{s:s, s:s, s:I}, s:[]}", "schemaVersion", 2, "mediaType",
                  OCI "manifest.v1+json", "config", "mediaType", OCI "config.v1+json", "digest",
                  config_digest, "size", (json_int_t)config_size, "layers");

    for (size_t i = 0; doc && i < nlayers; i++) {
        json_t *layer = json_pack("{s:s, s:s, s:I}", "mediaType", layers[i].media_type, "digest",
                                  layers[i].digest, "size", (json_int_t)layers[i].size);
        if (json_array_append_new(json_object_get(doc, "layers"), layer) < 0) {
            return NULL;
        }
    }
    return doc ? bx_json_text(doc) : NULL;
}
