/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c: local images, as exported. An image object is a copy of its row.
 */
#include "api/image.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/json.h"
#include "box/runtime.h"
#include "oci/usage.h"

/* ---- Objects --------------------------------------------------------------------------------- */

static json_t *parse_or_null(const char *text, const char *what)
{
    json_t *v = NULL;
    if (!text || bx_json_parse(text, strlen(text), what, &v, NULL) < 0) {
        return json_null();
    }
    return v;
}

/* Which blob holds which unpacked layer, from the bottom up. */
static json_t *layers_json(const boxlite_image *image)
{
    _cleanup_json_ json_t *config = parse_or_null(image->row.config, "the image configuration");
    const json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    json_t *list = json_array();
    size_t layer = 0;

    for (size_t i = 0; list && i < image->history.n; i++) {
        const struct bx_history_step *s = &image->history.v[i];
        if (s->layer) {
            (void)json_array_append_new(list, json_pack("{s:s, s:O?, s:I}", "digest", s->layer,
                                                        "diff_id", json_array_get(ids, layer),
                                                        "size", (json_int_t)s->size));
            layer++;
        }
    }
    return list;
}

static char *image_json(const boxlite_image *image)
{
    const struct bx_image_row *row = &image->row;
    _cleanup_json_ json_t *obj = json_object();
    if (!obj || bx_json_set(obj, "digest", json_string(row->digest)) < 0 ||
        bx_json_set(obj, "names", bx_json_from_strv(&row->names)) < 0 ||
        bx_json_set(obj, "platform", json_string(row->platform)) < 0 ||
        bx_json_set(obj, "created", json_integer(row->created)) < 0 ||
        bx_json_set(obj, "blob_size", json_integer((json_int_t)row->blob_size)) < 0 ||
        bx_json_set(obj, "rootfs_size", json_integer((json_int_t)row->rootfs_size)) < 0 ||
        bx_json_set(obj, "shared_size", json_integer((json_int_t)image->shared)) < 0 ||
        bx_json_set(obj, "layers", layers_json(image)) < 0 ||
        bx_json_set(obj, "config", parse_or_null(row->config, "the image configuration")) < 0 ||
        bx_json_set(obj, "manifest", parse_or_null(row->manifest, "the manifest")) < 0) {
        return NULL;
    }
    return bx_json_text(obj);
}

/* From a row, whose strings are taken. An image whose documents are damaged can still be shown and removed. */
static int image_from_row(struct bx_image_row *take, const struct bx_usage *usage,
                          boxlite_image **ret, boxlite_error **err)
{
    boxlite_image *image = calloc(1, sizeof(*image));
    if (!image) {
        return bx_fail_oom(err);
    }
    image->row = *take;
    *take = (struct bx_image_row){0};
    (void)bx_history_read(&image->row, &image->history, NULL);
    (void)bx_usage_shared(usage, &image->row, &image->shared, NULL);
    image->json = image_json(image);
    if (!image->json) {
        boxlite_image_free(image);
        return bx_fail_oom(err);
    }
    *ret = image;
    return 0;
}

static int image_with_usage(boxlite_runtime *rt, struct bx_image_row *take, boxlite_image **ret,
                            boxlite_error **err)
{
    _cleanup_usage_ struct bx_usage usage = {0};
    (void)bx_usage_read(&rt->images, &usage, NULL);
    return image_from_row(take, &usage, ret, err);
}

int bx_image_open(boxlite_runtime *rt, const char *ref, boxlite_image **ret, boxlite_error **err)
{
    struct bx_image_row row = {0};
    int r = bx_image_find(&rt->images, ref, &row, err);
    if (r == BOXLITE_E_NOT_FOUND) {
        bx_hint(err, "see the images here with: boxlite image ls");
    }
    if (r == 0) {
        r = image_with_usage(rt, &row, ret, err);
        bx_image_row_done(&row);
    }
    return r;
}

int boxlite_image_open(boxlite_runtime *rt, const char *ref, boxlite_image **ret,
                       boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ref, err);
    bx_need(ret, err);
    return bx_image_open(rt, ref, ret, err);
}

void boxlite_image_free(boxlite_image *image)
{
    if (image) {
        bx_image_row_done(&image->row);
        bx_history_done(&image->history);
        free(image->json);
        free(image);
    }
}

const char *boxlite_image_digest(const boxlite_image *image)
{
    return image ? image->row.digest : NULL;
}

size_t boxlite_image_name_count(const boxlite_image *image)
{
    return image ? image->row.names.n : 0;
}

const char *boxlite_image_name(const boxlite_image *image, size_t i)
{
    return i < boxlite_image_name_count(image) ? image->row.names.v[i] : NULL;
}

const char *boxlite_image_platform(const boxlite_image *image)
{
    return image ? image->row.platform : NULL;
}

uint64_t boxlite_image_size(const boxlite_image *image)
{
    return image ? image->row.blob_size + image->row.rootfs_size : 0;
}

int64_t boxlite_image_created(const boxlite_image *image)
{
    return image ? image->row.created : 0;
}

