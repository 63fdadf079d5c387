/* SPDX-License-Identifier: Apache-2.0 */
/* test_cli_options.c: the option parser: what users type, and what they mistype. */
#include "harness.h"

#include "cli/options.h"

static struct {
    bool flag, other;
    const char *text, *choice;
    struct cli_list list;
    uint64_t number, size, time;
} v;

static const struct cli_option table[] = {
    {"interactive", 'i', CLI_FLAG, &v.flag, NULL, "h"},
    {"tty", 't', CLI_FLAG, &v.other, NULL, "h"},
    {"name", 'n', CLI_TEXT, &v.text, "NAME", "h"},
    {"network", 0, CLI_CHOICE, &v.choice, "none|user", "h", .choices = "none user"},
    {0},
};
static const struct cli_option more[] = {
    {"env", 'e', CLI_LIST, &v.list, "NAME=VALUE", "h"},
    {"cpus", 0, CLI_NUMBER, &v.number, "N", "h", .min = 1, .max = 64},
    {"memory", 'm', CLI_SIZE, &v.size, "SIZE", "h", .min = 128u << 20, .max = 1ull << 40},
    {"timeout", 0, CLI_TIME, &v.time, "TIME", "h", .max = 3600000},
    {0},
};
static const struct cli_option *const sets[] = {table, more, NULL};

static struct cli_list operands;
static struct cli_problem problem;

#define PARSE(verbatim_, ...)                                                                      \
    ({                                                                                             \
        const char *argv_[] = {__VA_ARGS__};                                                       \
        const struct cli_syntax syntax_ = {sets, verbatim_};                                       \
        memset(&v, 0, sizeof(v));                                                                  \
        cli_list_done(&operands);                                                                  \
        cli_parse(&syntax_, (int)CLI_COUNT(argv_), (char *const *)argv_, &operands, &problem);     \
    })

static void done(void)
{
    cli_list_done(&operands);
    cli_list_done(&v.list);
}

TEST(all_ways_to_write_an_option)
{
    ASSERT_EQ(PARSE(false, "-it", "--name", "a", "op", "-e", "A=1", "-eB=2", "-e=C=3", "--env=D=4"),
              0);
    ASSERT(v.flag && v.other);
    ASSERT_STREQ(v.text, "a");
    ASSERT_EQ(v.list.count, 4);
    ASSERT_STREQ(v.list.items[1], "B=2");
    ASSERT_STREQ(v.list.items[2], "C=3");
    ASSERT_STREQ(v.list.items[3], "D=4");
    ASSERT_EQ(operands.count, 1);
    ASSERT_STREQ(operands.items[0], "op");
    done();
}

TEST(clustered_letters_may_end_with_a_value)
{
    ASSERT_EQ(PARSE(false, "-itn", "box"), 0);
    ASSERT_STREQ(v.text, "box");
    ASSERT_EQ(PARSE(false, "-itnbox"), 0);
    ASSERT(v.flag && v.other);
    ASSERT_STREQ(v.text, "box");
    done();
}

TEST(a_switch_takes_true_and_false_only)
{
    ASSERT_EQ(PARSE(false, "--interactive=true", "--tty=false"), 0);
    ASSERT(v.flag && !v.other);
    ASSERT_EQ(PARSE(false, "-it", "-i=false"), 0);
    ASSERT(!v.flag && v.other);
    ASSERT_EQ(PARSE(false, "--tty=yes"), -1);
    ASSERT_CONTAINS(problem.message, "--tty is a switch");
    done();
}

TEST(a_value_may_look_like_an_option)
{
    ASSERT_EQ(PARSE(false, "--name", "--tty", "-n-"), 0);
    ASSERT_STREQ(v.text, "-");
    ASSERT(!v.other);
    done();
}

TEST(verbatim_ends_at_the_first_operand)
{
    ASSERT_EQ(PARSE(true, "-i", "image", "sh", "-t", "--name", "--", "x"), 0);
    ASSERT(v.flag && !v.other);
    ASSERT_EQ(operands.count, 6);
    ASSERT_STREQ(operands.items[2], "-t");
    ASSERT_STREQ(operands.items[4], "--");
    done();
}

TEST(verbatim_forgives_dashes_behind_the_first_operand)
{
    ASSERT_EQ(PARSE(true, "box", "--", "ls", "-i"), 0);
    ASSERT_EQ(operands.count, 3);
    ASSERT_STREQ(operands.items[1], "ls");
    done();
}

TEST(double_dash_ends_options)
{
    ASSERT_EQ(PARSE(false, "--", "-i", "--"), 0);
    ASSERT_EQ(operands.count, 2);
    ASSERT_STREQ(operands.items[0], "-i");
    ASSERT_EQ(PARSE(false, "-", "-i"), 0);
    ASSERT_STREQ(operands.items[0], "-");
    ASSERT(v.flag);
    done();
}

