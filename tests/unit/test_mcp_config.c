/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mcp_config.c: config.toml, and what the audit log masks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "mcp/mcp.h"

/* "section.key=value;" of all entries. */
static char *on_entry(void *data, unsigned line, const char *section, const char *key, const char *value)
{
    char *all = data;
    (void)line;
    if (strcmp(key, "refused") == 0) {
        return strdup("not that");
    }
    snprintf(all + strlen(all), 4000 - strlen(all), "%s.%s=%s;", section, key, value);
    return NULL;
}

static char *parse(const char *text, char *all)
{
    all[0] = '\0';
    return mcp_config_parse(text, strlen(text), on_entry, all);
}

TEST(entries_of_all_kinds)
{
    char all[4000];
    char *wrong = parse("# comment\r\ncpus = 2 # two\n\nmemory=1_024\n[mcp]\nimage = \"a \\\"b\\\"\\n\"\nlit = 'c:\\d'\n"
                        "on = true\n list = [ \"a\" , 'b', 3 ]\nempty = []\n[other.table]\nx = ''",
                        all);
    ASSERT_NULL(wrong);
    ASSERT_STREQ(all, ".cpus=2;.memory=1024;mcp.image=a \"b\"\n;mcp.lit=c:\\d;mcp.on=true;mcp.list=a,b,3;mcp.empty=;"
                      "other.table.x=;");
}

TEST(what_is_beyond_it_is_refused_with_its_line)
{
    static const char *const bad[] = {
        "key", "key =", "= 1", "key = word", "key = 1.5", "key = -1", "key = \"open", "key = 'open", "key = \"\\q\"",
        "key = \"a\" b", "key = [1", "key = [1 2]", "key = [1,,2]", "[", "[]", "[a", "[a]b", "[a.]", "[[a]]", "key = \"\\",
        "k\xc3\xa9y = 1",
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        char all[4000], text[100];
        snprintf(text, sizeof(text), "ok = 1\n%s\n", bad[i]);
        _cleanup_free_ char *wrong = parse(text, all);
        ASSERT_CONTAINS(wrong, "line 2: not ");
    }
}

TEST(a_refused_entry_ends_the_parse)
{
    char all[4000];
    _cleanup_free_ char *wrong = parse("a = 1\nrefused = 2\nb = 3\n", all);
    ASSERT_STREQ(wrong, "line 2: not that");
    ASSERT_STREQ(all, ".a=1;");
}

TEST(secrets_are_masked)
{
    static const char *const cases[][2] = {
        {"echo hello", "echo hello"},
        {"TOKEN=abc123 make", "TOKEN=*** make"},
        {"curl -H 'Authorization: Bearer abc.def' x", "curl -H 'Authorization: Bearer ***' x"},
        {"mysql --password=\"pw\" db", "mysql --password=\"***\" db"},
        {"tokens", "tokens"},
        {"password", "password"},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        _cleanup_free_ char *masked = mcp_mask(cases[i][0]);
        ASSERT_STREQ(masked, cases[i][1]);
    }
}
