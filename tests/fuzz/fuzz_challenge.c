/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_challenge.c: any text as WWW-Authenticate headers, one a line. What is taken is printable, and a Bearer challenge has
 * a realm.
 */
#include <stdint.h>
#include <stdlib.h>

#include "oci/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *s)
{
    for (; s && *s; s++) {
        if (*s < 0x20 || *s > 0x7e) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *text = strndup((const char *)data, size);
    _cleanup_strv_ struct bx_strv headers = {.max = 8};
    struct bx_challenge c = {0};
    char *save = NULL;

    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        (void)bx_strv_add(&headers, line);
    }
    if (bx_challenge_choose(&headers, &c) == 0) {
        check(c.realm);
        check(c.service);
        check(c.scope);
        if (c.scheme == BX_SCHEME_BEARER && !c.realm) {
            abort();
        }
        bx_challenge_done(&c);
    }
    return 0;
}
