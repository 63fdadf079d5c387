/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: see options.h. */
#include "cli/options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "cli/values.h"

#define NAMES_MAX 96

int cli_problem(struct cli_problem *p, const char *hint, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    (void)vsnprintf(p->message, sizeof(p->message), format, ap);
    va_end(ap);
    (void)snprintf(p->hint, sizeof(p->hint), "%s", hint ? hint : "");
    return -1;
}

const struct cli_option *cli_option_find(const struct cli_option *const *sets, const char *name,
                                         size_t length)
{
    for (; *sets; sets++) {
        for (const struct cli_option *o = *sets; o->name; o++) {
            if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) {
                return o;
            }
        }
    }
    return NULL;
}

const struct cli_option *cli_option_letter(const struct cli_option *const *sets, char letter)
{
    for (; *sets; sets++) {
        for (const struct cli_option *o = *sets; o->name; o++) {
            if (letter && o->letter == letter) {
                return o;
            }
        }
    }
    return NULL;
}

static int set_flag(const struct cli_option *o, const char *as, const char *text,
                    struct cli_problem *p)
{
    bool yes = strcmp(text, "true") == 0;

    if (!yes && strcmp(text, "false") != 0) {
        return cli_problem(p, NULL, "%s is a switch: it takes no value but =true or =false", as);
    }
    *(bool *)o->value = yes;
    return 0;
}

static int set_text(const struct cli_option *o, const char *as, const char *text,
                    struct cli_problem *p)
{
    *(const char **)o->value = text;
    return 0;
}

static int set_list(const struct cli_option *o, const char *as, const char *text,
                    struct cli_problem *p)
{
    cli_list_add(o->value, text);
    return 0;
}

static int set_choice(const struct cli_option *o, const char *as, const char *text,
                      struct cli_problem *p)
{
    if (!cli_words_have(o->choices, text, strlen(text))) {
        return cli_problem(p, NULL, "%s: '%s' is none of: %s", as, text, o->choices);
    }
    *(const char **)o->value = text;
    return 0;
}

static int set_number(const struct cli_option *o, const char *as, const char *text,
                      struct cli_problem *p)
{
    uint64_t n;

    if (cli_parse_number(text, &n) < 0 || n < o->min || n > o->max) {
        return cli_problem(p, NULL, "%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64,
                           as, text, o->min, o->max);
    }
    *(uint64_t *)o->value = n;
    return 0;
}

static int set_size(const struct cli_option *o, const char *as, const char *text,
                    struct cli_problem *p)
{
    char min[CLI_VALUE_TEXT], max[CLI_VALUE_TEXT], hint[160] = "";
    uint64_t n;
    int r = cli_parse_size(text, &n);

    if (r == -1) {
        return cli_problem(p, "write it like 512M or 2G", "%s: '%s' is not a size", as, text);
    }
    if (r == 0 && n >= o->min && n <= o->max) {
        *(uint64_t *)o->value = n;
        return 0;
    }
    if (r == 0 && n < o->min && strspn(text, "0123456789") == strlen(text)) {
        (void)snprintf(hint, sizeof(hint),
                       "a number without a unit is in bytes; did you mean %.20sM?", text);
    }
    cli_size_exact(o->min, min);
    cli_size_exact(o->max, max);
    return cli_problem(p, hint, "%s: '%s' is not between %s and %s", as, text, min, max);
}

static int set_time(const struct cli_option *o, const char *as, const char *text,
                    struct cli_problem *p)
{
    char max[CLI_VALUE_TEXT];
    uint64_t ms;
    int r = cli_parse_time(text, &ms);

    if (r == -1) {
        return cli_problem(p, "write it like 30 (seconds), 90s, 5m, 1h30m or 250ms",
                           "%s: '%s' is not a time", as, text);
    }
    if (r < 0 || ms > o->max) {
        cli_time_exact(o->max, max);
        return cli_problem(p, NULL, "%s: '%s' is more than %s", as, text, max);
    }
    *(uint64_t *)o->value = ms;
    return 0;
}

typedef int (*set_fn)(const struct cli_option *o, const char *as, const char *text,
                      struct cli_problem *p);

