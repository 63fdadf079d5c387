/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_text.c: any bytes through the escaping for terminals and the repair for JSON. The escaped form
 * is good UTF-8 without controls, within its maximum, and stays the same when escaped again.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_escape(const uint8_t *data, size_t size, size_t max)
{
    _cleanup_free_ char *e = bx_escape(data, size, max);
    if (!e || strlen(e) > max || !bx_utf8_valid(e, strlen(e))) {
        abort();
    }
    for (const char *p = e; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            abort();
        }
    }
    _cleanup_free_ char *twice = bx_escape(e, strlen(e), max);
    if (!twice || !bx_streq(e, twice)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_escape(data, size, 4 * size);
    check_escape(data, size, size / 2);
    check_escape(data, size, 7);
    check_escape(data, size, 0);
    _cleanup_json_ json_t *j = bx_json_bytes(data, size);
    if (!j || !bx_utf8_valid(json_string_value(j), json_string_length(j))) {
        abort();
    }
    if (bx_utf8_valid((const char *)data, size) && json_string_length(j) != size) {
        abort();
    }
    return 0;
}
