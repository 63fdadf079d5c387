/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mcp_capture.c: what a result shows of an output, however it comes in and whatever it holds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "mcp/mcp.h"

static char *shown(const char *text, size_t len, size_t piece, size_t capture, size_t limit, struct mcp_shown *how)
{
    struct mcp_capture c;
    char *out;
    ASSERT_EQ(mcp_capture_init(&c, capture), 0);
    for (size_t i = 0; i < len; i += piece) {
        mcp_capture_add(&c, text + i, len - i < piece ? len - i : piece);
    }
    ASSERT_EQ(c.total, len);
    out = mcp_capture_text(&c, limit, how);
    ASSERT_NOT_NULL(out);
    mcp_capture_done(&c);
    return out;
}

TEST(short_output_is_shown_whole_however_it_comes)
{
    const char text[] = "one\ntwo \xe2\x82\xac\n";
    for (size_t piece = 1; piece < sizeof(text); piece++) {
        struct mcp_shown how;
        _cleanup_free_ char *out = shown(text, sizeof(text) - 1, piece, 30, 30, &how);
        ASSERT_STREQ(out, text);
        ASSERT(!how.cut && !how.not_utf8);
    }
}

TEST(long_output_keeps_head_and_tail_with_the_true_count)
{
    char text[10000];
    struct mcp_shown how;
    _cleanup_free_ char *out = NULL;
    memset(text, 'x', sizeof(text));
    memcpy(text, "HEAD", 4);
    memcpy(text + sizeof(text) - 4, "TAIL", 4);
    out = shown(text, sizeof(text), 777, 300, 300, &how);
    ASSERT(how.cut);
    ASSERT_EQ(strncmp(out, "HEAD", 4), 0);
    ASSERT_STREQ(out + strlen(out) - 4, "TAIL");
    ASSERT_CONTAINS(out, "[... 9700 of 10000 bytes left out ...]");
}

TEST(a_smaller_limit_than_was_captured_is_kept)
{
    const char text[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    struct mcp_shown how;
    _cleanup_free_ char *out = shown(text, 36, 5, 300, 12, &how);
    ASSERT(how.cut);
    ASSERT_STREQ(out, "0123\n[... 24 of 36 bytes left out ...]\nstuvwxyz");
}

/* No character is cut in two, at any place of the cut. */
TEST(characters_stay_whole)
{
    char text[3000];
    for (size_t i = 0; i < sizeof(text); i += 3) {
        memcpy(text + i, "\xe2\x82\xac", 3);
    }
    for (size_t limit = 30; limit < 60; limit++) {
        struct mcp_shown how;
        _cleanup_free_ char *out = shown(text, sizeof(text), 100, limit, limit, &how);
        ASSERT(how.cut && !how.not_utf8);
        ASSERT_NULL(strstr(out, "\xef\xbf\xbd"));
    }
}

TEST(the_first_error_lines_of_the_middle_are_shown)
{
    _cleanup_free_ char *text = malloc(200000);
    struct mcp_shown how;
    _cleanup_free_ char *out = NULL;
    size_t len = 0;
    ASSERT_NOT_NULL(text);
    for (int i = 0; i < 9000; i++) {
        len += (size_t)sprintf(text + len, i == 4000 ? "main.c:7: ERROR: needle\n" : "all is well %d\n", i);
    }
    for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
        free(out);
        out = shown(text, len, piece, 1200, 1200, &how);
        ASSERT_CONTAINS(out, "main.c:7: ERROR: needle\nall is well 4001\n");
        ASSERT_CONTAINS(out, "all is well 8999\n");
        ASSERT_LT(strlen(out), 1800);
    }
}

TEST(bad_bytes_are_replaced_and_said)
{
    struct mcp_shown how;
    _cleanup_free_ char *out = shown("a\xff\0b\xed\xa0\x80", 7, 7, 30, 30, &how);
    ASSERT(how.not_utf8);
    ASSERT_STREQ(out, "a\xef\xbf\xbd\xef\xbf\xbd" "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(lines_are_counted_with_an_open_last_one)
{
    struct mcp_capture c;
    ASSERT_EQ(mcp_capture_init(&c, 9), 0);
    ASSERT_EQ(mcp_capture_lines(&c), 0);
    mcp_capture_add(&c, "a\nb", 3);
    ASSERT_EQ(mcp_capture_lines(&c), 2);
    mcp_capture_add(&c, "\n", 1);
    ASSERT_EQ(mcp_capture_lines(&c), 2);
    mcp_capture_done(&c);
}
