/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h: lists. A command fills one table; it is printed as columns for people, as JSON for programs, or as the
 * first column alone (--quiet). A cell keeps the exact value beside its text.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli/options.h"

#define CLI_COLUMNS_MAX 10

struct cli_column {
    const char *title; /* "CREATED"; NULL: JSON only */
    const char *key;   /* "created"; NULL: people only */
};

struct cli_cell {
    char *text;  /* as shown */
    char *exact; /* for JSON; NULL: text */
    bool number; /* exact is a JSON number */
};

struct cli_table {
    const struct cli_column *columns;
    size_t ncolumns, ncells;
    struct cli_cell *cells; /* row after row */
};

void cli_table_init(struct cli_table *t, const struct cli_column *columns, size_t ncolumns);
void cli_table_done(struct cli_table *t);
void cli_cell_text(struct cli_table *t, const char *text);
void cli_cell_pair(struct cli_table *t, const char *text, const char *exact);
void cli_cell_size(struct cli_table *t, uint64_t bytes);
void cli_cell_number(struct cli_table *t, uint64_t number);
void cli_cell_age(struct cli_table *t, int64_t then);

/* --format and --json, --quiet: put `cli_format_options` among the sets of a command that prints a table. */
extern const struct cli_option cli_format_options[];
extern const struct cli_option cli_quiet_options[];
bool cli_want_json(void);
/* Prints as the options say; --quiet prints the column `quiet` (index) only. Returns the exit status. */
int cli_table_print(const struct cli_table *t, size_t quiet);
/* As columns to a stream, for the tests and for cli_table_print(). */
void cli_table_columns(const struct cli_table *t, FILE *f);
/* One thing as "Title: value" lines, or as a JSON object: a table of one row. */
int cli_table_card(const struct cli_table *t);

/* ---- json.c: the only user of jansson */

/* The rows as a JSON array, or its only row as an object; caller frees. */
char *cli_json_rows(const struct cli_table *t, bool only);
/* An array of JSON objects given as text, indented; NULL if one of them is not JSON. Caller frees. */
char *cli_json_array(char *const *objects, size_t count);
/* Whether the object has a member of that name that is true or a number other than 0. */
bool cli_json_true(const char *object, const char *key);
/* The member's number, or 0. */
uint64_t cli_json_number(const char *object, const char *key);
/* One line on standard output each: what a transfer tells, its failure, its end. note may be NULL. */
void cli_json_event(const char *kind, const char *digest, const char *state, uint64_t done,
                    uint64_t total, const char *note);
void cli_json_failure(const char *code, const char *message);
void cli_json_end(const char *name, const char *digest);
/* The member's text, or NULL; caller frees. */
char *cli_json_text(const char *object, const char *key);

#endif
