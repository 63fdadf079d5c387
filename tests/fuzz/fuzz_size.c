/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_size.c: any text as a number and as a size. A plain number means the same in both.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *s = strndup((const char *)data, size);
    if (!s) {
        return 0;
    }
    uint64_t number = 1, bytes = 2;
    int rn = bx_parse_u64(s, UINT64_MAX, &number);
    int rs = bx_parse_size(s, &bytes);
    if (rn == 0 && (rs != 0 || number != bytes)) {
        abort();
    }
    if (rs == 0) {
        char text[16];
        if (strlen(bx_format_size(bytes, text, sizeof(text))) >= sizeof(text) - 1) {
            abort();
        }
    }
    return 0;
}
