/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c: writes rows of images. The size of an image's blobs is the sum its manifest names (each checked when
 * the blob came in).
 */
#include "oci/record.h"

#include <string.h>
#include <time.h>

#include "base/error.h"
#include "oci/blobs.h"
#include "oci/manifest.h"
#include "oci/prune.h"

static int count_blobs(const struct bx_record *rec, uint64_t *ret, boxlite_error **err)
{
    _cleanup_manifest_ struct bx_manifest m = {0};
    int r = bx_manifest_parse(rec->manifest, strlen(rec->manifest), "manifest", &m, err);

    if (r < 0) {
        return r;
    }
    *ret = strlen(rec->manifest) + m.config.size;
    for (size_t i = 0; i < m.n; i++) {
        *ret += m.items[i].size;
    }
    return 0;
}

int bx_record_image(const struct bx_images *im, const struct bx_record *rec, char **ret_digest,
                    boxlite_error **err)
{
    _cleanup_config_ struct bx_config config = {0};
    _cleanup_free_ char *digest = strdup(rec->digest);
    struct bx_image_row row = {.digest = digest,
                               .config = (char *)rec->config,
                               .manifest = (char *)rec->manifest,
                               .rootfs_size = rec->root_size,
                               .created = (int64_t)time(NULL)};
    int r;

    if (!digest) {
        return bx_fail_oom(err);
    }
    r = bx_config_parse(rec->config, strlen(rec->config), "config", &config, err);
    if (r == 0) {
        r = count_blobs(rec, &row.blob_size, err);
    }
    if (r < 0) {
        return r;
    }
    row.platform = config.platform;
    r = bx_store_image_put(im->store, &row, err);
    if (r == 0 && rec->name) {
        r = bx_store_image_name(im->store, rec->name, digest, err);
    }
    if (r == 0) {
        r = bx_images_evict(im, digest, err);
    }
    if (r == 0) {
        r = bx_blobs_write_index(im, err);
    }
    if (r == 0 && ret_digest) {
        *ret_digest = steal_ptr(&digest);
    }
    return r;
}
