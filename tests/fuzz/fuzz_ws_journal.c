/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ws_journal.c: a journal and a list of files as a damaged home may hold them. A journal is tried as it is, and
 * with a digest that fits, so that what is behind the digest is reached; what is read is written to the same again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "workspace/txn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void journal(const char *text, size_t len)
{
    struct bx_ws_plan plan;
    char *root = NULL;
    if (bx_ws_journal_parse(text, len, &root, &plan, NULL) < 0) {
        return;
    }
    struct bx_buf again = BX_BUF_INIT(64u << 20);
    struct bx_ws_plan twice;
    char *root_twice = NULL;
    for (size_t i = 0; i < plan.n; i++) {
        if (!bx_ws_path_ok(plan.v[i].path)) {
            abort();
        }
    }
    if (*root != '/' || bx_ws_journal_text(root, &plan, &again) < 0 ||
        bx_ws_journal_parse(bx_buf_str(&again), again.len, &root_twice, &twice, NULL) < 0 ||
        twice.n != plan.n || strcmp(root, root_twice) != 0) {
        abort();
    }
    bx_ws_plan_done(&plan);
    bx_ws_plan_done(&twice);
    bx_buf_done(&again);
    free(root);
    free(root_twice);
}

static void baseline(const char *text, size_t len)
{
    struct bx_ws_baseline b;
    char *copy = malloc(len + 1);
    if (!copy) {
        return;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (bx_ws_baseline_parse(copy, len, &b, NULL) < 0) {
        return;
    }
    for (size_t i = 0; i < b.n; i++) {
        size_t first;
        if (!bx_ws_baseline_find(&b, b.v[i].path) ||
            bx_ws_baseline_below(&b, b.v[i].path, &first) > b.n) {
            abort();
        }
    }
    bx_ws_baseline_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + BX_DIGEST_LEN + 2);
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    journal(text, size);
    baseline(text, size);
    if (bx_sha256_mem(text, size, text + size) == 0) {
        journal(text, size + BX_DIGEST_LEN);
    }
    free(text);
    return 0;
}
