/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sha256.h: the one place that knows libcrypto. Digests are written "sha256:" and 64 lower-case hex
 * digits (OCI image specification, "Digests").
 */
#ifndef BX_BASE_SHA256_H
#define BX_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

#define BX_DIGEST_LEN 71 /* without NUL */

struct bx_sha256;
struct bx_sha256 *bx_sha256_new(void); /* NULL when out of memory */
void bx_sha256_update(struct bx_sha256 *h, const void *data, size_t len);
/* Ends it; ret has BX_DIGEST_LEN + 1 bytes. */
void bx_sha256_final(struct bx_sha256 *h, char *ret);
void bx_sha256_free(struct bx_sha256 *h);
int bx_sha256_mem(const void *data, size_t len, char *ret); /* 0 or -ENOMEM */
bool bx_digest_valid(const char *s);
BX_DEFINE_CLEANUP(struct bx_sha256 *, bx_sha256_free, bx_cleanup_sha256);
#define _cleanup_sha256_ _cleanup_(bx_cleanup_sha256)

#endif
