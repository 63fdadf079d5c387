/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_cli_line.c: any command line, one argument a line. What was taken is within the bounds that the
 * table sets; what was refused has a message of one line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "cli/values.h"

#define ARGS_MAX 64

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
    {"env", 'e', CLI_LIST, &v.list, "NAME=VALUE", "h"},
    {"cpus", 'c', CLI_NUMBER, &v.number, "N", "h", .min = 1, .max = 64},
    {"memory", 'm', CLI_SIZE, &v.size, "SIZE", "h", .min = 128u << 20, .max = 1ull << 40},
    {"timeout", 0, CLI_TIME, &v.time, "TIME", "h", .max = 3600000},
    {0},
};
static const struct cli_option *const sets[] = {table, NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool so)
{
    if (!so) {
        abort();
    }
}

static void parse(char *const *argv, int argc, bool verbatim)
{
    const struct cli_syntax syntax = {sets, verbatim};
    struct cli_list operands = {0};
    struct cli_problem problem;

    memset(&v, 0, sizeof(v));
    if (cli_parse(&syntax, argc, argv, &operands, &problem) < 0) {
        check(problem.message[0] && memchr(problem.message, 0, sizeof(problem.message)));
    } else {
        check(operands.count <= (size_t)argc);
        check(v.number <= 64 && v.size <= 1ull << 40 && v.time <= 3600000);
        check(v.size == 0 || v.size >= 128u << 20);
        check(!v.choice || strcmp(v.choice, "none") == 0 || strcmp(v.choice, "user") == 0);
    }
    cli_list_done(&operands);
    cli_list_done(&v.list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *text = cli_copy((const char *)data, size);
    char *argv[ARGS_MAX], *save = NULL;
    int argc = 0;

    for (char *arg = strtok_r(text, "\n", &save); arg && argc < ARGS_MAX;
         arg = strtok_r(NULL, "\n", &save)) {
        argv[argc++] = arg;
    }
    parse(argv, argc, false);
    parse(argv, argc, true);
    (void)cli_parse_signal(argc ? argv[0] : "");
    return 0;
}
