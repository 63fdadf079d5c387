/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_json.c: parsing of hostile JSON, getters that check, making text.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "harness.h"

static json_t *parse(const char *text)
{
    json_t *v = NULL;
    ASSERT_OK(bx_json_parse(text, strlen(text), "test", &v, ERR));
    return v;
}

static void refuse(const char *text, size_t len, const char *why)
{
    json_t *v = NULL;
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_parse(text, len, "config.json", &v, ERR));
    ASSERT_NULL(v);
    ASSERT_CONTAINS(err_message(), "config.json: ");
    ASSERT_CONTAINS(err_message(), why);
}

TEST(bad_json_is_refused_with_its_place)
{
    refuse("", 0, "line 1");
    refuse("{\"a\":1,\n\"b\"}", 12, "line 2");
    refuse("{\"a\":1,\"a\":2}", 13, "duplicate");
    refuse("[1] x", 5, "end of file");
    refuse("[1]\0", 4, "");
    refuse("{\"a\":\"\xff\"}", 9, "unable to decode byte 0xff");
    refuse("[99999999999999999999]", 22, "big");
    refuse("\"a\\u0000b\"", 10, "");
    refuse("[1e999]", 7, "");
    refuse("nul", 3, "");
}

TEST(what_an_error_quotes_is_harmless)
{
    json_t *v = NULL;
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_parse("[a\x1b[31m", 7, "x", &v, ERR));
    ASSERT_NULL(strchr(err_message(), 0x1b));
}

TEST(depth_is_bounded_before_the_parser_sees_it)
{
    char deep[2 * BX_JSON_MAX_DEPTH + 10];
    for (int over = 0; over <= 1; over++) {
        size_t n = BX_JSON_MAX_DEPTH + (size_t)over;
        memset(deep, '[', n);
        memset(deep + n, ']', n);
        json_t *v = NULL;
        int r = bx_json_parse(deep, 2 * n, "x", &v, ERR);
        ASSERT_EQ(r, over ? BOXLITE_E_INTEGRITY : 0);
        json_decref(v);
    }
    size_t many = 1000000;
    _cleanup_free_ char *big = malloc(many);
    memset(big, '[', many);
    refuse(big, many, "nested deeper than 128");
    big[0] = '"'; /* in a string brackets are text */
    big[many - 1] = '"';
    json_t *v = NULL;
    ASSERT_OK(bx_json_parse(big, many, "x", &v, ERR));
    json_decref(v);
    char quoted[600] = "[\"\\\\\\\"";
    memset(quoted + 6, '[', 500);
    memcpy(quoted + 506, "\"]", 3);
    v = parse(quoted);
    json_decref(v);
}

TEST(getters_give_what_is_there)
{
    _cleanup_json_ json_t *o = parse(
        "{\"s\":\"text\",\"u\":7,\"i\":-7,\"t\":true,\"f\":false,\"a\":[1],\"o\":{},\"v\":[\"x\","
        "\"y\"],\"n\":null}");
    const char *s = NULL;
    uint64_t u = 0;
    int64_t i = 0;
    bool b = false;
    json_t *j = NULL;
    ASSERT_OK(bx_json_str(o, "s", false, &s, ERR));
    ASSERT_STREQ(s, "text");
    ASSERT_OK(bx_json_u64(o, "u", false, 7, &u, ERR));
    ASSERT_EQ(u, 7);
    ASSERT_OK(bx_json_i64(o, "i", false, &i, ERR));
    ASSERT_EQ(i, -7);
    ASSERT_OK(bx_json_bool(o, "t", false, &b, ERR));
    ASSERT(b);
    ASSERT_OK(bx_json_bool(o, "f", false, &b, ERR));
    ASSERT(!b);
    ASSERT_OK(bx_json_array(o, "a", false, &j, ERR));
    ASSERT_EQ(json_array_size(j), 1);
    ASSERT_OK(bx_json_object(o, "o", false, &j, ERR));
    ASSERT(json_is_object(j));
    _cleanup_strv_ struct bx_strv sv = {0};
    ASSERT_EQ(bx_strv_add(&sv, "first"), 0);
    ASSERT_OK(bx_json_strv(o, "v", false, &sv, ERR));
    ASSERT_EQ(sv.n, 3);
    ASSERT_STREQ(sv.v[2], "y");
}

