/* SPDX-License-Identifier: Apache-2.0 */
/*
 * challenge.h: WWW-Authenticate headers (RFC 9110 §11.6.1), as registries use them.
 */
#ifndef BX_OCI_CHALLENGE_H
#define BX_OCI_CHALLENGE_H

#include <stdbool.h>

#include "base/str.h"

enum bx_scheme {
    BX_SCHEME_OTHER,
    BX_SCHEME_BASIC,
    BX_SCHEME_BEARER,
};

struct bx_challenge {
    enum bx_scheme scheme;
    char *realm, *service, *scope; /* or NULL */
};
void bx_challenge_done(struct bx_challenge *c);
/* The challenge that we answer best: Bearer with a realm before Basic. A header may carry several. OTHER if none is of
 * use, also where the text is no challenge at all. 0 or -ENOMEM. */
int bx_challenge_choose(const struct bx_strv *headers, struct bx_challenge *ret);

#endif
