/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_str.c: numbers, sizes, UTF-8, escaping, string vectors.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/str.h"
#include "harness.h"

TEST(ends_and_starts)
{
    ASSERT(bx_endswith("a.tar.gz", ".gz"));
    ASSERT(bx_endswith("x", ""));
    ASSERT(!bx_endswith("z", ".gz"));
    ASSERT(bx_startswith("sha256:ab", "sha256:"));
    ASSERT(!bx_startswith("sha", "sha256:"));
}

TEST(numbers_are_parsed_strictly)
{
    uint64_t v = 77;
    ASSERT_EQ(bx_parse_u64("0", 10, &v), 0);
    ASSERT_EQ(v, 0);
    ASSERT_EQ(bx_parse_u64("18446744073709551615", UINT64_MAX, &v), 0);
    ASSERT(v == UINT64_MAX);
    ASSERT_EQ(bx_parse_u64("007", 10, &v), 0);
    ASSERT_EQ(v, 7);
    static const char *const bad[] = {"",     " 1",  "1 ",  "+1",  "-1",
                                      "0x10", "1e3", "1.0", "one", "99999999999999999999x"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT_EQ(bx_parse_u64(bad[i], UINT64_MAX, &v), -EINVAL);
    }
    ASSERT_EQ(bx_parse_u64("11", 10, &v), -ERANGE);
    ASSERT_EQ(bx_parse_u64("18446744073709551616", UINT64_MAX, &v), -ERANGE);
    ASSERT_EQ(bx_parse_u64("184467440737095516150", UINT64_MAX, &v), -ERANGE);
    ASSERT_EQ(v, 7); /* untouched by failures */
}

TEST(sizes_have_units_of_1024)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1073741824", UINT64_C(1) << 30},
        {"5b", 5},
        {"512k", 512 << 10},
        {"512M", 512 << 20},
        {"2G", UINT64_C(2) << 30},
        {"2GiB", UINT64_C(2) << 30},
        {"2gb", UINT64_C(2) << 30},
        {"1.5G", UINT64_C(3) << 29},
        {"0.5k", 512},
        {"16777215T", UINT64_C(16777215) << 40},
    };
    uint64_t v = 77;
    for (size_t i = 0; i < BX_ARRAY_SIZE(good); i++) {
        ASSERT_EQ(bx_parse_size(good[i].text, &v), 0);
        ASSERT_EQ(v, good[i].bytes);
    }
    static const char *const bad[] = {"",   "k",   "-1",   "1 k", "1kk", "1.5",    "1.",
                                      ".5", "1.k", "1,5G", "G1",  "1e3", "1.5.5k", "1.1234567k"};
    v = 77;
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT_EQ(bx_parse_size(bad[i], &v), -EINVAL);
    }
    ASSERT_EQ(bx_parse_size("16777216T", &v), -ERANGE);
    ASSERT_EQ(bx_parse_size("18446744073709551616", &v), -ERANGE);
    ASSERT_EQ(bx_parse_size("18446744073709551615k", &v), -ERANGE);
    ASSERT_EQ(v, 77);
}

TEST(sizes_are_shown_in_three_digits)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {999, "999 B"},
        {1000, "1 kB"},
        {1500, "1.5 kB"},
        {1234, "1.23 kB"},
        {12345, "12.3 kB"},
        {123456, "123 kB"},
        {999499, "999 kB"},
        {999500, "1 MB"},
        {9995, "10 kB"},
        {99950, "100 kB"},
        {1050000, "1.05 MB"},
        {UINT64_MAX, "18.4 EB"},
        {UINT64_C(1500000000), "1.5 GB"},
    };
    char buf[16];
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        ASSERT_STREQ(bx_format_size(cases[i].bytes, buf, sizeof(buf)), cases[i].text);
    }
}

TEST(utf8_is_checked_as_the_standard_says)
{
    static const char *const good[] = {"",
                                       "abc",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(good); i++) {
        ASSERT(bx_utf8_valid(good[i], strlen(good[i])));
    }
    static const char *const bad[] = {
        "\x80",             /* continuation alone */
        "\xc3",             /* cut */
        "\xc0\x80",         /* overlong */
        "\xe0\x80\x80",     /* overlong */
        "\xf0\x80\x80\x80", /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xf4\x90\x80\x80", /* over U+10FFFF */
        "\xff",
        "\xe2\x28\xa1",
        "a\xe2\x82",
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT(!bx_utf8_valid(bad[i], strlen(bad[i])));
    }
    ASSERT(bx_utf8_valid("a\0b", 3));
}

static void expect_escape(const char *in, size_t len, size_t max, const char *out)
{
    _cleanup_free_ char *e = bx_escape(in, len, max);
    ASSERT_STREQ(e, out);
}

TEST(escaping_makes_text_harmless)
{
    expect_escape("plain", 5, 100, "plain");
    expect_escape("", 0, 100, "");
    expect_escape(NULL, 0, 100, "");
    expect_escape("a\nb\x1b[0m", 7, 100, "a\\x0ab\\x1b[0m");
    expect_escape("a\0b", 3, 100, "a\\x00b");
    expect_escape("gr\xc3\xbc\xc3\x9f", 6, 100, "gr\xc3\xbc\xc3\x9f");
    expect_escape("\xff\xc3", 2, 100, "\\xff\\xc3");
    expect_escape("\xc2\x9b", 2, 100, "\\xc2\\x9b");          /* CSI as one character */
    expect_escape("\xe2\x80\xae", 3, 100, "\\xe2\\x80\\xae"); /* right-to-left override */
}

