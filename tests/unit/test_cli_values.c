/* SPDX-License-Identifier: Apache-2.0 */
/* test_cli_values.c: sizes, times, signals: read and shown. */
#include "harness.h"

#include "cli/values.h"

TEST(sizes)
{
    static const struct {
        const char *text;
        int r;
        uint64_t bytes;
    } rows[] = {
        {"0", 0, 0},
        {"1", 0, 1},
        {"12b", 0, 12},
        {"1k", 0, 1024},
        {"512M", 0, 512ull << 20},
        {"512m", 0, 512ull << 20},
        {"512MB", 0, 512ull << 20},
        {"512MiB", 0, 512ull << 20},
        {"2G", 0, 2ull << 30},
        {"3T", 0, 3ull << 40},
        {"18446744073709551615", 0, UINT64_MAX},
        {"16777215T", 0, 16777215ull << 40},
        {"16777216T", -2, 0},
        {"18446744073709551616", -2, 0},
        {"", -1, 0},
        {"M", -1, 0},
        {"-1", -1, 0},
        {" 1", -1, 0},
        {"1 M", -1, 0},
        {"1.5G", -1, 0},
        {"1kk", -1, 0},
        {"1bb", -1, 0},
        {"1P", -1, 0},
        {"0x10", -1, 0},
    };

    for (size_t i = 0; i < CLI_COUNT(rows); i++) {
        uint64_t n = 77;

        ASSERT_EQ(cli_parse_size(rows[i].text, &n), rows[i].r);
        ASSERT_EQ(n, rows[i].r ? 77 : rows[i].bytes);
    }
}

TEST(times)
{
    static const struct {
        const char *text;
        int r;
        uint64_t ms;
    } rows[] = {
        {"0", 0, 0},
        {"5", 0, 5000},
        {"0.5", 0, 500},
        {"1.2345", 0, 1234},
        {"250ms", 0, 250},
        {"90s", 0, 90000},
        {"5m", 0, 300000},
        {"1h30m", 0, 5400000},
        {"1h1m1s1ms", 0, 3661001},
        {"1.5h", 0, 5400000},
        {"", -1, 0},
        {"s", -1, 0},
        {"5x", -1, 0},
        {"5m5", -1, 0},
        {"5m5h", -1, 0},
        {"5m5m", -1, 0},
        {"1.", -1, 0},
        {".5", -1, 0},
        {"-5", -1, 0},
        {"5 s", -1, 0},
        {"5mss", -1, 0},
        {"99999999999999999999", -2, 0},
        {"9999999999999999999h", -2, 0},
    };

    for (size_t i = 0; i < CLI_COUNT(rows); i++) {
        uint64_t ms = 77;

        ASSERT_EQ(cli_parse_time(rows[i].text, &ms), rows[i].r);
        ASSERT_EQ(ms, rows[i].r ? 77 : rows[i].ms);
    }
}

TEST(signals)
{
    ASSERT_EQ(cli_parse_signal("KILL"), 9);
    ASSERT_EQ(cli_parse_signal("SIGTERM"), 15);
    ASSERT_EQ(cli_parse_signal("sigint"), 2);
    ASSERT_EQ(cli_parse_signal("64"), 64);
    ASSERT_EQ(cli_parse_signal("0"), -1);
    ASSERT_EQ(cli_parse_signal("65"), -1);
    ASSERT_EQ(cli_parse_signal("SIG"), -1);
    ASSERT_EQ(cli_parse_signal(""), -1);
    ASSERT_EQ(cli_parse_signal("NOPE"), -1);
}

TEST(sizes_as_text)
{
    char text[CLI_VALUE_TEXT];

    cli_size_text(0, text);
    ASSERT_STREQ(text, "0 B");
    cli_size_text(1023, text);
    ASSERT_STREQ(text, "1.0 KiB");
    cli_size_text(37ull << 20, text);
    ASSERT_STREQ(text, "37 MiB");
    cli_size_text((3ull << 30) / 2, text);
    ASSERT_STREQ(text, "1.5 GiB");
    cli_size_text(UINT64_MAX, text);
    ASSERT_STREQ(text, "16 EiB");
}

TEST(an_exact_size_reads_back)
{
    static const uint64_t sizes[] = {0, 1, 1023, 1024, 1536, 512ull << 20, 10ull << 30, 1ull << 50};
    char text[CLI_VALUE_TEXT];
    uint64_t n;

    for (size_t i = 0; i < CLI_COUNT(sizes); i++) {
        cli_size_exact(sizes[i], text);
        ASSERT_EQ(cli_parse_size(text, &n), 0);
        ASSERT_EQ(n, sizes[i]);
    }
}

TEST(ages)
{
    char text[CLI_VALUE_TEXT];

    cli_age_text(1000, 1000, text);
    ASSERT_STREQ(text, "just now");
    cli_age_text(2000, 1000, text); /* a clock that was set back */
    ASSERT_STREQ(text, "just now");
    cli_age_text(999, 1000, text);
    ASSERT_STREQ(text, "1 second ago");
    cli_age_text(0, 119, text);
    ASSERT_STREQ(text, "1 minute ago");
    cli_age_text(0, 86400 * 3, text);
    ASSERT_STREQ(text, "3 days ago");
    cli_time_text(0, text);
    ASSERT_STREQ(text, "1970-01-01T00:00:00Z");
}
