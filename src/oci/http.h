/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h: HTTP exchanges, one at a time, for a thread that may wait. The one place that knows libcurl.
 *
 * An exchange is bounded in every direction: time to connect, time without bytes, time as a whole, size of headers and
 * of answers that are kept. Redirects are not followed and nothing is decoded: the caller decides what goes where.
 */
#ifndef BX_OCI_HTTP_H
#define BX_OCI_HTTP_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct bx_http; /* a client: belongs to one thread, keeps its connections */

/* cancel_fd: when it becomes readable, what is under way ends with CANCELLED; -1: nothing does. Borrowed. */
int bx_http_new(int cancel_fd, struct bx_http **ret, boxlite_error **err);
void bx_http_free(struct bx_http *h);
BX_DEFINE_CLEANUP(struct bx_http *, bx_http_free, bx_cleanup_http);
#define _cleanup_http_ _cleanup_(bx_cleanup_http)

struct bx_http_response {
    int status;
    char *location, *content_type, *digest; /* or NULL; digest: Docker-Content-Digest */
    struct bx_strv challenges;              /* WWW-Authenticate, one an entry */
    uint64_t retry_after;                   /* seconds; 0: not said */
    uint64_t range_start;                   /* of a 206; UINT64_MAX: not said */
    uint64_t length;                        /* of the body; UINT64_MAX: not said */
    struct bx_buf body;                     /* what did not go to the sink, cut at its maximum */
};
void bx_http_response_done(struct bx_http_response *r);
#define _cleanup_response_ _cleanup_(bx_http_response_done)

/* Takes bytes of a body that answers with 200 or 206; a failure ends the exchange and is its error. */
typedef int (*bx_http_sink)(void *data, const struct bx_http_response *head, const void *bytes,
                            size_t n, boxlite_error **err);

struct bx_http_request {
    const char *method, *url;
    const char *authorization; /* value of the header, or NULL */
    const char *accept, *content_type;
    const char *user, *secret; /* for Basic authentication; NULL: none */
    uint64_t range_from;       /* more than 0: only the bytes from there on */
    const void *body;          /* sent with POST and PUT … */
    size_t body_len;
    int body_fd; /* … or this file from its beginning, if body is NULL; -1: nothing */
    uint64_t body_size;
    void (*sent)(void *data, uint64_t bytes); /* how much of a file has gone; may be NULL */
    void *sent_data;
    bx_http_sink sink; /* NULL: the body is kept, and one that is too long is an error */
    void *sink_data;
    size_t body_max;                           /* of a body that is kept; 0: 64 KiB */
    uint32_t connect_ms, stall_ms, timeout_ms; /* timeout_ms 0: no limit as a whole */
    const char *ca_file; /* trusted instead of the system's; NULL: the system's */
    bool insecure;       /* certificates are not checked */
    const char *proxy;   /* URL; "": none; NULL: as the environment says */
};

enum bx_http_failure {
    BX_HTTP_FINE,
    BX_HTTP_TRANSIENT, /* another attempt may do better */
    BX_HTTP_UNREACHED, /* no connection: the name or the port may be wrong, or the network is down */
    BX_HTTP_NOT_TLS,   /* connected, but TLS is not what is spoken there */
    BX_HTTP_PERMANENT,
};

/* 0: an answer came, whatever its status. *ret_failure (set in any case) says what kind of failure it was. */
int bx_http_run(struct bx_http *h, const struct bx_http_request *req, struct bx_http_response *ret,
                enum bx_http_failure *ret_failure, boxlite_error **err);

/* Waits so long: 0, or CANCELLED. */
int bx_http_pause(struct bx_http *h, uint64_t ms, boxlite_error **err);

/* ---- URLs */

/* `target` (absolute or not) seen from `base`; INTEGRITY if it is no http or https URL or has a password in it. Caller frees. */
int bx_url_resolve(const char *base, const char *target, char **ret, boxlite_error **err);
/* Same scheme, host and port. */
bool bx_url_same_origin(const char *a, const char *b);
bool bx_url_is_https(const char *url);
/* Whether its host is this machine: localhost, 127.0.0.0/8, [::1]. */
bool bx_url_is_loopback(const char *url);
/* With NAME=VALUE behind its query; caller frees; NULL when out of memory. */
char *bx_url_with(const char *url, const char *name, const char *value);
/* What may be shown of it: no query, which may be a secret; caller frees; NULL when out of memory. */
char *bx_url_shown(const char *url);

#endif
