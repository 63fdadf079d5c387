/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registries.h: the user's settings for registries, registries.json in the home (or where $BOXLITE_REGISTRIES says).
 */
#ifndef BX_OCI_REGISTRIES_H
#define BX_OCI_REGISTRIES_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "oci/reference.h"
#include "state/home.h"

struct bx_registry_settings { /* of one host */
    char *host;
    char *ca_file, *proxy; /* or NULL */
    bool plain_http, insecure, blocked;
    struct bx_strv mirrors; /* [http://|https://]HOST[:PORT][/PREFIX], tried first, in order */
};

struct bx_registries {
    struct bx_strv search; /* hosts for names without one; empty: docker.io */
    struct bx_registry_settings *v;
    size_t n;
    uint32_t connect_ms, stall_ms, retries, parallel;
};
void bx_registries_done(struct bx_registries *r);
#define _cleanup_registries_ _cleanup_(bx_registries_done)
/* INVALID, with where and what, for everything that is not known or not right. */
int bx_registries_parse(const void *data, size_t len, const char *what, struct bx_registries *ret,
                        boxlite_error **err);
/* Without a file: the defaults. */
int bx_registries_load(const struct bx_home *home, struct bx_registries *ret, boxlite_error **err);
/* NULL: nothing is set for this host. */
const struct bx_registry_settings *bx_registries_find(const struct bx_registries *r,
                                                      const char *host);
/* The full references that a name may mean, best first: one, unless it has no host and there are several to search. */
int bx_registries_candidates(const struct bx_registries *r, const char *text, struct bx_strv *ret,
                             boxlite_error **err);

#endif
