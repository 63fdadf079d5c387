/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base64.c: RFC 4648 §4, as credentials files use it.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "oci/credentials.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *bx_base64_encode(const void *data, size_t len)
{
    const uint8_t *in = data;
    char *out, *p;

    if (len > SIZE_MAX / 4 || !(out = p = malloc((len + 2) / 3 * 4 + 1))) {
        return NULL;
    }
    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t v = (uint32_t)in[i] << 16 | (n > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                     (n > 2 ? in[i + 2] : 0);
        for (size_t j = 0; j < 4; j++) {
            *p++ = j <= n ? alphabet[v >> (18 - 6 * j) & 63] : '=';
        }
    }
    *p = '\0';
    return out;
}

char *bx_base64_decode(const char *text, size_t *ret_len)
{
    size_t len = strlen(text), pad = 0, n = 0;
    char *out;

    while (pad < 2 && pad < len && text[len - pad - 1] == '=') {
        pad++;
    }
    if (len % 4 != 0) {
        errno = EINVAL;
        return NULL;
    }
    out = malloc(len / 4 * 3 + 1);
    for (size_t i = 0; out && i < len; i += 4) {
        uint32_t v = 0;
        for (size_t j = 0; j < 4; j++) {
            const char *at = i + j < len - pad ? strchr(alphabet, text[i + j]) : alphabet;
            if (!at || !*at) {
                free(out);
                errno = EINVAL;
                return NULL;
            }
            v = v << 6 | (uint32_t)(at - alphabet);
        }
        for (int shift = 16; shift >= 0; shift -= 8) {
            out[n++] = (char)(v >> shift);
        }
    }
    if (!out) {
        errno = ENOMEM;
        return NULL;
    }
    *ret_len = n - pad;
    out[*ret_len] = '\0';
    return out;
}
