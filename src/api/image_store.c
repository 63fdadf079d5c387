/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_store.c: managing local images, as exported: names, archives, checks, clearing.
 */
#include <errno.h>
#include <time.h>

#include "api/api.h"
#include "api/image.h"
#include "box/commit.h"
#include "box/runtime.h"
#include "oci/prune.h"

#define REFS_MAX 1000u

int boxlite_image_tag(boxlite_runtime *rt, const char *ref, const char *name, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ref, err);
    bx_need(name, err);
    return bx_image_tag(&rt->images, ref, name, err);
}

int boxlite_image_untag(boxlite_runtime *rt, const char *name, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(name, err);
    return bx_image_untag(&rt->images, name, err);
}

int boxlite_image_save(boxlite_runtime *rt, const char *const *refs, size_t nrefs, int format,
                       int fd, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(refs, err);
    if (nrefs == 0 || nrefs > REFS_MAX || fd < 0 ||
        (format != BOXLITE_ARCHIVE_OCI && format != BOXLITE_ARCHIVE_DOCKER)) {
        return bx_fail(err, BOXLITE_E_INVALID, "boxlite_image_save: bad images, format or fd");
    }
    for (size_t i = 0; i < nrefs; i++) {
        bx_need(refs[i], err);
    }
    return bx_image_save(&rt->images, refs, nrefs, format == BOXLITE_ARCHIVE_DOCKER, fd, err);
}

int boxlite_image_verify(boxlite_runtime *rt, const char *ref, int repair, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ref, err);
    return bx_image_verify(&rt->images, ref, repair != 0, err);
}

int boxlite_image_prune(boxlite_runtime *rt, int all, uint64_t min_age_sec, uint64_t keep_bytes,
                        uint64_t *ret_removed, uint64_t *ret_freed, boxlite_error **err)
{
    int64_t now = (int64_t)time(NULL);
    struct bx_prune rule = {.all = all != 0, .keep = keep_bytes};
    _cleanup_strv_ struct bx_strv removed = {.max = 1000000};
    uint64_t freed = 0;
    bx_need(rt, err);
    if (min_age_sec) {
        rule.before = min_age_sec < (uint64_t)now ? now - (int64_t)min_age_sec : 1;
    }
    int r = bx_images_prune(&rt->images, &rule, &removed, &freed, err);
    if (r == 0 && ret_removed) {
        *ret_removed = removed.n;
    }
    if (r == 0 && ret_freed) {
        *ret_freed = freed;
    }
    return r;
}

int boxlite_box_commit(boxlite_box *box, const char *ref, const boxlite_image_config *config,
                       const char *comment, boxlite_image **ret, boxlite_error **err)
{
    _cleanup_json_ json_t *json = NULL;
    _cleanup_free_ char *digest = NULL;
    bx_need(box, err);
    bx_need(ref, err);
    if (config && !(json = bx_image_config_json(config))) {
        return bx_fail_oom(err);
    }
    int r = bx_box_commit(box, ref, json, comment, &digest, err);
    return r < 0 || !ret ? r : bx_image_open(box->rt, digest, ret, err);
}

/* ---- History --------------------------------------------------------------------------------- */

uint64_t boxlite_image_shared_size(const boxlite_image *image)
{
    return image ? image->shared : 0;
}

size_t boxlite_image_history_count(const boxlite_image *image)
{
    return image ? image->history.n : 0;
}

static const struct bx_history_step *step_of(const boxlite_image *image, size_t i)
{
    return i < boxlite_image_history_count(image) ? &image->history.v[i] : NULL;
}

int64_t boxlite_image_history_created(const boxlite_image *image, size_t i)
{
    const struct bx_history_step *s = step_of(image, i);
    return s ? s->created : 0;
}

const char *boxlite_image_history_created_by(const boxlite_image *image, size_t i)
{
    const struct bx_history_step *s = step_of(image, i);
    return s ? s->created_by : NULL;
}

const char *boxlite_image_history_comment(const boxlite_image *image, size_t i)
{
    const struct bx_history_step *s = step_of(image, i);
    return s ? s->comment : NULL;
}

const char *boxlite_image_history_layer(const boxlite_image *image, size_t i)
{
    const struct bx_history_step *s = step_of(image, i);
    return s ? s->layer : NULL;
}

uint64_t boxlite_image_history_size(const boxlite_image *image, size_t i)
{
    const struct bx_history_step *s = step_of(image, i);
    return s ? s->size : 0;
}
