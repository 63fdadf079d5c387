/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mcp_text.c: control sequences, base64, scripts that carry files.
 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "mcp/mcp.h"

TEST(control_sequences_go_text_stays)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain\ttext\n", "plain\ttext\n"},
        {"\033[1;31mred\033[0m", "red"},
        {"\033]0;title\007x\033]8;;http://a\033\\link", "xlink"},
        {"10%\r20%\r\n", "10%\n20%\n"},
        {"a\bb\001c\177", "abc"},
        {"\033(Bx\0337y", "xy"},
        {"\033", ""}, {"\033[", ""}, {"\033[12", ""}, {"\033]0;never ends", ""},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        _cleanup_free_ char *s = strdup(cases[i].in);
        mcp_strip_controls(s);
        ASSERT_STREQ(s, cases[i].out);
    }
}

/* The vectors of RFC 4648, section 10. */
TEST(base64_both_ways)
{
    static const char *const vectors[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"},
                                             {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < BX_ARRAY_SIZE(vectors); i++) {
        _cleanup_free_ char *text = mcp_base64(vectors[i][0], strlen(vectors[i][0])), *back = NULL;
        size_t len = 99;
        ASSERT_STREQ(text, vectors[i][1]);
        ASSERT_EQ(mcp_base64_decode(text, &back, &len), 0);
        ASSERT_EQ(len, strlen(vectors[i][0]));
        ASSERT_STREQ(back, vectors[i][0]);
    }
}

TEST(what_is_not_base64_is_refused)
{
    static const char *const bad[] = {"a", "ab", "abc", "a===", "====", "ab=c", "a bc", "ab\ncd", "\xff\xff\xff\xff", "-_-_"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        char *out = NULL;
        size_t len;
        ASSERT_EQ(mcp_base64_decode(bad[i], &out, &len), -1);
    }
}

TEST(a_script_quotes_names)
{
    struct mcp_file file = {.path = "a'b $(c)", .data = "x", .len = 1};
    _cleanup_free_ char *script = mcp_put_script(&file, 1);
    ASSERT_CONTAINS(script, "p='a'\\''b $(c)'\n");
    ASSERT_CONTAINS(script, "\neA==\nEND\n");
}

TEST(signals_have_names_and_numbers)
{
    ASSERT_EQ(mcp_signal_number("KILL"), 9);
    ASSERT_EQ(mcp_signal_number("sigterm"), 15);
    ASSERT_EQ(mcp_signal_number("x"), 0);
    ASSERT_EQ(mcp_signal_number(""), 0);
    ASSERT_STREQ(mcp_signal_name(11), "SIGSEGV");
}

TEST(languages_are_found_by_all_their_names)
{
    struct mcp_languages *all;
    ASSERT_EQ(mcp_languages_new(&all), 0);
    ASSERT_STREQ(mcp_languages_find(all, "Python3")->extension, "py");
    ASSERT_STREQ(mcp_languages_find(all, "c++")->extension, "cpp");
    ASSERT_STREQ(mcp_languages_find(all, "golang")->names[0], "go");
    ASSERT_NULL(mcp_languages_find(all, "klingon"));
    ASSERT_NULL(mcp_languages_find(all, ""));
    mcp_languages_free(all);
}

TEST(languages_are_changed_and_added)
{
    static const struct {
        const char *key, *value, *wrong;
    } bad[] = {
        {"comand", "x", "unknown key comand (did you mean command)"}, {"x", "y", "unknown key x (file, command or images)"},
        {"file", "code.rb", "file: not main.EXT"}, {"file", "main.", "file: not main.EXT"}, {"file", "main.a/b", "file: not"},
        {"command", "", "command: empty"}, {"command", " x", "command: empty"}, {"images", "", "images: none"},
        {"images", "a,b,c,d", "images: more than 3"},
    };
    struct mcp_languages *all;
    const struct mcp_language *l;
    ASSERT_EQ(mcp_languages_new(&all), 0);
    ASSERT_NULL(mcp_languages_set(all, "rb", "command", "ruby3.3 -w"));
    ASSERT_NULL(mcp_languages_set(all, "rb", "images", "my/ruby:1,ruby:"));
    l = mcp_languages_find(all, "ruby");
    ASSERT_STREQ(l->tools, "ruby3.3");
    ASSERT_STREQ(l->how, "exec \"$t\" -w \"$file\"");
    ASSERT_STREQ(l->images[0], "my/ruby:1");
    ASSERT_STREQ(l->images[1], "ruby:");
    ASSERT_NULL(l->images[2]);
    ASSERT_NULL(mcp_languages_set(all, "zig", "command", "zig build-exe -femit-bin=$out $file"));
    ASSERT_STREQ(mcp_languages_find(all, "zig")->how, "\"$t\" build-exe -femit-bin=$out $file");
    _cleanup_free_ char *wrong = mcp_languages_wrong(all);
    ASSERT_STREQ(wrong, "language zig needs file and command");
    ASSERT_NULL(mcp_languages_set(all, "zig", "file", "main.zig"));
    ASSERT_NULL(mcp_languages_wrong(all));
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        _cleanup_free_ char *why = mcp_languages_set(all, "perl", bad[i].key, bad[i].value);
        ASSERT_CONTAINS(why, bad[i].wrong);
    }
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof(name), "l%d", i);
        free(mcp_languages_set(all, name, "command", "x"));
    }
    _cleanup_free_ char *many = mcp_languages_set(all, "last", "command", "x");
    ASSERT_CONTAINS(many, "more than 48 languages");
    mcp_languages_free(all);
}

TEST(the_word_that_was_meant)
{
    static const char *const words[] = {"max-timeout", "image", NULL};
    ASSERT_STREQ(mcp_nearest("max_timout", words), "max-timeout");
    ASSERT_STREQ(mcp_nearest("imgae", words), "image");
    ASSERT_NULL(mcp_nearest("wibble", words));
}