const char *boxlite_image_json(const boxlite_image *image)
{
    return image ? image->json : NULL;
}

/* ---- Import, load, remove -------------------------------------------------------------------- */

int boxlite_image_import(boxlite_runtime *rt, const char *path, const char *ref,
                         const boxlite_image_config *config, boxlite_image **ret,
                         boxlite_error **err)
{
    _cleanup_json_ json_t *json = NULL;
    struct bx_image_row row = {0};
    bx_need(rt, err);
    bx_need(path, err);
    bx_need(ref, err);
    if (config && !(json = bx_image_config_json(config))) {
        return bx_fail_oom(err);
    }
    int r = bx_image_import_row(&rt->images, path, ref, json, &row, err);
    if (r == 0 && ret) {
        r = image_with_usage(rt, &row, ret, err);
    }
    bx_image_row_done(&row);
    return r;
}

static int add_digest(boxlite_runtime *rt, boxlite_image_list *list, const char *digest,
                      boxlite_error **err)
{
    _cleanup_error_ boxlite_error *why = NULL;
    int r = bx_image_open(rt, digest, &list->v[list->n], &why);
    list->n += r == 0;
    if (r == BOXLITE_E_NOT_FOUND) {
        return 0; /* removed by somebody as soon as it was there */
    }
    if (r < 0 && err) {
        *err = steal_ptr(&why);
    }
    return r;
}

int boxlite_image_load(boxlite_runtime *rt, const char *path, const char *ref,
                       boxlite_image_list **ret, boxlite_error **err)
{
    _cleanup_strv_ struct bx_strv digests = {0};
    bx_need(rt, err);
    bx_need(path, err);
    int r = bx_image_load(&rt->images, path, ref, &digests, err);
    if (r < 0 || !ret) {
        return r;
    }
    boxlite_image_list *list = calloc(1, sizeof(*list));
    if (!list || !(list->v = calloc(digests.n + 1, sizeof(boxlite_image *)))) {
        free(list);
        return bx_fail_oom(err);
    }
    for (size_t i = 0; r == 0 && i < digests.n; i++) {
        r = add_digest(rt, list, digests.v[i], err);
    }
    if (r < 0) {
        boxlite_image_list_free(list);
        return r;
    }
    *ret = list;
    return 0;
}

int boxlite_image_remove(boxlite_runtime *rt, const char *ref, int force, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ref, err);
    return bx_image_remove(&rt->images, ref, force != 0, err);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static int copy_row(const struct bx_image_row *from, struct bx_image_row *to)
{
    const char *const in[] = {from->digest, from->config, from->manifest, from->platform};
    char **const out[] = {&to->digest, &to->config, &to->manifest, &to->platform};

    for (size_t i = 0; i < BX_ARRAY_SIZE(in); i++) {
        if (in[i] && !(*out[i] = strdup(in[i]))) {
            return -1;
        }
    }
    to->blob_size = from->blob_size;
    to->rootfs_size = from->rootfs_size;
    to->created = from->created;
    return bx_strv_copy(&to->names, (const char *const *)from->names.v, from->names.n);
}

struct listing {
    boxlite_image_list *list;
    struct bx_usage usage;
};

static int add_row(void *data, const struct bx_image_row *row)
{
    struct listing *listing = data;
    boxlite_image_list *list = listing->list;
    struct bx_image_row copy = {0};

    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 16;
        boxlite_image **v = realloc(list->v, cap * sizeof(boxlite_image *));
        if (!v) {
            return bx_fail_oom(&list->error);
        }
        list->v = v;
        list->cap = cap;
    }
    int r = copy_row(row, &copy) < 0
                ? bx_fail_oom(&list->error)
                : image_from_row(&copy, &listing->usage, &list->v[list->n], &list->error);
    bx_image_row_done(&copy);
    list->n += r == 0;
    return r;
}

int boxlite_image_list_new(boxlite_runtime *rt, boxlite_image_list **ret, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ret, err);
    boxlite_image_list *list = calloc(1, sizeof(*list));
    if (!list) {
        return bx_fail_oom(err);
    }
    _cleanup_error_ boxlite_error *error = NULL;
    struct listing listing = {.list = list};
    (void)bx_usage_read(&rt->images, &listing.usage, NULL);
    int r = bx_store_image_each(rt->store, add_row, &listing, &error);
    bx_usage_done(&listing.usage);
    if (r < 0) {
        r = bx_fail_again(err, list->error ? list->error : error);
        boxlite_image_list_free(list);
        return r;
    }
    *ret = list;
    return 0;
}

size_t boxlite_image_list_count(const boxlite_image_list *list)
{
    return list ? list->n : 0;
}

const boxlite_image *boxlite_image_list_get(const boxlite_image_list *list, size_t i)
{
    return i < boxlite_image_list_count(list) ? list->v[i] : NULL;
}

void boxlite_image_list_free(boxlite_image_list *list)
{
    if (list) {
        for (size_t i = 0; i < list->n; i++) {
            boxlite_image_free(list->v[i]);
        }
        boxlite_error_free(list->error);
        free(list->v);
        free(list);
    }
}
