/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_reference.c: any text as an image name. What is taken reads the same again in both its forms, and holds nothing
 * that a path, URL or terminal could stumble over.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/str.h"
#include "oci/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* The full form of what text means. */
static char *normal_form(const char *text)
{
    struct bx_reference r = {0};
    char *full;

    require(bx_reference_parse(text, &r, NULL) == 0);
    full = bx_reference_full(&r);
    bx_reference_done(&r);
    return full;
}

static void check(const struct bx_reference *r)
{
    _cleanup_free_ char *full = bx_reference_full(r), *brief = bx_reference_short(r);
    _cleanup_free_ char *full2 = normal_form(full), *brief2 = normal_form(brief);

    require(bx_streq(full, full2) && bx_streq(full, brief2));
    require(r->tag || r->digest);
    for (const char *p = full; *p; p++) {
        require((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                strchr("0123456789._-/:@[]", *p));
    }
    require(!strstr(r->path, "..") && r->path[0] != '/' && !strstr(r->path, "//"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *text = strndup((const char *)data, size);
    struct bx_reference r = {0};

    if (text && bx_reference_parse(text, &r, NULL) == 0) {
        check(&r);
        bx_reference_done(&r);
    }
    return 0;
}