TEST(absent_and_null_are_the_same)
{
    _cleanup_json_ json_t *o = parse("{\"n\":null}");
    static const char *const keys[] = {"n", "absent"};
    for (size_t k = 0; k < 2; k++) {
        const char *s = "untouched";
        uint64_t u = 77;
        ASSERT_OK(bx_json_str(o, keys[k], true, &s, ERR));
        ASSERT_OK(bx_json_u64(o, keys[k], true, 100, &u, ERR));
        ASSERT_STREQ(s, "untouched");
        ASSERT_EQ(u, 77);
        ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_str(o, keys[k], false, &s, ERR));
        ASSERT_CONTAINS(err_message(), ": missing");
        ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_u64(o, keys[k], false, 1, &u, ERR));
    }
}

TEST(wrong_types_are_never_converted)
{
    _cleanup_json_ json_t *o =
        parse("{\"x\":[\"a\",1],\"n\":\"5\",\"r\":5.0,\"neg\":-1,\"big\":11}");
    const char *s = NULL;
    uint64_t u = 77;
    int64_t i = 77;
    bool b = true;
    json_t *j = NULL;
    _cleanup_strv_ struct bx_strv sv = {0};
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_str(o, "x", true, &s, ERR));
    ASSERT_STREQ(err_message(), "x: not a string");
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_u64(o, "n", true, 10, &u, ERR));
    ASSERT_STREQ(err_message(), "n: not an integer from 0 to 10");
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_u64(o, "r", true, 10, &u, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_u64(o, "neg", true, UINT64_MAX, &u, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_u64(o, "big", true, 10, &u, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_i64(o, "n", true, &i, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_bool(o, "big", true, &b, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_array(o, "n", true, &j, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_object(o, "x", true, &j, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_strv(o, "x", true, &sv, ERR));
    ASSERT_EQ(sv.n, 0); /* not the half that was good */
    ASSERT_EQ(u, 77);
    ASSERT_EQ(i, 77);
    ASSERT_NULL(s);
    ASSERT_NULL(j);
}

TEST(what_is_no_object_has_no_members)
{
    _cleanup_json_ json_t *list = parse("[1]");
    const char *s;
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_str(list, "k", true, &s, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_str(NULL, "k", true, &s, ERR));
}

TEST(string_lists_are_bounded)
{
    _cleanup_json_ json_t *o = parse("{\"v\":[\"1\",\"2\",\"3\"]}");
    _cleanup_strv_ struct bx_strv sv = {.max = 2};
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_strv(o, "v", false, &sv, ERR));
    ASSERT_CONTAINS(err_message(), "too many");
    ASSERT_EQ(sv.n, 0);
}

TEST(files_are_read_up_to_their_maximum)
{
    json_t *v = NULL;
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "c.json", "{\"a\": 1}", 8, 0600), 0);
    ASSERT_OK(bx_json_read(tmpdir_fd(), "c.json", 8, &v, ERR));
    json_decref(v);
    v = NULL;
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_read(tmpdir_fd(), "c.json", 7, &v, ERR));
    ASSERT_STREQ(err_message(), "c.json: larger than 7 bytes");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_json_read(tmpdir_fd(), "none.json", 7, &v, ERR));
    ASSERT_CONTAINS(err_message(), "reading none.json: ");
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "c.json", "{", 1, 0600), 0);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_read(tmpdir_fd(), "c.json", 7, &v, ERR));
    ASSERT_CONTAINS(err_message(), "c.json: line 1");
    ASSERT_NULL(v);
}

