/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h: one registry (or mirror of one) as the OCI distribution specification defines it, for one repository.
 * Threads share it; each has an HTTP client of its own.
 */
#ifndef BX_OCI_REGISTRY_H
#define BX_OCI_REGISTRY_H

#include <boxlite.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "oci/credentials.h"
#include "oci/http.h"
#include "oci/registries.h"
#include "oci/transfer.h"

struct bx_registry {
    const struct bx_registries *settings; /* borrowed */
    const struct bx_log *log;
    char *host; /* as references name it; credentials go by it */
    char *base; /* "https://HOST[:PORT]" */
    char *path; /* of the repository there */
    char *ca_file, *proxy;
    bool insecure, may_be_http, push;
    struct bx_credential credential;
    /* Shared, under the lock. */
    pthread_mutex_t lock;
    char *authorization;
    uint64_t generation; /* counts the authorizations */
    atomic_bool answered; /* it has been reached: what fails now is worth more patience */
};

/* mirror: NULL, or where instead of the host. */
int bx_registry_new(const struct bx_registries *settings, const struct bx_transfer *t,
                    const struct bx_reference *ref, const char *mirror, bool push,
                    struct bx_registry **ret, boxlite_error **err);
void bx_registry_free(struct bx_registry *r);
BX_DEFINE_CLEANUP(struct bx_registry *, bx_registry_free, bx_cleanup_registry);
#define _cleanup_registry_ _cleanup_(bx_cleanup_registry)

/* One request to it, by path ("manifests/latest", below the repository), by a whole URL, or, with neither, to the root of
 * its interface. Authorizes itself, follows
 * redirects of GET and HEAD, and turns the statuses that mean failure into errors: 2xx are success, and 404 of a HEAD.
 * `failure` tells whether another attempt makes sense. */
struct bx_registry_call {
    struct bx_http_request http; /* method, headers, bodies; the rest is filled in */
    const char *path, *url;
    char *ended_at; /* the URL that answered; set by the call, freed by bx_registry_call_done() */
    enum bx_http_failure failure;
};
int bx_registry_call(struct bx_registry *r, struct bx_http *h, struct bx_registry_call *call,
                     struct bx_http_response *ret, boxlite_error **err);
void bx_registry_call_done(struct bx_registry_call *call);

/* Asks for the root of its interface: whether it is one, and takes the credentials. */
int bx_registry_reach(struct bx_registry *r, struct bx_http *h, boxlite_error **err);

/* Attempts at one thing. */
struct bx_attempts {
    uint32_t made;
};
/* After a failed call: waits and returns true if it should be tried again; else (also when cancelled) false, with *err
 * as it is to be reported. note: called before the wait; may be NULL. */
bool bx_registry_again(struct bx_registry *r, struct bx_http *h, struct bx_attempts *a,
                       enum bx_http_failure failure, uint64_t retry_after,
                       void (*note)(void *data, const char *why), void *note_data,
                       boxlite_error **err);

/* A manifest or index by tag or digest; checked against `digest` if that is not NULL. The digest that it has: ret_digest,
 * BX_DIGEST_LEN + 1 bytes. */
int bx_registry_manifest(struct bx_registry *r, struct bx_http *h, const char *reference,
                         const char *digest, struct bx_buf *ret, char *ret_digest,
                         boxlite_error **err);

#endif
