/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h: the JSON documents of images: OCI and Docker manifests, indexes, configs, and the manifest.json
 * of `docker save`. Parsers only; every size, digest and count in what they return has been checked.
 */
#ifndef BX_OCI_MANIFEST_H
#define BX_OCI_MANIFEST_H

#include <boxlite.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"

#define BX_MANIFEST_BYTES_MAX (4u << 20)
#define BX_LAYERS_MAX 512u
#define BX_BLOB_BYTES_MAX (1ull << 40)

struct bx_descriptor {
    char *digest;
    uint64_t size;
    /* Of index entries only, each may be NULL. */
    char *os, *architecture, *variant, *name;
    bool no_image; /* an attestation or the like */
};
void bx_descriptor_done(struct bx_descriptor *d);

enum bx_document {
    BX_DOC_MANIFEST,
    BX_DOC_INDEX,
};

struct bx_manifest {
    enum bx_document kind;
    struct bx_descriptor config; /* of a manifest */
    struct bx_descriptor *items; /* layers from the bottom up; entries of an index */
    size_t n;
};
#define _cleanup_manifest_ _cleanup_(bx_manifest_done)
void bx_manifest_done(struct bx_manifest *m);
/* `what` names it in errors. UNSUPPORTED for media types we do not know. */
int bx_manifest_parse(const void *data, size_t len, const char *what, struct bx_manifest *ret,
                      boxlite_error **err);
/* The entry of an index for this host (linux and its architecture): NULL if there is none. */
const struct bx_descriptor *bx_index_choose(const struct bx_manifest *index);
/* The same with a variant wanted: that one, else one without; NULL: any. */
const struct bx_descriptor *bx_index_choose_variant(const struct bx_manifest *index,
                                                    const char *variant);
/* What an index offers, "linux/amd64, linux/arm64", for a message; caller frees; NULL when out of memory. */
char *bx_index_platforms(const struct bx_manifest *index);

/* What a manifest's document says it is, or the OCI type where it does not; caller frees. */
int bx_manifest_media_type(const void *data, size_t len, char **ret, boxlite_error **err);

struct bx_config {
    char *platform; /* "linux/amd64" */
    struct bx_strv diff_ids;
};
#define _cleanup_config_ _cleanup_(bx_config_done)
void bx_config_done(struct bx_config *c);
/* Refuses what this host's guests cannot run: UNSUPPORTED. */
int bx_config_parse(const void *data, size_t len, const char *what, struct bx_config *ret,
                    boxlite_error **err);

/* One image of a `docker save` archive. */
struct bx_docker_image {
    char *config; /* path in the archive */
    struct bx_strv tags, layers;
};
struct bx_docker_list {
    struct bx_docker_image *v;
    size_t n;
};
#define _cleanup_docker_list_ _cleanup_(bx_docker_list_done)
void bx_docker_list_done(struct bx_docker_list *l);
int bx_docker_list_parse(const void *data, size_t len, struct bx_docker_list *ret,
                         boxlite_error **err);

/* The documents for an image whose layers lie in the store. Texts, caller frees; config is the "config" object
 * or NULL. */
struct bx_layer_info {
    const char *digest, *diff_id, *media_type;
    uint64_t size;
};
char *bx_config_make(const json_t *config, const char *diff_id);
char *bx_manifest_make(const char *config_digest, uint64_t config_size,
                       const struct bx_layer_info *layers, size_t nlayers);
/* This host's architecture in OCI terms ("amd64"). */
const char *bx_host_architecture(void);

#endif