TEST(text_keeps_the_order_of_keys)
{
    _cleanup_json_ json_t *o = json_object();
    ASSERT_EQ(bx_json_set(o, "z", json_integer(1)), 0);
    ASSERT_EQ(bx_json_set(o, "a", json_string("x")), 0);
    _cleanup_free_ char *text = bx_json_text(o), *pretty = bx_json_text_pretty(o);
    ASSERT_STREQ(text, "{\"z\":1,\"a\":\"x\"}");
    ASSERT_STREQ(pretty, "{\n  \"z\": 1,\n  \"a\": \"x\"\n}");
    _cleanup_json_ json_t *plain = json_string("x");
    _cleanup_free_ char *t = bx_json_text(plain);
    ASSERT_STREQ(t, "\"x\"");
}

TEST(setting_takes_the_value_in_any_case)
{
    _cleanup_json_ json_t *o = json_object(), *list = json_array();
    ASSERT_EQ(bx_json_set(o, "k", NULL), -ENOMEM);
    ASSERT_EQ(bx_json_set(o, "\xff", json_integer(1)), -EINVAL);
    ASSERT_EQ(bx_json_set(list, "k", json_integer(1)), -EINVAL);
    ASSERT_EQ(json_object_size(o), 0);
}

TEST(any_bytes_become_a_string)
{
    static const struct {
        const char *in;
        size_t len;
        const char *out;
    } cases[] = {
        {"plain", 5, "\"plain\""},
        {"", 0, "\"\""},
        {"a\xff"
         "b",
         3,
         "\"a\xef\xbf\xbd"
         "b\""},
        {"\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"a\0b", 3, "\"a\\u0000b\""},
        {"\x1b\"\\", 3, "\"\\u001B\\\"\\\\\""},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        _cleanup_json_ json_t *v = bx_json_bytes(cases[i].in, cases[i].len);
        _cleanup_free_ char *text = bx_json_text(v);
        ASSERT_STREQ(text, cases[i].out);
    }
    _cleanup_json_ json_t *none = bx_json_bytes(NULL, 0);
    ASSERT_EQ(json_string_length(none), 0);
}

TEST(vectors_become_lists)
{
    _cleanup_strv_ struct bx_strv sv = {0};
    _cleanup_json_ json_t *empty = bx_json_from_strv(&sv);
    ASSERT_EQ(json_array_size(empty), 0);
    ASSERT_EQ(bx_strv_add(&sv, "a"), 0);
    ASSERT_EQ(bx_strv_add(&sv, "b\xff"), 0);
    _cleanup_json_ json_t *v = bx_json_from_strv(&sv);
    _cleanup_free_ char *text = bx_json_text(v);
    ASSERT_STREQ(text, "[\"a\",\"b\xef\xbf\xbd\"]");
}

TEST(every_allocation_may_fail)
{
    const char *text = "{\"a\":[\"x\",\"y\"],\"b\":{\"c\":\"\xc3\xbc\"},\"d\":1.5}";
    TORTURE
    {
        json_t *v = NULL;
        boxlite_error *err = NULL;
        _cleanup_strv_ struct bx_strv sv = {0};
        int r = bx_json_parse(text, strlen(text), "t", &v, &err);
        r = r ? r : bx_json_strv(v, "a", false, &sv, &err);
        _cleanup_json_ json_t *list = r == 0 ? bx_json_from_strv(&sv) : NULL;
        if (r == 0 && list) {
            (void)bx_json_set(v, "e", bx_json_bytes("\xff", 1));
        }
        ASSERT_EQ(r < 0, err != NULL);
        ASSERT(r == 0 || r == BOXLITE_E_NO_MEMORY);
        ASSERT((r == 0 && list && json_object_get(v, "e")) || allocation_failed());
        boxlite_error_free(err);
        json_decref(v);
    }
}
