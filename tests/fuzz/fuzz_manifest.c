/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_manifest.c: any bytes as each document of an image. What a parser lets through holds its promises: digests are
 * digests, sizes and counts are in range.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "oci/images.h"
#include "oci/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_descriptor(const struct bx_descriptor *d)
{
    require(bx_digest_valid(d->digest) && d->size <= BX_BLOB_BYTES_MAX);
}

static void as_manifest(const uint8_t *data, size_t size)
{
    struct bx_manifest m = {0};

    if (bx_manifest_parse(data, size, "document", &m, NULL) < 0) {
        return;
    }
    if (m.kind == BX_DOC_MANIFEST) {
        check_descriptor(&m.config);
        require(m.n <= BX_LAYERS_MAX);
    } else {
        (void)bx_index_choose(&m);
    }
    for (size_t i = 0; i < m.n; i++) {
        check_descriptor(&m.items[i]);
    }
    bx_manifest_done(&m);
}

static void as_config(const uint8_t *data, size_t size)
{
    struct bx_config c = {0};
    struct bx_image_run run = {0};
    _cleanup_free_ char *text = strndup((const char *)data, size);

    if (bx_config_parse(data, size, "config", &c, NULL) == 0) {
        for (size_t i = 0; i < c.diff_ids.n; i++) {
            require(bx_digest_valid(c.diff_ids.v[i]));
        }
        bx_config_done(&c);
    }
    if (text && bx_image_run_parse(text, &run, NULL) == 0) {
        require(run.user && run.workdir && run.stop_signal);
        bx_image_run_done(&run);
    }
}

static void as_docker_list(const uint8_t *data, size_t size)
{
    struct bx_docker_list l = {0};

    if (bx_docker_list_parse(data, size, &l, NULL) == 0) {
        for (size_t i = 0; i < l.n; i++) {
            require(l.v[i].config && l.v[i].layers.n <= BX_LAYERS_MAX);
        }
        bx_docker_list_done(&l);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_manifest(data, size);
    as_config(data, size);
    as_docker_list(data, size);
    return 0;
}
