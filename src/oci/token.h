/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h: the answer to a registry's challenge: the value of an Authorization header.
 */
#ifndef BX_OCI_TOKEN_H
#define BX_OCI_TOKEN_H

#include "oci/challenge.h"
#include "oci/registry.h"

/* Caller frees. AUTH: the credentials are missing or refused. */
int bx_token_get(struct bx_registry *r, struct bx_http *h, const struct bx_challenge *c, char **ret,
                 enum bx_http_failure *ret_failure, boxlite_error **err);
/* From a token server's answer; caller frees. */
int bx_token_parse(const void *data, size_t len, char **ret, boxlite_error **err);

#endif
