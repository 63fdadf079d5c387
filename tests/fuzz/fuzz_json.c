/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_json.c: any bytes through the JSON parser and all getters; what was parsed is written and
 * parsed again to an equal value.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An error object exactly if the call failed. */
static void check(int r, boxlite_error **err)
{
    if ((r < 0) != (*err != NULL)) {
        abort();
    }
    boxlite_error_free(*err);
    *err = NULL;
}

static void get_everything(const json_t *v, const char *key)
{
    boxlite_error *err = NULL;
    const char *s;
    uint64_t u;
    int64_t i;
    bool b;
    json_t *j;
    _cleanup_strv_ struct bx_strv sv = {.max = 16};
    check(bx_json_str(v, key, true, &s, &err), &err);
    check(bx_json_u64(v, key, false, 1000, &u, &err), &err);
    check(bx_json_i64(v, key, true, &i, &err), &err);
    check(bx_json_bool(v, key, false, &b, &err), &err);
    check(bx_json_array(v, key, true, &j, &err), &err);
    check(bx_json_object(v, key, false, &j, &err), &err);
    check(bx_json_strv(v, key, true, &sv, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    boxlite_error *err = NULL;
    _cleanup_json_ json_t *v = NULL;
    int r = bx_json_parse(data, size, "input", &v, &err);
    check(r, &err);
    if (r < 0) {
        return 0;
    }
    get_everything(v, "a");
    const char *key;
    json_t *member;
    json_object_foreach(v, key, member)
    {
        get_everything(v, key);
    }
    _cleanup_free_ char *text = bx_json_text(v);
    _cleanup_json_ json_t *again = NULL;
    if (!text || bx_json_parse(text, strlen(text), "text", &again, NULL) < 0 ||
        !json_equal(v, again)) {
        abort();
    }
    return 0;
}
