/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.c: the layer of a box' changes (changes.h) on the image that the box was made from (oci/commit.h). The name is
 * checked first: a box that is stopped boots for this.
 */
#include "box/commit.h"

#include <stdlib.h>

#include "base/error.h"
#include "box/changes.h"
#include "box/quiet.h"
#include "box/runtime.h"
#include "oci/blobs.h"
#include "oci/commit.h"
#include "oci/reference.h"

#define CHUNK (256u << 10)

static int put_all(struct bx_copy *changes, struct bx_commit *c, boxlite_error **err)
{
    _cleanup_free_ char *chunk = malloc(CHUNK);
    ssize_t n;

    if (!chunk) {
        return bx_fail_oom(err);
    }
    while ((n = bx_copy_read(changes, chunk, CHUNK, err)) > 0) {
        int r = bx_commit_put(c, chunk, (size_t)n, err);
        if (r < 0) {
            return r;
        }
    }
    return n < 0 ? (int)n : bx_copy_finish(changes, err);
}

static int take_changes(boxlite_box *box, struct bx_commit *c, boxlite_error **err)
{
    _cleanup_quiet_ struct bx_quiet quiet = {0};
    struct bx_copy changes = {0};
    int r = bx_quiet_begin(box, &quiet, err);

    if (r == 0) {
        r = bx_changes_start(box, BX_ROOT_UPPER, BX_ROOT_MERGED, &changes, err);
    }
    if (r == 0) {
        r = put_all(&changes, c, err);
    }
    bx_copy_done(&changes);
    return r < 0 ? r : bx_quiet_end(&quiet, err);
}

int bx_box_commit(boxlite_box *box, const char *ref, const json_t *config, const char *comment,
                  char **ret_digest, boxlite_error **err)
{
    const struct bx_commit_spec spec = {
        .base = box->row.digest, .ref = ref, .config = config, .comment = comment};
    _cleanup_commit_ struct bx_commit *c = NULL;
    _cleanup_free_ char *name = NULL;
    int r = bx_reference_tag(ref, &name, err);

    if (r == 0) {
        r = bx_commit_new(&box->rt->images, &c, err);
    }
    if (r == 0) {
        r = take_changes(box, c, err);
    }
    if (r == 0) {
        r = bx_commit_finish(c, &spec, ret_digest, err);
    }
    if (r < 0) {
        bx_hint_space(err);
        bx_wrap(err, "committing box %s", box->row.name);
    }
    return r;
}
