/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials.h: names and secrets for registries: what Docker's config.json and Podman's auth.json hold, and what
 * credential helpers tell.
 */
#ifndef BX_OCI_CREDENTIALS_H
#define BX_OCI_CREDENTIALS_H

#include <boxlite.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct bx_credential {
    char *user, *secret; /* user NULL: there is none */
    bool identity_token; /* the secret is one, to be changed for access tokens */
};
void bx_credential_done(struct bx_credential *c);
#define _cleanup_credential_ _cleanup_(bx_credential_done)

/* What one file says for a host and a repository in it: a credential, or the helper to ask. */
struct bx_credential_source {
    struct bx_credential credential;
    char *helper; /* "docker-credential-NAME" is to be asked; NULL: none */
};
void bx_credential_source_done(struct bx_credential_source *s);
int bx_credentials_parse(const void *data, size_t len, const char *what, const char *host,
                         const char *path, struct bx_credential_source *ret, boxlite_error **err);

/* file: instead of $REGISTRY_AUTH_FILE and the files in the user's home; NULL: those. None found is 0. cancel_fd ends the
 * wait for a helper. */
int bx_credential_find(const char *file, const char *host, const char *path,
                       struct bx_credential *ret, boxlite_error **err);
/* Keep and forget: in the helper that the file names for the host, else in the file (mode 0600). */
int bx_credential_store(const char *file, const char *host, const char *user, const char *secret,
                        boxlite_error **err);
/* NOT_FOUND if there is none. */
int bx_credential_erase(const char *file, const char *host, boxlite_error **err);

/* Standard base64 with padding; caller frees; NULL when out of memory or (decode, with errno EINVAL) bad. */
char *bx_base64_encode(const void *data, size_t len);
char *bx_base64_decode(const char *text, size_t *ret_len);

#endif
