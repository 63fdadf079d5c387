/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_credentials.c: any bytes as a file of credentials and as the answer of a token server. A helper's name is safe in a
 * path, a token in a header.
 */
#include <stdint.h>
#include <stdlib.h>

#include "oci/credhelper.h"
#include "oci/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const uint8_t *data, size_t size, const char *host, const char *path)
{
    struct bx_credential_source s = {0};

    if (bx_credentials_parse(data, size, "file", host, path, &s, NULL) == 0) {
        if ((s.helper && !bx_credhelper_valid(s.helper)) ||
            !s.credential.user != !s.credential.secret) {
            abort();
        }
        bx_credential_source_done(&s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *token = NULL;

    look(data, size, "docker.io", "library/x");
    look(data, size, "a.b:5000", "n/x");
    if (bx_token_parse(data, size, &token, NULL) == 0) {
        if (!*token || strpbrk(token, " \r\n\t")) {
            abort();
        }
        free(token);
    }
    return 0;
}
