/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_misc.c: digests, random bytes, clocks, log lines, cleanup helpers.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "harness.h"

/* FIPS 180-4's examples. */
TEST(digests_are_those_of_the_standard)
{
    char d[BX_DIGEST_LEN + 1];
    ASSERT_EQ(bx_sha256_mem("abc", 3, d), 0);
    ASSERT_STREQ(d, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ASSERT_EQ(bx_sha256_mem(NULL, 0, d), 0);
    ASSERT_STREQ(d, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ASSERT(bx_digest_valid(d));
    const char *text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    _cleanup_sha256_ struct bx_sha256 *h = bx_sha256_new();
    for (const char *p = text; *p; p++) {
        bx_sha256_update(h, p, 1);
    }
    bx_sha256_final(h, d);
    ASSERT_STREQ(d, "sha256:248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    bx_sha256_final(h, d); /* misuse: no digest equals what comes now */
    ASSERT(!bx_digest_valid(d));
    bx_sha256_free(NULL);
}

TEST(digests_have_one_form)
{
    char d[100] = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    ASSERT(bx_digest_valid(d));
    d[70] = 'D';
    ASSERT(!bx_digest_valid(d));
    d[70] = 'g';
    ASSERT(!bx_digest_valid(d));
    d[70] = '\0';
    ASSERT(!bx_digest_valid(d));
    memcpy(d + 70, "aa", 3);
    ASSERT(!bx_digest_valid(d));
    ASSERT(!bx_digest_valid(""));
    ASSERT(!bx_digest_valid("sha256:"));
    ASSERT(!bx_digest_valid("../../etc/passwd"));
    ASSERT(!bx_digest_valid(
        "sha512:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
}

TEST(a_digest_survives_lack_of_memory)
{
    TORTURE
    {
        char d[BX_DIGEST_LEN + 1] = "";
        int r = bx_sha256_mem("abc", 3, d);
        ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 0);
        ASSERT_EQ(bx_digest_valid(d), r == 0);
    }
}

TEST(random_bytes_differ_and_stay_in_bounds)
{
    uint8_t a[64] = {0}, b[64] = {0}, seen = 0;
    bx_random(a, 63);
    bx_random(b, 63);
    ASSERT(memcmp(a, b, 63) != 0);
    ASSERT_EQ(a[63], 0);
    for (int i = 0; i < 63; i++) {
        seen |= a[i];
    }
    ASSERT_EQ(seen, 0xff);
    bx_random(a, 0);
    char hex[100];
    static const size_t lengths[] = {0, 1, 31, 32, 33, 64, 90};
    for (size_t i = 0; i < BX_ARRAY_SIZE(lengths); i++) {
        memset(hex, 'Z', sizeof(hex));
        bx_random_hex(hex, lengths[i]);
        ASSERT_EQ(strlen(hex), lengths[i]);
        ASSERT_EQ(strspn(hex, "0123456789abcdef"), lengths[i]);
        ASSERT_EQ(hex[lengths[i] + 1], 'Z');
    }
}

TEST(deadlines_round_up_and_do_not_wrap)
{
    ASSERT(bx_deadline_ms(-1) == BX_NEVER);
    ASSERT(bx_deadline_ms(INT64_MAX) == BX_NEVER);
    ASSERT_EQ(bx_deadline_left_ms(BX_NEVER), -1);
    ASSERT_EQ(bx_deadline_left_ms(0), 0);
    ASSERT_EQ(bx_deadline_left_ms(bx_now_mono()), 0);
    int left = bx_deadline_left_ms(bx_deadline_ms(100000));
    ASSERT(left > 90000 && left <= 100000);
    ASSERT_EQ(bx_deadline_left_ms(bx_now_mono() + 400 * BX_SEC - 1), 400000);
    ASSERT_EQ(bx_deadline_left_ms(BX_NEVER - 1), INT_MAX);
    uint64_t a = bx_now_mono(), b = bx_now_mono();
    ASSERT_LE(a, b);
    ASSERT_GT(bx_now_real(), UINT64_C(1700000000) * BX_SEC);
}

TEST(times_are_written_as_rfc_3339)
{
    char buf[32];
    ASSERT_STREQ(bx_format_rfc3339(0, buf, sizeof(buf)), "1970-01-01T00:00:00Z");
    ASSERT_STREQ(bx_format_rfc3339(1796054400, buf, sizeof(buf)), "2026-11-30T16:00:00Z");
    ASSERT_STREQ(bx_format_rfc3339(-1, buf, sizeof(buf)), "1969-12-31T23:59:59Z");
    ASSERT_STREQ(bx_format_rfc3339(INT64_MAX, buf, sizeof(buf)), "0000-00-00T00:00:00Z");
    ASSERT_STREQ(bx_format_rfc3339(INT64_MIN, buf, sizeof(buf)), "0000-00-00T00:00:00Z");
}

TEST(ages_read_as_dockers)
{
    static const struct {
        int64_t age;
        const char *text;
    } cases[] = {
        {-5, "Less than a second ago"},
        {0, "Less than a second ago"},
        {1, "1 second ago"},
        {59, "59 seconds ago"},
        {60, "About a minute ago"},
        {119, "About a minute ago"},
        {180, "3 minutes ago"},
        {3600, "About an hour ago"},
        {7200, "2 hours ago"},
        {172799, "47 hours ago"},
        {172800, "2 days ago"},
        {14 * 86400, "2 weeks ago"},
        {60 * 86400, "2 months ago"},
        {729 * 86400, "24 months ago"},
        {730 * 86400, "2 years ago"},
    };
    char buf[64];
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        int64_t now = 1800000000;
        ASSERT_STREQ(bx_format_ago(now - cases[i].age, now, buf, 32), cases[i].text);
    }
    ASSERT_CONTAINS(bx_format_ago(INT64_MIN, INT64_MAX, buf, sizeof(buf)), "years ago");
    ASSERT_STREQ(bx_format_ago(INT64_MAX, INT64_MIN, buf, 32), "Less than a second ago");
}

struct line {
    int calls;
    int level;
    char area[16];
    char text[4096];
};

static void keep_line(void *data, int level, const char *area, const char *message)
{
    struct line *l = data;
    l->calls++;
    l->level = level;
    snprintf(l->area, sizeof(l->area), "%s", area);
    snprintf(l->text, sizeof(l->text), "%s", message);
}

TEST(a_log_passes_what_its_level_allows)
{
    struct line l = {0};
    struct bx_log log = {.fn = keep_line, .data = &l, .level = BOXLITE_LOG_INFO};
    bx_debug(&log, "net", "not %d", 1);
    ASSERT_EQ(l.calls, 0);
    bx_warn(&log, "net", "port %d", 80);
    ASSERT_EQ(l.calls, 1);
    ASSERT_EQ(l.level, BOXLITE_LOG_WARN);
    ASSERT_STREQ(l.area, "net");
    ASSERT_STREQ(l.text, "port 80");
    char big[5000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    bx_info(&log, "net", "%s", big);
    ASSERT_EQ(strlen(l.text), 2047);
    ASSERT(bx_endswith(l.text, "x..."));
    bx_warn(NULL, "net", "x");
    bx_warn(&(struct bx_log){0}, "net", "x");
}

TEST(stealing_leaves_the_empty_value)
{
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    int kept;
    char *s;
    {
        _cleanup_close_ int a = p[0];
        _cleanup_close_ int b = p[1];
        _cleanup_free_ char *t = strdup("x");
        kept = steal_fd(&a);
        s = steal_ptr(&t);
        ASSERT_EQ(a, -1);
        ASSERT_NULL(t);
        ASSERT_EQ(b, p[1]); /* closed at the end of the block: the harness would see it open */
    }
    ASSERT_STREQ(s, "x");
    free(s);
    bx_close(&kept);
}
