/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h: option tables and their parser. One table describes an option to the parser, to --help and to the
 * completions, so that the three cannot disagree.
 * The parser is silent: it fills the variables that the table points to, and describes a mistake in a cli_problem.
 * It knows -x VALUE, -xVALUE, -x=VALUE, clustered flags -it, --long VALUE, --long=VALUE, --flag=true|false, "--", and
 * stops at the first operand where the rest is a program's own command line.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli/util.h"

enum cli_kind {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_LIST,   /* struct cli_list: may be given several times */
    CLI_NUMBER, /* uint64_t, min to max */
    CLI_SIZE,   /* uint64_t bytes, min to max: "512M" */
    CLI_TIME,   /* uint64_t milliseconds: "90", "1m30s", "250ms" */
    CLI_CHOICE, /* const char *, one of `choices` */
};

/* What completes a value or an operand. */
enum cli_words {
    CLI_W_NONE,
    CLI_W_FILE,
    CLI_W_BOX,
    CLI_W_IMAGE,
    CLI_W_KERNEL,
    CLI_W_COMMAND, /* of boxlite */
    CLI_W_COPY,    /* BOX: or a file */
};

struct cli_option {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* or 0 */
    enum cli_kind kind;
    void *value;
    const char *arg;  /* name of the value, for help */
    const char *help; /* a phrase with unit and default */
    uint64_t min, max;
    const char *choices; /* separated by spaces */
    enum cli_words words;
};

struct cli_problem {
    char message[320];
    char hint[160]; /* "" if there is none */
};

struct cli_syntax {
    const struct cli_option *const *sets; /* tables, NULL at the end */
    bool verbatim;                        /* options end at the first operand */
};

/* Parses argv[0..argc). Operands are added to ret. 0, or -1 with the problem filled in. */
int cli_parse(const struct cli_syntax *syntax, int argc, char *const *argv, struct cli_list *ret,
              struct cli_problem *problem);
/* Looks an option up by name (length bytes) or letter; NULL if there is none. */
const struct cli_option *cli_option_find(const struct cli_option *const *sets, const char *name,
                                         size_t length);
const struct cli_option *cli_option_letter(const struct cli_option *const *sets, char letter);
/* Sets an option's variable from text (CLI_FLAG: "true", "false"). `as` is how the user wrote it, for the message. */
int cli_option_set(const struct cli_option *option, const char *as, const char *text,
                   struct cli_problem *problem);
int cli_problem(struct cli_problem *p, const char *hint, const char *format, ...)
    CLI_PRINTF(3, 4); /* returns -1 */

#endif
