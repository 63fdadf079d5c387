/* SPDX-License-Identifier: Apache-2.0 */
/* test_cli_output.c: tables as columns and as JSON. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/output.h"

static const struct cli_column columns[] = {
    {"NAME", "name"}, {"SIZE", "size"}, {NULL, "labels"}, {"ONLY", NULL}};

static void fill(struct cli_table *t)
{
    cli_table_init(t, columns, CLI_COUNT(columns));
    cli_cell_text(t, "a");
    cli_cell_size(t, 2048);
    cli_cell_text(t, "x=1");
    cli_cell_text(t, "p");
    cli_cell_text(t, "longer-name");
    cli_cell_size(t, 5);
    cli_cell_text(t, "");
    cli_cell_text(t, "q");
}

static char *as_columns(const struct cli_table *t)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    ASSERT_NOT_NULL(f);
    cli_table_columns(t, f);
    ASSERT_EQ(fclose(f), 0);
    return text;
}

TEST(columns_are_as_wide_as_their_widest)
{
    struct cli_table t;

    fill(&t);
    char *text = as_columns(&t);
    ASSERT_STREQ(text, "NAME          SIZE      ONLY\n"
                       "a             2.0 KiB   p\n"
                       "longer-name   5 B       q\n");
    free(text);
    cli_table_done(&t);
}

TEST(an_empty_table_is_its_head)
{
    struct cli_table t;

    cli_table_init(&t, columns, CLI_COUNT(columns));
    char *text = as_columns(&t), *json = cli_json_rows(&t, false);
    ASSERT_STREQ(text, "NAME   SIZE   ONLY\n");
    ASSERT_STREQ(json, "[]");
    free(text);
    free(json);
    cli_table_done(&t);
}

TEST(control_characters_do_not_reach_the_terminal)
{
    struct cli_table t;

    cli_table_init(&t, columns, 1);
    cli_cell_text(&t, "a\033[2Jb\nc\177");
    char *text = as_columns(&t), *json = cli_json_rows(&t, false);
    ASSERT_STREQ(text, "NAME\na?[2Jb?c?\n");
    ASSERT_CONTAINS(json, "\\u001B[2Jb\\nc"); /* exact, and escaped */
    free(text);
    free(json);
    cli_table_done(&t);
}

TEST(utf8_is_as_wide_as_it_looks)
{
    struct cli_table t;

    cli_table_init(&t, columns, 2);
    cli_cell_text(&t, "h\xc3\xa4user"); /* as wide as 6 letters */
    cli_cell_text(&t, "x");
    cli_cell_text(&t, "sechse");
    cli_cell_text(&t, "y");
    char *text = as_columns(&t);
    ASSERT_CONTAINS(text, "h\xc3\xa4user   x\nsechse   y\n");
    free(text);
    cli_table_done(&t);
}

TEST(json_has_exact_values)
{
    struct cli_table t;

    fill(&t);
    char *json = cli_json_rows(&t, false), *one = cli_json_rows(&t, true);
    ASSERT_CONTAINS(json, "\"size\": 2048,");
    ASSERT_CONTAINS(json, "\"labels\": \"x=1\"");
    ASSERT(!strstr(json, "ONLY"));
    ASSERT_EQ(json[0], '[');
    ASSERT_EQ(one[0], '{');
    free(json);
    free(one);
    cli_table_done(&t);
}

TEST(text_that_is_not_utf8_is_refused_as_json)
{
    struct cli_table t;

    cli_table_init(&t, columns, 1);
    cli_cell_text(&t, "\xff\xfe");
    ASSERT_NULL(cli_json_rows(&t, false));
    cli_table_done(&t);
}

TEST(objects_become_an_array)
{
    char *good[] = {(char *)"{\"a\":1}", (char *)"{}"}, *bad[] = {(char *)"{"};
    char *json = cli_json_array(good, 2);

    ASSERT_CONTAINS(json, "\"a\": 1");
    free(json);
    json = cli_json_array(good, 0);
    ASSERT_STREQ(json, "[]");
    free(json);
    ASSERT_NULL(cli_json_array(bad, 1));
    ASSERT(cli_json_true("{\"tty\":true}", "tty"));
    ASSERT(cli_json_true("{\"rows\":24}", "rows"));
    ASSERT(!cli_json_true("{\"rows\":0}", "rows"));
    ASSERT(!cli_json_true("{}", "rows"));
    ASSERT(!cli_json_true("{\"tty\":false}", "tty"));
    ASSERT(!cli_json_true("nonsense", "tty"));
}
