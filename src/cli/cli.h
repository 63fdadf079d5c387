/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.h: what a command is, and what all commands share. A process runs one command; the variables behind its options
 * live in the command's own file.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/errors.h"
#include "cli/options.h"

/* The options that every command takes, and the library once cli_open() has opened it. */
struct cli {
    const char *home;
    bool debug, help;
    boxlite_runtime *rt;
};
extern struct cli cli;
extern const struct cli_option cli_global_options[];
extern const struct cli_option cli_version_option[]; /* only before the command */

struct cli_command {
    const char *name;                     /* "run", "image import" */
    const char *args;                     /* "IMAGE [COMMAND [ARG...]]" */
    const char *summary;                  /* one line */
    const char *about;                    /* paragraphs */
    const char *examples;                 /* lines */
    const struct cli_option *const *sets; /* NULL at the end; the global options come on top */
    size_t min, max;                      /* operands */
    bool verbatim;                        /* options end at the first operand */
    enum cli_words first, rest;           /* what completes the operands */
    int (*run)(const struct cli_list *operands); /* returns the exit status */
};
#define CLI_ANY SIZE_MAX

/* Opens the home directory, once. 0, or an exit status after telling why not. */
int cli_open(void);
/* The same without telling: 0, or the error's code. */
int cli_try_open(boxlite_error **err);
void cli_close(void);
/* A list of operands handled one by one: errors are told and do not end it. Returns the exit status. */
int cli_each(const struct cli_list *operands, int (*fn)(const char *name));
/* Opens a box by name or id. 0 or an exit status. */
int cli_open_box(const char *name, boxlite_box **ret);
/* An image's name without what people leave out. */
const char *cli_image_familiar(const char *name);

#endif