TEST(a_mistyped_option_is_told_with_the_nearest)
{
    ASSERT_EQ(PARSE(false, "--nmae", "x"), -1);
    ASSERT_STREQ(problem.message, "unknown option --nmae");
    ASSERT_STREQ(problem.hint, "did you mean --name?");
    ASSERT_EQ(PARSE(false, "--memroy=1G"), -1);
    ASSERT_STREQ(problem.hint, "did you mean --memory?");
    ASSERT_EQ(PARSE(false, "--quite-another"), -1);
    ASSERT_STREQ(problem.hint, "");
    ASSERT_EQ(PARSE(false, "-ix"), -1);
    ASSERT_STREQ(problem.message, "unknown option -x");
    done();
}

TEST(an_abbreviation_is_no_option)
{
    ASSERT_EQ(PARSE(false, "--interactiv"), -1);
    ASSERT_EQ(PARSE(false, "--interactivee"), -1);
    done();
}

TEST(a_missing_value_is_told)
{
    ASSERT_EQ(PARSE(false, "--name"), -1);
    ASSERT_STREQ(problem.message, "--name needs a value: NAME");
    ASSERT_EQ(PARSE(false, "-ie"), -1);
    ASSERT_STREQ(problem.message, "-e needs a value: NAME=VALUE");
    done();
}

TEST(numbers_are_checked)
{
    ASSERT_EQ(PARSE(false, "--cpus", "64"), 0);
    ASSERT_EQ(v.number, 64);
    ASSERT_EQ(PARSE(false, "--cpus=0"), -1);
    ASSERT_CONTAINS(problem.message, "from 1 to 64");
    ASSERT_EQ(PARSE(false, "--cpus=65"), -1);
    ASSERT_EQ(PARSE(false, "--cpus=1.5"), -1);
    ASSERT_EQ(PARSE(false, "--cpus=99999999999999999999"), -1);
    ASSERT_EQ(PARSE(false, "--cpus="), -1);
    ASSERT_EQ(PARSE(false, "--cpus=-1"), -1);
    done();
}

TEST(sizes_are_checked_and_units_suggested)
{
    ASSERT_EQ(PARSE(false, "-m", "512M"), 0);
    ASSERT_EQ(v.size, 512u << 20);
    ASSERT_EQ(PARSE(false, "-m512"), -1);
    ASSERT_CONTAINS(problem.message, "not between 128M and 1T");
    ASSERT_CONTAINS(problem.hint, "512M");
    ASSERT_EQ(PARSE(false, "-m2T"), -1);
    ASSERT_EQ(PARSE(false, "-mmany"), -1);
    ASSERT_CONTAINS(problem.message, "not a size");
    done();
}

TEST(times_are_checked)
{
    ASSERT_EQ(PARSE(false, "--timeout", "1m30s"), 0);
    ASSERT_EQ(v.time, 90000);
    ASSERT_EQ(PARSE(false, "--timeout", "2h"), -1);
    ASSERT_EQ(PARSE(false, "--timeout", "soon"), -1);
    ASSERT_CONTAINS(problem.message, "'soon' is not a time");
    done();
}

TEST(choices_are_checked)
{
    ASSERT_EQ(PARSE(false, "--network", "user"), 0);
    ASSERT_STREQ(v.choice, "user");
    ASSERT_EQ(PARSE(false, "--network", "use"), -1);
    ASSERT_CONTAINS(problem.message, "none of: none user");
    ASSERT_EQ(PARSE(false, "--network", "none user"), -1);
    ASSERT_EQ(PARSE(false, "--network="), -1);
    done();
}

TEST(a_message_holds_a_very_long_word)
{
    char arg[5000];

    memset(arg, 'x', sizeof(arg));
    memcpy(arg, "--", 2);
    arg[sizeof(arg) - 1] = 0;
    ASSERT_EQ(PARSE(false, arg), -1);
    memcpy(arg, "--cpus=", 7);
    ASSERT_EQ(PARSE(false, arg), -1);
    ASSERT_LT(strlen(problem.message), sizeof(problem.message));
    done();
}

TEST(nearest_word)
{
    const char *const words[] = {"run", "rm", "start", "stop", "inspect", NULL};

    ASSERT_STREQ(cli_nearest("rnu", words), "run");
    ASSERT_STREQ(cli_nearest("strat", words), "start");
    ASSERT_STREQ(cli_nearest("insepct", words), "inspect");
    ASSERT_NULL(cli_nearest("xyzzy", words));
    ASSERT_NULL(cli_nearest("averyveryveryveryveryveryveryverylongwordindeed", words));
}
