/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h: pulling and pushing images. The calls here wait, and may run for long: src/box runs them in a thread of
 * their own. What they report comes from several threads, one call at a time.
 */
#ifndef BX_OCI_TRANSFER_H
#define BX_OCI_TRANSFER_H

#include <boxlite.h>

#include "oci/images.h"

/* What the caller of a transfer may set; all may be NULL. */
struct bx_transfer_options {
    char *platform;            /* "linux/amd64"; NULL: this host's */
    char *user, *secret;       /* instead of what the credentials file says */
    char *auth_file, *ca_file; /* paths */
    bool plain_http;
};
void bx_transfer_options_done(struct bx_transfer_options *o);
int bx_transfer_options_copy(const struct bx_transfer_options *from,
                             struct bx_transfer_options *to); /* 0 or -ENOMEM */

struct bx_transfer {
    const struct bx_images *im;
    const struct bx_transfer_options *options;
    int cancel_fd; /* an event descriptor; readable: give up */
    void (*event)(void *data, const boxlite_transfer_event *event); /* may be NULL */
    void *event_data;
};

struct bx_transfer_result {
    char *digest; /* of the image's manifest */
    char *name;   /* full reference of what was transferred */
};
void bx_transfer_result_done(struct bx_transfer_result *r);

/* unused: so that both have one form */
int bx_image_pull(const struct bx_transfer *t, const char *ref, const char *unused,
                  struct bx_transfer_result *ret, boxlite_error **err);
/* to: under which name; NULL: its own. */
int bx_image_push(const struct bx_transfer *t, const char *ref, const char *to,
                  struct bx_transfer_result *ret, boxlite_error **err);
/* Keeps the options' user and secret for a registry, when it has taken them. */
int bx_registry_login(const struct bx_transfer *t, const char *registry, const char *unused,
                      struct bx_transfer_result *ret, boxlite_error **err);
/* auth_file may be NULL. NOT_FOUND. */
int bx_registry_logout(const char *auth_file, const char *registry, boxlite_error **err);

#endif
