/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_exec_fields.c: any message through the parsers of commands and results; what was parsed is
 * written and parsed again to the same.
 */
#include <stdint.h>
#include <stdlib.h>

#include "box/boxconfig.h"
#include "wire/msg.h"
#include "wire/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void parse_back(const struct bx_buf *b, struct bx_msg *ret)
{
    require(bx_msg_parse(bx_buf_data(b), b->len, ret) == 0);
}

static void try_spec(const struct bx_msg *m)
{
    struct bx_exec_spec a = {0}, b = {0};
    struct bx_msg again;
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(8u << 20);
    if (bx_exec_spec_from_msg(m, &a) < 0) {
        return;
    }
    require(bx_msg_begin(&msg, BX_AG_EXEC) == 0 && bx_exec_spec_to_msg(&a, &msg) == 0);
    parse_back(&msg, &again);
    require(bx_exec_spec_from_msg(&again, &b) == 0);
    require(a.argv.n == b.argv.n && a.env.n == b.env.n && a.flags == b.flags &&
            a.nlimits == b.nlimits && a.files.len == b.files.len && a.timeout_ms == b.timeout_ms && a.detached == b.detached &&
            (a.cwd != NULL) == (b.cwd != NULL) && (a.builtin || a.argv.n > 0));
    bx_exec_spec_done(&a);
    bx_exec_spec_done(&b);
}

static void try_exit(const struct bx_msg *m)
{
    struct bx_exec_exit a = {0}, b = {0};
    struct bx_msg again;
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(64u << 10);
    if (bx_exec_exit_from_msg(m, &a) < 0) {
        return;
    }
    require(a.code >= 0 && a.code <= 255 && a.signal >= 0 && a.signal <= 64);
    require(bx_msg_begin(&msg, BX_AG_EXITED) == 0 && bx_exec_exit_to_msg(&a, &msg) == 0);
    parse_back(&msg, &again);
    require(bx_exec_exit_from_msg(&again, &b) == 0);
    require(a.code == b.code && a.signal == b.signal && a.flags == b.flags &&
            (a.failure != NULL) == (b.failure != NULL));
    bx_exec_exit_done(&a);
    bx_exec_exit_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bx_msg m;
    if (bx_msg_parse(data, size, &m) == 0) {
        try_spec(&m);
        try_exit(&m);
    }
    return 0;
}
