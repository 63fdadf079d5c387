/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_buf.c: the bounded buffer.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/str.h"
#include "harness.h"

TEST(an_empty_buffer_is_an_empty_string)
{
    struct bx_buf b = BX_BUF_INIT(10);
    ASSERT_STREQ(bx_buf_str(&b), "");
    bx_buf_consume(&b, 5);
    bx_buf_clear(&b);
    ASSERT_EQ(bx_buf_append(&b, NULL, 0), 0);
    ASSERT_EQ(bx_buf_appendf(&b, "%s", ""), 0);
    ASSERT_EQ(b.len, 0);
    bx_buf_done(&b);
    bx_buf_done(&b);
}

TEST(text_is_appended_and_ends_with_nul)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(100);
    ASSERT_EQ(bx_buf_appends(&b, "abc"), 0);
    ASSERT_EQ(bx_buf_appendf(&b, "-%d-%s", 42, "x"), 0);
    ASSERT_EQ(bx_buf_append(&b, "yz", 2), 0);
    ASSERT_STREQ(bx_buf_str(&b), "abc-42-xyz");
    bx_buf_consume(&b, 4);
    ASSERT_STREQ(bx_buf_str(&b), "42-xyz");
    bx_buf_consume(&b, 1000);
    ASSERT_STREQ(bx_buf_str(&b), "");
    ASSERT_EQ(b.len, 0);
}

TEST(the_maximum_holds_and_nothing_changes_over_it)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(5);
    ASSERT_EQ(bx_buf_appends(&b, "abc"), 0);
    ASSERT_EQ(bx_buf_appends(&b, "def"), -ENOBUFS);
    ASSERT_EQ(bx_buf_appendf(&b, "%d", 100), -ENOBUFS);
    ASSERT_STREQ(bx_buf_str(&b), "abc");
    errno = 0;
    ASSERT_NULL(bx_buf_reserve(&b, SIZE_MAX));
    ASSERT_EQ(errno, ENOBUFS);
    ASSERT_EQ(bx_buf_appends(&b, "de"), 0);
    ASSERT_EQ(bx_buf_append(&b, "f", 1), -ENOBUFS);
    bx_buf_consume(&b, 1);
    ASSERT_EQ(bx_buf_append(&b, "f", 1), 0);
    ASSERT_STREQ(bx_buf_str(&b), "bcdef");
    _cleanup_buf_ struct bx_buf none = BX_BUF_INIT(0);
    ASSERT_EQ(bx_buf_append(&none, "x", 1), -ENOBUFS);
    _cleanup_buf_ struct bx_buf all = BX_BUF_INIT(SIZE_MAX);
    ASSERT_EQ(bx_buf_append(&all, "x", 1), 0);
    ASSERT_NULL(bx_buf_reserve(&all, SIZE_MAX - 1));
    ASSERT_STREQ(bx_buf_str(&all), "x");
}

/* A queue of bytes must come out as it went in, whatever the sizes of the pieces. */
TEST(a_queue_keeps_its_order)
{
    enum { MAX = 1000 };
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(MAX);
    unsigned in = 0, out = 0, seed = 1;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1103515245u + 12345u;
        size_t n = (seed >> 16) % 200;
        if (seed & 0x80000000u) {
            uint8_t *p = bx_buf_reserve(&b, n);
            if (!p) {
                ASSERT_GT(b.len + n, MAX);
                continue;
            }
            for (size_t k = 0; k < n; k++) {
                p[k] = (uint8_t)(in++ % 251);
            }
            bx_buf_commit(&b, n);
        } else {
            n = n > b.len ? b.len : n;
            for (size_t k = 0; k < n; k++) {
                ASSERT_EQ(bx_buf_data(&b)[k], out++ % 251);
            }
            bx_buf_consume(&b, n);
        }
        ASSERT_LE(b.cap, 2 * MAX + 1);
        ASSERT_EQ(bx_buf_data(&b)[b.len], 0);
    }
    ASSERT_GT(out, 100000);
}

TEST(a_reservation_may_be_used_in_part)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(100);
    char *p = bx_buf_reserve(&b, 50);
    ASSERT_NOT_NULL(p);
    memset(p, 'x', 50);
    bx_buf_commit(&b, 3);
    ASSERT_STREQ(bx_buf_str(&b), "xxx");
    ASSERT_NOT_NULL(bx_buf_reserve(&b, 97));
    bx_buf_commit(&b, 0);
    ASSERT_STREQ(bx_buf_str(&b), "xxx");
}

TEST(stealing_empties)
{
    struct bx_buf b = BX_BUF_INIT(100);
    size_t len = 7;
    char *s = bx_buf_steal(&b, &len);
    ASSERT_STREQ(s, "");
    ASSERT_EQ(len, 0);
    free(s);
    ASSERT_EQ(bx_buf_appends(&b, "hello"), 0);
    bx_buf_consume(&b, 1);
    s = bx_buf_steal(&b, &len);
    ASSERT_STREQ(s, "ello");
    ASSERT_EQ(len, 4);
    free(s);
    ASSERT_EQ(b.max, 100);
    ASSERT_EQ(bx_buf_appends(&b, "again"), 0);
    s = bx_buf_steal(&b, NULL);
    ASSERT_STREQ(s, "again");
    free(s);
}

TEST(a_tail_keeps_the_last_bytes)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(5);
    ASSERT_EQ(bx_buf_append_tail(&b, "abc", 3), 0);
    ASSERT_EQ(bx_buf_append_tail(&b, "def", 3), 0);
    ASSERT_STREQ(bx_buf_str(&b), "bcdef");
    ASSERT_EQ(bx_buf_append_tail(&b, "0123456789", 10), 0);
    ASSERT_STREQ(bx_buf_str(&b), "56789");
    ASSERT_EQ(bx_buf_append_tail(&b, "", 0), 0);
    ASSERT_STREQ(bx_buf_str(&b), "56789");
}

TEST(every_allocation_may_fail)
{
    TORTURE
    {
        _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
        size_t len = 0;
        int r = 0;
        for (int i = 0; i < 50 && r == 0; i++) {
            r = bx_buf_appendf(&b, "%08d", i);
            len += r == 0 ? 8 : 0;
        }
        ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 0);
        ASSERT_EQ(b.len, len);
        ASSERT_EQ(strlen(bx_buf_str(&b)), len);
    }
    TORTURE
    {
        _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(100);
        int r = bx_buf_appends(&b, "abc");
        bx_buf_consume(&b, 1);
        _cleanup_free_ char *s = r == 0 ? bx_buf_steal(&b, NULL) : NULL;
        ASSERT_EQ(s == NULL, allocation_failed());
        ASSERT(s || r < 0 || bx_streq(bx_buf_str(&b), "bc"));
    }
}
