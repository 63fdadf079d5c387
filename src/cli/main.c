/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c: boxlite [OPTION...] COMMAND [OPTION...] [OPERAND...]. Finds the command, parses its line by its tables, checks the
 * number of operands, runs it. All knowledge of a command is in its cmd_NAME.c.
 */
#include <signal.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/terminal.h"

#define WORDS_MAX 64
#define WORD_SIZE 24

static bool want_version;

const struct cli_option cli_global_options[] = {
    {"home", 0, CLI_TEXT, &cli.home, "DIR",
     "home directory (default: $BOXLITE_HOME, then ~/.boxlite)", .words = CLI_W_FILE},
    {"debug", 0, CLI_FLAG, &cli.debug, NULL, "tell on standard error what the library does"},
    {"help", 'h', CLI_FLAG, &cli.help, NULL, "show help and exit"},
    {0},
};

const struct cli_option cli_version_option[] = {
    {"version", 'v', CLI_FLAG, &want_version, NULL, "show the version and exit"},
    {0},
};

/* All words that could stand after `group` (NULL: as a command), for suggestions. */
static void command_words(const char *group, const char *ret[WORDS_MAX + 1], char **buffer)
{
    size_t n = 0, prefix = group ? strlen(group) : 0;
    char *p = *buffer = cli_alloc(WORDS_MAX * WORD_SIZE);

    for (const struct cli_section *s = cli_sections; s->title; s++) {
        for (const struct cli_command *const *c = s->commands; *c && n < WORDS_MAX; c++) {
            const char *name = (*c)->name;

            if (!group || (strncmp(name, group, prefix) == 0 && name[prefix] == ' ')) {
                name += group ? prefix + 1 : 0;
                (void)snprintf(p, WORD_SIZE, "%.*s", (int)strcspn(name, " "), name);
                ret[n++] = p;
                p += WORD_SIZE;
            }
        }
    }
    for (const struct cli_alias *a = cli_aliases; a->name && !group && n < WORDS_MAX; a++) {
        if (!strchr(a->name, ' ')) {
            ret[n++] = a->name;
        }
    }
    ret[n] = NULL;
}

static int unknown_command(const char *group, const char *word)
{
    const char *names[WORDS_MAX + 1], *near;
    const char *before = group ? group : "", *space = group ? " " : "";
    _cleanup_free_ char *buffer = NULL;
    _cleanup_free_ char *hint = NULL;

    command_words(group, names, &buffer);
    near = cli_nearest(word, names);
    hint = near ? cli_text("did you mean 'boxlite %s%s%s'?", before, space, near)
                : cli_text("see all with: boxlite%s%s --help", space, before);
    return cli_error_hint(hint, "unknown command '%s%s%s'", before, space, word);
}

static int operands_wrong(const struct cli_command *c, size_t given)
{
    _cleanup_free_ char *hint =
        cli_text("usage: boxlite %s%s%s%s; more with: boxlite help %s", c->name,
                 c->sets ? " [OPTION...]" : "", *c->args ? " " : "", c->args, c->name);

    return cli_error_hint(hint, "%s: %s", c->name,
                          given < c->min ? "an operand is missing" : "too many operands");
}

static int run_command(const struct cli_command *c, int argc, char **argv)
{
    const struct cli_option *sets[CLI_SETS_MAX];
    struct cli_syntax syntax = {.sets = sets, .verbatim = c->verbatim};
    struct cli_list operands = {0};
    struct cli_problem problem;
    int status;

    cli_command_sets(c, sets);
    if (cli_parse(&syntax, argc, argv, &operands, &problem) < 0) {
        _cleanup_free_ char *hint = *problem.hint ? cli_text("%s", problem.hint)
                                                  : cli_text("see: boxlite help %s", c->name);
        status = cli_error_hint(hint, "%s: %s", c->name, problem.message);
    } else if (cli.help) {
        cli_help_command(stdout, c);
        status = 0;
    } else if (operands.count < c->min || operands.count > c->max) {
        status = operands_wrong(c, operands.count);
    } else {
        status = c->run(&operands);
    }
    cli_list_done(&operands);
    return status;
}

static int dispatch(int argc, char **argv)
{
    const struct cli_command *c;
    bool group;
    int words;

    if (strcmp(argv[0], "__complete") == 0) {
        return cli_complete(argc - 1, argv + 1);
    }
    c = cli_command_find(argc, argv, &words, &group);
    if (c) {
        return run_command(c, argc - words, argv + words);
    }
    if (!group) {
        return unknown_command(NULL, argv[0]);
    }
    if (argc == 1 || argv[1][0] == '-' || cli.help) {
        bool asked = cli.help ||
                     (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0));

        cli_help_group(asked ? stdout : stderr, argv[0]);
        return asked ? 0 : CLI_EXIT_ERROR;
    }
    return unknown_command(argv[0], argv[1]);
}

/* The options before the command: they end at it. Returns the exit status, or -1 to go on with argv + *ret_used. */
static int parse_globals(int argc, char **argv, int *ret_used)
{
    static const struct cli_option *const sets[] = {cli_global_options, cli_version_option, NULL};
    static const struct cli_syntax syntax = {.sets = sets};
    struct cli_list none = {0};
    struct cli_problem problem;
    int used = 0;

    while (used < argc && argv[used][0] == '-' && argv[used][1]) {
        /* a value may be an argument of its own */
        bool pair = strcmp(argv[used], "--home") == 0 && used + 1 < argc;

        if (cli_parse(&syntax, pair ? 2 : 1, argv + used, &none, &problem) < 0) {
            return cli_error_hint(*problem.hint ? problem.hint : "see: boxlite --help", "%s",
                                  problem.message);
        }
        used += pair ? 2 : 1;
    }
    *ret_used = used;
    return -1;
}

static int start(int argc, char **argv)
{
    int used, status = parse_globals(argc, argv, &used);

    if (status >= 0) {
        return status;
    }
    argc -= used;
    argv += used;
    if (want_version) {
        return cli_cmd_version.run(NULL);
    }
    if (argc == 0) {
        cli_help_all(cli.help ? stdout : stderr);
        return cli.help ? 0 : CLI_EXIT_ERROR;
    }
    return dispatch(argc, argv);
}

/* Programs may be started without their standard descriptors; a file opened later must not become one of them. */
static void hold_standard_descriptors(void)
{
    int fd;

    do {
        fd = cli_open_null();
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
}

int main(int argc, char **argv)
{
    int status;

    hold_standard_descriptors();
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error of write() */
    status = argc > 0 ? start(argc - 1, argv + 1) : CLI_EXIT_ERROR;
    cli_close();
    return cli_finish_stdout(status);
}