int cli_option_set(const struct cli_option *o, const char *as, const char *text,
                   struct cli_problem *p)
{
    static const set_fn setters[] = {
        [CLI_FLAG] = set_flag,     [CLI_TEXT] = set_text, [CLI_LIST] = set_list,
        [CLI_NUMBER] = set_number, [CLI_SIZE] = set_size, [CLI_TIME] = set_time,
        [CLI_CHOICE] = set_choice,
    };

    return setters[o->kind](o, as, text, p);
}

static int unknown_long(const struct cli_option *const *sets, const char *name, size_t length,
                        struct cli_problem *p)
{
    const char *names[NAMES_MAX + 1];
    size_t n = 0;
    char word[64], hint[160] = "";

    for (; *sets; sets++) {
        for (const struct cli_option *o = *sets; o->name && n < NAMES_MAX; o++) {
            names[n++] = o->name;
        }
    }
    names[n] = NULL;
    (void)snprintf(word, sizeof(word), "%.*s", (int)(length < 63 ? length : 63), name);
    const char *near = cli_nearest(word, names);
    if (near) {
        (void)snprintf(hint, sizeof(hint), "did you mean --%s?", near);
    }
    return cli_problem(p, hint, "unknown option --%s", word);
}

struct parser {
    const struct cli_syntax *syntax;
    int argc, next;
    char *const *argv;
    struct cli_problem *problem;
};

/* The value of an option: `attached`, or the next argument. */
static int take_value(struct parser *ps, const struct cli_option *o, const char *as,
                      const char *attached)
{
    if (!attached) {
        if (ps->next >= ps->argc) {
            return cli_problem(ps->problem, NULL, "%s needs a value: %s", as, o->arg);
        }
        attached = ps->argv[ps->next++];
    }
    return cli_option_set(o, as, attached, ps->problem);
}

static int parse_long(struct parser *ps, const char *arg)
{
    const char *name = arg + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct cli_option *o = cli_option_find(ps->syntax->sets, name, length);
    char as[64];

    if (!o) {
        return unknown_long(ps->syntax->sets, name, length, ps->problem);
    }
    (void)snprintf(as, sizeof(as), "--%s", o->name);
    if (o->kind == CLI_FLAG) {
        return cli_option_set(o, as, equals ? equals + 1 : "true", ps->problem);
    }
    return take_value(ps, o, as, equals ? equals + 1 : NULL);
}

static int parse_short(struct parser *ps, const char *arg)
{
    for (const char *p = arg + 1; *p; p++) {
        const struct cli_option *o = cli_option_letter(ps->syntax->sets, *p);
        char as[] = {'-', *p, 0};

        if (!o) {
            return cli_problem(ps->problem, NULL, "unknown option -%c",
                               *p >= 0x20 && *p < 0x7f ? *p : '?');
        }
        if (o->kind != CLI_FLAG) {
            const char *rest = p[1] == '=' ? p + 2 : p + 1;

            return take_value(ps, o, as, p[1] ? rest : NULL);
        }
        if (p[1] == '=') {
            return cli_option_set(o, as, p + 2, ps->problem);
        }
        if (cli_option_set(o, as, "true", ps->problem) < 0) {
            return -1;
        }
    }
    return 0;
}

int cli_parse(const struct cli_syntax *syntax, int argc, char *const *argv, struct cli_list *ret,
              struct cli_problem *problem)
{
    struct parser ps = {.syntax = syntax, .argc = argc, .argv = argv, .problem = problem};
    bool ended = false;

    *problem = (struct cli_problem){0};
    while (ps.next < argc) {
        const char *arg = argv[ps.next++];

        if (!ended && strcmp(arg, "--") == 0) {
            ended = true;
        } else if (ended || arg[0] != '-' || !arg[1]) {
            cli_list_add(ret, arg);
            if (syntax->verbatim && !ended) {
                ended = true;
                /* "exec BOX -- ls": allowed, the dashes are nobody's argument */
                ps.next += ps.next < argc && strcmp(argv[ps.next], "--") == 0;
            }
        } else if ((arg[1] == '-' ? parse_long : parse_short)(&ps, arg) < 0) {
            return -1;
        }
    }
    return 0;
}