TEST(escaping_is_cut_at_whole_characters)
{
    expect_escape("abcdefgh", 8, 8, "abcdefgh");
    expect_escape("abcdefgh", 8, 7, "abcd...");
    expect_escape("ab\xc3\xbc\xc3\xbc", 6, 6, "ab\xc3\xbc\xc3\xbc");
    expect_escape("ab\xc3\xbc\xc3\xbc", 6, 5, "ab...");
    expect_escape("\x01\x02", 2, 7, "\\x01...");
    expect_escape("\x01\x02", 2, 6, "...");
    expect_escape("abc", 3, 2, "..");
    expect_escape("abc", 3, 0, "");
}

TEST(escaping_survives_lack_of_memory)
{
    TORTURE
    {
        _cleanup_free_ char *e = bx_escape("a\n", 2, 100);
        ASSERT_EQ(e == NULL, allocation_failed());
    }
}

TEST(vectors_grow_and_end_with_null)
{
    _cleanup_strv_ struct bx_strv sv = {0};
    for (size_t i = 0; i < 100; i++) {
        char s[16];
        snprintf(s, sizeof(s), "%zu", i);
        ASSERT_EQ(bx_strv_add(&sv, s), 0);
        ASSERT_EQ(sv.n, i + 1);
        ASSERT_STREQ(sv.v[i], s);
        ASSERT_NULL(sv.v[i + 1]);
    }
    bx_strv_truncate(&sv, 3);
    ASSERT_EQ(sv.n, 3);
    ASSERT_NULL(sv.v[3]);
    for (size_t i = 3; i < 70; i++) {
        ASSERT_EQ(bx_strv_add(&sv, "again"), 0);
    }
    ASSERT_STREQ(sv.v[2], "2");
    ASSERT_STREQ(sv.v[69], "again");
    bx_strv_done(&sv);
    bx_strv_done(&sv);
    ASSERT_NULL(sv.v);
}

TEST(vectors_are_bounded)
{
    _cleanup_strv_ struct bx_strv sv = {.max = 2};
    ASSERT_EQ(bx_strv_add(&sv, "a"), 0);
    ASSERT_EQ(bx_strv_add(&sv, "b"), 0);
    ASSERT_EQ(bx_strv_add(&sv, "c"), -E2BIG);
    ASSERT_EQ(sv.n, 2);
    _cleanup_strv_ struct bx_strv plain = {0};
    for (int i = 0; i < 4096; i++) {
        ASSERT_EQ(bx_strv_add(&plain, ""), 0);
    }
    ASSERT_EQ(bx_strv_add(&plain, ""), -E2BIG);
}

TEST(vectors_refuse_nul)
{
    _cleanup_strv_ struct bx_strv sv = {0};
    ASSERT_EQ(bx_strv_add_mem(&sv, "a\0b", 3), -EINVAL);
    ASSERT_EQ(sv.n, 0);
    ASSERT_EQ(bx_strv_add_mem(&sv, "abc", 2), 0);
    ASSERT_STREQ(sv.v[0], "ab");
    ASSERT_EQ(bx_strv_add_mem(&sv, NULL, 0), 0);
    ASSERT_STREQ(sv.v[1], "");
}

TEST(environment_names_are_unique)
{
    _cleanup_strv_ struct bx_strv sv = {.max = 2};
    ASSERT_EQ(bx_strv_setenv(&sv, "PATH", "/bin"), 0);
    ASSERT_EQ(bx_strv_setenv(&sv, "PAT", "x"), 0);
    ASSERT_EQ(bx_strv_setenv(&sv, "PATH", "a=b"), 0);
    ASSERT_EQ(sv.n, 2);
    ASSERT_STREQ(sv.v[0], "PATH=a=b");
    ASSERT_STREQ(sv.v[1], "PAT=x");
    ASSERT_EQ(bx_strv_setenv(&sv, "", "x"), -EINVAL);
    ASSERT_EQ(bx_strv_setenv(&sv, "A=B", "x"), -EINVAL);
    ASSERT_EQ(bx_strv_setenv(&sv, "NEW", "x"), -E2BIG);
}

TEST(a_copy_is_whole_or_not_made)
{
    static const char *const three[] = {"1", "2", "3"};
    _cleanup_strv_ struct bx_strv sv = {.max = 3};
    ASSERT_EQ(bx_strv_add(&sv, "0"), 0);
    ASSERT_EQ(bx_strv_copy(&sv, three, 3), -E2BIG);
    ASSERT_EQ(sv.n, 1);
    ASSERT_NULL(sv.v[1]);
    ASSERT_EQ(bx_strv_copy(&sv, three, 2), 0);
    ASSERT_STREQ(sv.v[2], "2");
    TORTURE
    {
        _cleanup_strv_ struct bx_strv t = {0};
        int r = bx_strv_copy(&t, three, 3);
        ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 0);
        ASSERT_EQ(t.n, r == 0 ? 3 : 0);
    }
    TORTURE
    {
        _cleanup_strv_ struct bx_strv t = {0};
        int r = bx_strv_setenv(&t, "A", "b");
        r = r ? r : bx_strv_setenv(&t, "A", "c");
        ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 0);
    }
}

TEST(formatted_strings)
{
    _cleanup_free_ char *s = bx_asprintf("%s-%d", "a", 7);
    ASSERT_STREQ(s, "a-7");
}
