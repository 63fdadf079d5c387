/* SPDX-License-Identifier: Apache-2.0 */
/* help.c: --help, made from the tables of commands and options. */
#include <string.h>

#include "cli/commands.h"

#define WIDTH 80

/* Prints text wrapped, each line after the first indented. The cursor stands at `column`. */
static void wrap(FILE *f, const char *text, int column, int indent)
{
    while (*text) {
        int n = (int)strcspn(text, " \n");

        if (column > indent && column + n + 1 > WIDTH) {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', f);
            column++;
        }
        fprintf(f, "%.*s", n, text);
        column += n;
        text += n;
        if (*text == '\n') {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
        }
        text += *text != 0;
    }
    fputc('\n', f);
}

static void put_option(FILE *f, const struct cli_option *o)
{
    int n = 0;

    n += o->letter ? fprintf(f, "  -%c, ", o->letter) : fprintf(f, "      ");
    n += fprintf(f, "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    if (n > 26) {
        fputc('\n', f);
        n = 0;
    }
    fprintf(f, "%*s", 28 - n, "");
    wrap(f, o->help, 28, 28);
}

static void put_options(FILE *f, const char *title, const struct cli_option *const *sets)
{
    if (!sets || !*sets) {
        return;
    }
    fprintf(f, "\n%s:\n", title);
    for (; *sets; sets++) {
        for (const struct cli_option *o = *sets; o->name; o++) {
            put_option(f, o);
        }
    }
}

static void put_examples(FILE *f, const char *examples)
{
    fprintf(f, "\nExamples:\n");
    for (const char *line = examples; *line;) {
        int n = (int)strcspn(line, "\n");

        fprintf(f, "  %.*s\n", n, line);
        line += n + (line[n] == '\n');
    }
}

static void put_aliases(FILE *f, const char *name)
{
    const char *lead = "\nAlso: ";

    for (const struct cli_alias *a = cli_aliases; a->name; a++) {
        if (strcmp(a->command, name) == 0) {
            fprintf(f, "%sboxlite %s", lead, a->name);
            lead = ", ";
        }
    }
    if (lead[0] == ',') {
        fputc('\n', f);
    }
}

void cli_help_command(FILE *f, const struct cli_command *c)
{
    static const struct cli_option *const globals[] = {cli_global_options, NULL};

    fprintf(f, "Usage: boxlite %s%s%s%s\n\n", c->name, c->sets ? " [OPTION...]" : "",
            *c->args ? " " : "", c->args);
    wrap(f, c->about, 0, 0);
    put_aliases(f, c->name);
    put_options(f, "Options", c->sets);
    put_options(f, "Options of every command", globals);
    put_examples(f, c->examples);
}

static void put_commands(FILE *f, const struct cli_section *s, const char *group)
{
    size_t n = group ? strlen(group) : 0;

    for (const struct cli_command *const *c = s->commands; *c; c++) {
        if (!group || (strncmp((*c)->name, group, n) == 0 && (*c)->name[n] == ' ')) {
            fprintf(f, "  %-16s  ", (*c)->name);
            wrap(f, (*c)->summary, 20, 20);
        }
    }
}

void cli_help_group(FILE *f, const char *group)
{
    fprintf(f, "Usage: boxlite %s COMMAND ...\n\n", group);
    for (const struct cli_section *s = cli_sections; s->title; s++) {
        put_commands(f, s, group);
    }
    fprintf(f, "\nMore about one: boxlite help %s COMMAND\n", group);
}

void cli_help_all(FILE *f)
{
    static const struct cli_option *const globals[] = {cli_global_options, cli_version_option,
                                                       NULL};

    fprintf(f, "Usage: boxlite [OPTION...] COMMAND ...\n\n");
    wrap(
        f,
        "Runs programs from container images in small virtual machines (boxes): no daemon, no root. "
        "The commands follow Docker's habits.",
        0, 0);
    for (const struct cli_section *s = cli_sections; s->title; s++) {
        fprintf(f, "\n%s:\n", s->title);
        put_commands(f, s, NULL);
    }
    put_options(f, "Options", globals);
    put_examples(f, "boxlite run --rm boxlite/base:bookworm python3 -c 'print(6*7)'\n"
                    "boxlite doctor");
    fprintf(f, "\nMore about a command: boxlite help COMMAND\n");
}
