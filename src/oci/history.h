/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h: how an image came to be, step by step, from its config's "history" and its manifest.
 */
#ifndef BX_OCI_HISTORY_H
#define BX_OCI_HISTORY_H

#include <boxlite.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "state/store.h"

struct bx_history {
    struct bx_history_step {
        int64_t created;            /* seconds since 1970; 0: not said */
        char *created_by, *comment; /* never NULL */
        char *layer;                /* digest of the blob; NULL: the step changed no files */
        uint64_t size;              /* of that blob */
    } * v;                          /* the oldest first */
    size_t n;
};
/* An image without a history, or with one that does not fit its layers, has one step a layer. */
int bx_history_read(const struct bx_image_row *row, struct bx_history *ret, boxlite_error **err);
void bx_history_done(struct bx_history *h);
#define _cleanup_history_ _cleanup_(bx_history_done)

/* RFC 3339: seconds since 1970, 0 for what is none. */
int64_t bx_parse_date(const char *text);

#endif
