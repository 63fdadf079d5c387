/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.h: blobs from a registry into the store, and what a transfer reports.
 */
#ifndef BX_OCI_FETCH_H
#define BX_OCI_FETCH_H

#include <pthread.h>

#include "oci/manifest.h"
#include "oci/registry.h"

/* The way of events from several threads to the one function of the caller. */
struct bx_reporter {
    const struct bx_transfer *t;
    pthread_mutex_t lock;
};
void bx_report(struct bx_reporter *r, const char *kind, const char *digest, int state,
               uint64_t done, uint64_t total, const char *note);

struct bx_fetch {
    const struct bx_images *im;
    struct bx_reporter *reporter;
    struct bx_registry *registry;
    const struct bx_descriptor *blob;
    const char *kind; /* "layer", "config" */
};
/* Brings the blob into the store, unless it is there: digest and size are checked before it gets its name. */
int bx_fetch_blob(const struct bx_fetch *f, struct bx_http *h, boxlite_error **err);

/* Removes what pulls left unfinished longer than a day ago. */
void bx_fetch_sweep(const struct bx_home *home);

#endif
