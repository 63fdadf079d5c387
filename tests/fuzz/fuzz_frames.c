/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a guest sends to the network: any bytes. What comes out must be whole frames that the filter
 * allows.
 */
#include <stdlib.h>

#include "net/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bx_net_filter filter = {.guest = 0x0a00020f, .own = {0xc0000202}, .nown = 1};
    struct bx_buf in = BX_BUF_INIT(1 << 20), out = BX_BUF_INIT(1 << 20);
    uint64_t dropped = 0;

    if (bx_buf_append(&in, data, size) == 0) {
        (void)bx_net_filter_stream(&filter, &in, &out, &dropped);
        while (out.len > 0) {
            const uint8_t *p = bx_buf_data(&out);
            size_t len = out.len < 4
                             ? SIZE_MAX
                             : (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];

            if (len > out.len - 4 || !bx_net_filter_allows(&filter, p + 4, len)) {
                abort();
            }
            bx_buf_consume(&out, len + 4);
        }
    }
    bx_buf_done(&in);
    bx_buf_done(&out);
    return 0;
}
