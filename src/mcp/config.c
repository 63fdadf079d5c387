/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c: the part of TOML 1.0 that config.toml needs: comments, [tables], and on one line each `key = value` with a
 * basic or literal string, an integer, a boolean, or an array of those (given as text with commas between). What is
 * beyond it is refused with its line, never guessed. A pure function.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define VALUE_MAX 4096

struct scan {
    const char *p, *end; /* of the line */
    char value[VALUE_MAX];
    size_t len;
};

static void blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t')) {
        s->p++;
    }
}

static bool at_end(struct scan *s)
{
    blanks(s);
    return s->p == s->end || *s->p == '#';
}

static bool put(struct scan *s, char c)
{
    if (s->len + 1 >= VALUE_MAX || c == '\0') {
        return false;
    }
    s->value[s->len++] = c;
    return true;
}

static bool bare(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static size_t bare_word(struct scan *s, char *out, size_t size)
{
    size_t n = 0;
    while (s->p < s->end && bare(*s->p) && n + 1 < size) {
        out[n++] = *s->p++;
    }
    out[n] = '\0';
    return n;
}

static bool string(struct scan *s)
{
    static const char escapes[] = "\"\"\\\\n\nt\tr\r";
    char quote = *s->p++;
    while (s->p < s->end && *s->p != quote) {
        char c = *s->p++;
        if (c == '\\' && quote == '"') {
            size_t i = 0;
            while (i < sizeof(escapes) - 1 && (s->p == s->end || escapes[i] != *s->p)) {
                i += 2;
            }
            if (i >= sizeof(escapes) - 1) {
                return false;
            }
            c = escapes[i + 1];
            s->p++;
        }
        if (!put(s, c)) {
            return false;
        }
    }
    return s->p < s->end && *s->p++ == quote;
}

static bool scalar(struct scan *s)
{
    char word[64];
    blanks(s);
    if (s->p < s->end && (*s->p == '"' || *s->p == '\'')) {
        return string(s);
    }
    if (bare_word(s, word, sizeof(word)) == 0 ||
        (strcmp(word, "true") != 0 && strcmp(word, "false") != 0 && strspn(word, "0123456789_") != strlen(word))) {
        return false;
    }
    for (const char *c = word; *c; c++) {
        if (*c != '_' && !put(s, *c)) {
            return false;
        }
    }
    return true;
}

static bool array(struct scan *s)
{
    s->p++;
    for (bool first = true;; first = false) {
        blanks(s);
        if (s->p < s->end && *s->p == ']') {
            s->p++;
            return true;
        }
        if ((!first && !put(s, ',')) || !scalar(s)) {
            return false;
        }
        blanks(s);
        if (s->p < s->end && *s->p == ',') {
            s->p++;
        } else if (s->p == s->end || *s->p != ']') {
            return false;
        }
    }
}

static bool table(struct scan *s, char *section, size_t size)
{
    s->p++;
    blanks(s);
    if (bare_word(s, section, size) == 0) {
        return false;
    }
    while (s->p < s->end && *s->p == '.') { /* [a.b]: another program's */
        size_t n = strlen(section);
        s->p++;
        if (n + 2 > size) {
            return false;
        }
        section[n] = '.';
        if (bare_word(s, section + n + 1, size - n - 1) == 0) {
            return false;
        }
    }
    blanks(s);
    return s->p < s->end && *s->p++ == ']' && at_end(s);
}

char *mcp_config_parse(const char *text, size_t len, mcp_config_fn fn, void *data)
{
    struct scan *s = calloc(1, sizeof(*s));
    char section[128] = "", key[128];
    const char *end = text + len;
    char *wrong = s ? NULL : mcp_printf("out of memory");

    for (unsigned line = 1; text < end && !wrong; line++) {
        const char *nl = memchr(text, '\n', (size_t)(end - text));
        const char *stop = nl ? nl : end;
        bool good;
        s->p = text;
        s->end = stop > text && stop[-1] == '\r' ? stop - 1 : stop;
        s->len = 0;
        text = nl ? nl + 1 : end;
        if (at_end(s)) {
            continue;
        }
        if (*s->p == '[') {
            wrong = table(s, section, sizeof(section)) ? NULL : mcp_printf("line %u: not a [table]", line);
            continue;
        }
        good = bare_word(s, key, sizeof(key)) > 0;
        blanks(s);
        good = good && s->p < s->end && *s->p++ == '=';
        blanks(s);
        good = good && s->p < s->end && (*s->p == '[' ? array(s) : scalar(s)) && at_end(s);
        s->value[s->len] = '\0';
        if (good) {
            char *refused = fn(data, line, section, key, s->value);
            wrong = refused ? mcp_printf("line %u: %s", line, refused) : NULL;
            free(refused);
        } else {
            wrong = mcp_printf("line %u: not `key = value` with a string, a number, true, false or an array of them", line);
        }
    }
    free(s);
    return wrong;
}
