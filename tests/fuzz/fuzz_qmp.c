/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What QEMU says: any bytes, in pieces whose sizes the first byte gives.
 */
#include <stdlib.h>

#include "vmm/qemu/qmp_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bx_qmp_reader r = BX_QMP_READER_INIT;
    size_t piece = size > 0 ? (size_t)data[0] + 1 : 1;
    bool good = true;

    for (size_t at = 1; at < size && good; at += piece) {
        size_t len = piece < size - at ? piece : size - at;
        int n = 1;

        good = bx_qmp_reader_push(&r, data + at, len, NULL) == 0;
        while (good && n == 1) {
            struct bx_qmp_msg msg = {0};

            n = bx_qmp_reader_next(&r, &msg, NULL);
            if (n == 1 && (!msg.json || (msg.kind == BX_QMP_EVENT && !msg.event) ||
                           (msg.kind == BX_QMP_ERROR && !msg.desc))) {
                abort();
            }
            bx_qmp_msg_done(&msg);
            good = n >= 0;
        }
    }
    bx_qmp_reader_done(&r);
    return 0;
}
