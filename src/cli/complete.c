/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complete.c: boxlite __complete WORD...: what the last word could become, for the shells' completion scripts. One
 * candidate a line, "WORD<tab>what it is"; the line ":files" asks the shell for file names. The tables of commands and
 * options are the only source, so a new option completes itself. Never fails and never creates a home directory.
 */
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"

static const char *before = ""; /* "--option=", when its value is completed */
static int before_length;

static void offer(const char *current, const char *word, const char *what)
{
    if (strncmp(word, current, strlen(current)) == 0) {
        printf("%.*s%s\t%s\n", before_length, before, word, what);
    }
}

/* Opens the home if there is one. */
static bool open_quietly(void)
{
    const char *set = cli.home ? cli.home : getenv("BOXLITE_HOME"), *home = getenv("HOME");
    _cleanup_free_ char *path =
        set ? cli_text("%s", set) : cli_text("%s/.boxlite", home ? home : "");
    _cleanup_error_ boxlite_error *err = NULL;
    boxlite_runtime_options o;
    struct stat st;

    if (stat(path, &st) < 0) {
        return false;
    }
    boxlite_runtime_options_init(&o);
    o.home = cli.home;
    return boxlite_runtime_new(&o, &cli.rt, &err) == 0;
}

static void offer_boxes(const char *current, const char *suffix)
{
    _cleanup_box_list_ boxlite_box_list *list = NULL;
    _cleanup_error_ boxlite_error *err = NULL;

    if (!open_quietly() || boxlite_box_list_new(cli.rt, &list, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < boxlite_box_list_count(list); i++) {
        const boxlite_box *box = boxlite_box_list_get(list, i);
        _cleanup_free_ char *word = cli_text("%s%s", boxlite_box_name(box), suffix);

        offer(current, word, boxlite_box_image(box));
    }
}

static void offer_images(const char *current)
{
    _cleanup_image_list_ boxlite_image_list *list = NULL;
    _cleanup_error_ boxlite_error *err = NULL;

    if (!open_quietly() || boxlite_image_list_new(cli.rt, &list, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < boxlite_image_list_count(list); i++) {
        const boxlite_image *image = boxlite_image_list_get(list, i);

        for (size_t j = 0; j < boxlite_image_name_count(image); j++) {
            offer(current, cli_image_familiar(boxlite_image_name(image, j)), "image");
        }
    }
}

static void offer_kernels(const char *current)
{
    _cleanup_kernel_list_ boxlite_kernel_list *list = NULL;
    _cleanup_error_ boxlite_error *err = NULL;

    if (!open_quietly() || boxlite_kernel_list_new(cli.rt, &list, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < boxlite_kernel_list_count(list); i++) {
        offer(current, boxlite_kernel_list_name(list, i), boxlite_kernel_list_release(list, i));
    }
}

/* First words of command names, or with a group the second words of its commands. */
static void offer_commands(const char *current, const char *group)
{
    const char *last = "";

    for (const struct cli_section *s = cli_sections; s->title; s++) {
        for (const struct cli_command *const *c = s->commands; *c; c++) {
            const char *name = (*c)->name, *space = strchr(name, ' ');
            size_t n = space ? (size_t)(space - name) : strlen(name);

            if (group) {
                if (space && strlen(group) == n && memcmp(group, name, n) == 0) {
                    offer(current, space + 1, (*c)->summary);
                }
            } else if (!space) {
                offer(current, name, (*c)->summary);
            } else if (strncmp(last, name, n + 1) != 0) {
                _cleanup_free_ char *word = cli_copy(name, n);

                offer(current, word, s->title);
                last = name;
            }
        }
    }
    for (const struct cli_alias *a = cli_aliases; !group && a->name; a++) {
        if (!strchr(a->name, ' ')) {
            offer(current, a->name, a->command);
        }
    }
}

static void offer_words(enum cli_words words, const char *current)
{
    switch (words) {
    case CLI_W_NONE:
        break;
    case CLI_W_BOX:
        offer_boxes(current, "");
        break;
    case CLI_W_COPY:
        offer_boxes(current, ":");
        puts(":files");
        break;
    case CLI_W_IMAGE:
        offer_images(current);
        break;
    case CLI_W_KERNEL:
        offer_kernels(current);
        break;
    case CLI_W_COMMAND:
        offer_commands(current, NULL);
        break;
    case CLI_W_FILE:
        puts(":files");
        break;
    }
}

static void offer_options(const char *current, const struct cli_option *const *sets)
{
    for (; *sets; sets++) {
        for (const struct cli_option *o = *sets; o->name; o++) {
            _cleanup_free_ char *word = cli_text("--%s", o->name);

            offer(current, word, o->help);
        }
    }
}

static void offer_values(const char *current, const struct cli_option *o)
{
    for (const char *p = o->choices; p && *p;) {
        size_t n = strcspn(p, " ");
        _cleanup_free_ char *word = cli_copy(p, n);

        offer(current, word, o->name);
        p += n + (p[n] == ' ');
    }
    offer_words(o->words, current);
}

/* The option whose value the next argument is, after this one; NULL if none. */
static const struct cli_option *wants_value(const char *arg, const struct cli_option *const *sets)
{
    const struct cli_option *o = NULL;

    if (arg[0] == '-' && arg[1] == '-') {
        o = cli_option_find(sets, arg + 2, strlen(arg + 2));
    } else if (arg[0] == '-' && arg[1]) {
        const char *p = arg + 1;

        for (o = cli_option_letter(sets, *p); o && o->kind == CLI_FLAG && p[1];
             o = cli_option_letter(sets, *++p)) {
        }
        o = o && !p[1] ? o : NULL; /* else the value is attached */
    }
    return o && o->kind != CLI_FLAG ? o : NULL;
}

/* Completes within a command's own arguments. */
static void complete_command(const struct cli_command *c, int argc, char *const *argv)
{
    const struct cli_option *sets[CLI_SETS_MAX], *pending = NULL;
    size_t operands = 0;
    bool ended = false;
    const char *current = argv[argc - 1];

    cli_command_sets(c, sets);
    for (int i = 0; i < argc - 1; i++) {
        if (pending) {
            if (pending->value == &cli.home) {
                cli.home = argv[i];
            }
            pending = NULL;
        } else if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (!ended && argv[i][0] == '-') {
            pending = wants_value(argv[i], sets);
        } else {
            operands++;
            ended = ended || c->verbatim;
        }
    }
    const char *equals = !ended && strncmp(current, "--", 2) == 0 ? strchr(current, '=') : NULL;
    const struct cli_option *inner =
        equals ? cli_option_find(sets, current + 2, (size_t)(equals - current - 2)) : NULL;

    if (pending) {
        offer_values(current, pending);
    } else if (inner) {
        before = current;
        before_length = (int)(equals + 1 - current);
        offer_values(equals + 1, inner);
    } else if (!ended && current[0] == '-') {
        offer_options(current, sets);
    } else if (c->verbatim && operands > 0) {
        puts(":files");
    } else if (operands < c->max) {
        offer_words(operands == 0 ? c->first : c->rest, current);
    }
}

int cli_complete(int argc, char *const *argv)
{
    static const struct cli_option *const globals[] = {cli_global_options, cli_version_option,
                                                       NULL};
    const struct cli_command *c;
    bool group = false;
    int words = 0, i = 0;

    while (i < argc - 1 && argv[i][0] == '-') {
        if (strcmp(argv[i], "--home") == 0 && i + 1 < argc - 1) {
            cli.home = argv[++i];
        }
        i++;
    }
    if (argc == 0) {
        return 0;
    }
    argc -= i;
    argv += i;
    if (argc == 1) {
        (argv[0][0] == '-' ? offer_options(argv[0], globals) : offer_commands(argv[0], NULL));
        return 0;
    }
    c = cli_command_find(argc - 1, argv, &words, &group);
    if (c) {
        complete_command(c, argc - words, argv + words);
    } else if (group && argc == 2) {
        offer_commands(argv[1], argv[0]);
    }
    return 0;
}
