/* SPDX-License-Identifier: Apache-2.0 */
/* output.c: see output.h. Names and labels come from users and images: control characters are shown as '?'. */
#include "cli/output.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli/errors.h"
#include "cli/values.h"

static struct {
    const char *format;
    bool json, quiet;
} opt = {.format = "table"};

const struct cli_option cli_format_options[] = {
    {"format", 0, CLI_CHOICE, &opt.format, "FORMAT", "table (default) or json",
     .choices = "table json"},
    {"json", 0, CLI_FLAG, &opt.json, NULL, "the same as --format json"},
    {0},
};

const struct cli_option cli_quiet_options[] = {
    {"quiet", 'q', CLI_FLAG, &opt.quiet, NULL, "print only ids or names"},
    {0},
};

bool cli_want_json(void)
{
    return opt.json || strcmp(opt.format, "json") == 0;
}

void cli_table_init(struct cli_table *t, const struct cli_column *columns, size_t ncolumns)
{
    *t = (struct cli_table){.columns = columns, .ncolumns = ncolumns};
}

void cli_table_done(struct cli_table *t)
{
    for (size_t i = 0; i < t->ncells; i++) {
        free(t->cells[i].text);
        free(t->cells[i].exact);
    }
    free(t->cells);
    *t = (struct cli_table){0};
}

static struct cli_cell *add_cell(struct cli_table *t, const char *text)
{
    t->cells = cli_grow(t->cells, (t->ncells + 1) * sizeof(*t->cells));
    t->cells[t->ncells] = (struct cli_cell){.text = cli_text("%s", text ? text : "")};
    return &t->cells[t->ncells++];
}

void cli_cell_text(struct cli_table *t, const char *text)
{
    (void)add_cell(t, text);
}

void cli_cell_pair(struct cli_table *t, const char *text, const char *exact)
{
    struct cli_cell *cell = add_cell(t, text);

    cell->exact = cli_text("%s", exact ? exact : "");
}

static void add_number(struct cli_table *t, const char *text, uint64_t number)
{
    struct cli_cell *cell = add_cell(t, text);

    cell->exact = cli_text("%" PRIu64, number);
    cell->number = true;
}

void cli_cell_size(struct cli_table *t, uint64_t bytes)
{
    char text[CLI_VALUE_TEXT];

    cli_size_text(bytes, text);
    add_number(t, text, bytes);
}

void cli_cell_number(struct cli_table *t, uint64_t number)
{
    char text[CLI_VALUE_TEXT];

    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    add_number(t, text, number);
}

void cli_cell_age(struct cli_table *t, int64_t then)
{
    char age[CLI_VALUE_TEXT], exact[CLI_VALUE_TEXT];

    cli_age_text(then, (int64_t)time(NULL), age);
    cli_time_text(then, exact);
    cli_cell_pair(t, age, exact);
}

/* Columns on a terminal that text takes; UTF-8 continuation bytes take none. */
static size_t width(const char *text)
{
    size_t n = 0;

    for (; *text; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

static void put(FILE *f, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        fputc(*p < 0x20 || *p == 0x7f ? '?' : *p, f);
    }
}

void cli_table_columns(const struct cli_table *t, FILE *f)
{
    size_t widths[CLI_COLUMNS_MAX] = {0}, last = 0, rows = t->ncells / t->ncolumns;

    for (size_t c = 0; c < t->ncolumns; c++) {
        if (!t->columns[c].title) {
            continue;
        }
        last = c;
        widths[c] = width(t->columns[c].title);
        for (size_t r = 0; r < rows; r++) {
            size_t w = width(t->cells[r * t->ncolumns + c].text);
            widths[c] = w > widths[c] ? w : widths[c];
        }
    }
    for (size_t r = 0; r <= rows; r++) {
        for (size_t c = 0; c <= last; c++) {
            const char *title = t->columns[c].title;
            const char *text = r == 0 ? title : t->cells[(r - 1) * t->ncolumns + c].text;

            if (title) {
                put(f, text);
                fprintf(f, "%*s", c == last ? 0 : (int)(widths[c] - width(text) + 3), "");
            }
        }
        fputc('\n', f);
    }
}

static int print_json(char *json)
{
    if (!json) {
        return cli_error("cannot show this as JSON: it holds text that is not UTF-8");
    }
    puts(json);
    free(json);
    return 0;
}

int cli_table_print(const struct cli_table *t, size_t quiet)
{
    if (opt.quiet) {
        for (size_t i = quiet; i < t->ncells; i += t->ncolumns) {
            put(stdout, t->cells[i].text);
            putchar('\n');
        }
        return 0;
    }
    if (cli_want_json()) {
        return print_json(cli_json_rows(t, false));
    }
    cli_table_columns(t, stdout);
    return 0;
}

int cli_table_card(const struct cli_table *t)
{
    size_t widest = 0;

    if (cli_want_json()) {
        return print_json(cli_json_rows(t, true));
    }
    for (size_t c = 0; c < t->ncolumns; c++) {
        size_t w = t->columns[c].title ? width(t->columns[c].title) : 0;
        widest = w > widest ? w : widest;
    }
    for (size_t c = 0; c < t->ncolumns && c < t->ncells; c++) {
        if (t->columns[c].title) {
            printf("%s:%*s", t->columns[c].title, (int)(widest - width(t->columns[c].title) + 1),
                   "");
            put(stdout, t->cells[c].text);
            putchar('\n');
        }
    }
    return 0;
}
