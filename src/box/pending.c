/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.c: stands in for the image layer until that is here, so that programs link; each function is
 * weak and gives way to the real one.
 */
#include "base/error.h"
#include "oci/images.h"

#define WEAK __attribute__((weak))

static int not_yet(boxlite_error **err)
{
    return bx_fail(err, BOXLITE_E_UNSUPPORTED, "images are not in this build");
}

WEAK int bx_image_import(const struct bx_images *im, const char *path, const char *ref, const json_t *config,
                         char **ret_digest, boxlite_error **err)
{
    return not_yet(err);
}
WEAK int bx_image_load(const struct bx_images *im, const char *path, const char *ref, struct bx_strv *ret,
                       boxlite_error **err)
{
    return not_yet(err);
}
WEAK int bx_image_find(const struct bx_images *im, const char *ref, struct bx_image_row *ret, boxlite_error **err)
{
    return not_yet(err);
}
WEAK int bx_image_remove(const struct bx_images *im, const char *ref, bool force, boxlite_error **err)
{
    return not_yet(err);
}
WEAK int bx_image_root(const struct bx_images *im, const struct bx_image_row *row, int *ret_fd, char **ret_path,
                       boxlite_error **err)
{
    return not_yet(err);
}
WEAK int bx_image_run_parse(const char *config_json, struct bx_image_run *ret, boxlite_error **err)
{
    return not_yet(err);
}
WEAK void bx_image_run_done(struct bx_image_run *r)
{
}
