/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sha256.c: digests by libcrypto's EVP interface.
 *
 * libcrypto's calls can fail only for want of memory or of the algorithm, both at the start; a failure
 * after it would be a wrong use, and makes the digest one that matches nothing.
 */
#include "base/sha256.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#define PREFIX "sha256:"
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define RAW_LEN 32

struct bx_sha256 {
    EVP_MD_CTX *ctx;
    bool broken;
};

struct bx_sha256 *bx_sha256_new(void)
{
    struct bx_sha256 *h = calloc(1, sizeof(*h));
    if (!h) {
        return NULL;
    }
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        bx_sha256_free(h);
        return NULL;
    }
    return h;
}

void bx_sha256_update(struct bx_sha256 *h, const void *data, size_t len)
{
    h->broken = EVP_DigestUpdate(h->ctx, data, len) != 1 || h->broken;
}

void bx_sha256_final(struct bx_sha256 *h, char *ret)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char raw[EVP_MAX_MD_SIZE] = {0};
    if (EVP_DigestFinal_ex(h->ctx, raw, NULL) != 1 || h->broken) {
        memcpy(ret, PREFIX, sizeof(PREFIX)); /* no digits: equal to no digest */
        return;
    }
    h->broken = true;
    memcpy(ret, PREFIX, PREFIX_LEN);
    for (size_t i = 0; i < RAW_LEN; i++) {
        ret[PREFIX_LEN + 2 * i] = hex[raw[i] >> 4];
        ret[PREFIX_LEN + 2 * i + 1] = hex[raw[i] & 15];
    }
    ret[BX_DIGEST_LEN] = '\0';
}

void bx_sha256_free(struct bx_sha256 *h)
{
    if (h) {
        EVP_MD_CTX_free(h->ctx);
        free(h);
    }
}

int bx_sha256_mem(const void *data, size_t len, char *ret)
{
    _cleanup_sha256_ struct bx_sha256 *h = bx_sha256_new();
    if (!h) {
        return -ENOMEM;
    }
    bx_sha256_update(h, data, len);
    bx_sha256_final(h, ret);
    return 0;
}

bool bx_digest_valid(const char *s)
{
    return strncmp(s, PREFIX, PREFIX_LEN) == 0 && strlen(s) == BX_DIGEST_LEN &&
           strspn(s + PREFIX_LEN, "0123456789abcdef") == BX_DIGEST_LEN - PREFIX_LEN;
}
