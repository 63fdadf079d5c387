/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonedit.c: see jsonedit.h.
 *
 * The text is copied twice, byte for byte in its place: once with comments blanked, and from that once with trailing commas
 * blanked, which is plain JSON. What jansson takes of the latter is walked over to find places; they are those of the text
 * as it is, in which pieces are put in or cut out. In the end both texts are read again and must differ by that member and
 * nothing else, so that a mistake here can never reach a user's file.
 */
#include <string.h>

#include "cli/jsonedit.h"
#include "cli/util.h"

BX_DEFINE_CLEANUP(json_t *, json_decref, cleanup_json);
#define _cleanup_json_ _cleanup_(cleanup_json)

struct texts {
    char *bare;   /* without comments */
    char *plain;  /* without trailing commas, too */
    size_t start; /* behind a byte order mark */
};

static void texts_done(struct texts *t)
{
    free(t->bare);
    free(t->plain);
}

/* ---- Copies */

static size_t string_end(const char *s, size_t i)
{
    for (i++; s[i] && s[i] != '"'; i++) {
        i += s[i] == '\\' && s[i + 1];
    }
    return s[i] ? i + 1 : i;
}

static size_t comment_end(const char *s, size_t i)
{
    const char *end = s[i + 1] == '/' ? strchr(s + i, '\n') : strstr(s + i + 2, "*/");
    return !end ? strlen(s) : (size_t)(end - s) + (s[i + 1] == '/' ? 0 : 2);
}

static void blank(char *s, size_t from, size_t to)
{
    for (; from < to; from++) {
        s[from] = s[from] == '\n' || s[from] == '\r' ? s[from] : ' ';
    }
}

static size_t skip_blanks(const char *s, size_t i)
{
    return i + strspn(s + i, " \t\r\n");
}

static struct texts texts_of(const char *text)
{
    size_t n = strlen(text);
    struct texts t = {.start = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0};

    t.bare = cli_copy(text, n);
    blank(t.bare, 0, t.start);
    for (size_t i = 0; i < n;) {
        bool comment = t.bare[i] == '/' && (t.bare[i + 1] == '/' || t.bare[i + 1] == '*');
        size_t end = t.bare[i] == '"' ? string_end(t.bare, i)
                     : comment        ? comment_end(t.bare, i)
                                      : i + 1;
        if (comment) {
            blank(t.bare, i, end);
        }
        i = end;
    }
    t.plain = cli_copy(t.bare, n);
    for (size_t i = 0; i < n;) {
        size_t next = t.plain[i] == ',' ? skip_blanks(t.plain, i + 1) : 0;
        if (next > 0 && (t.plain[next] == '}' || t.plain[next] == ']')) {
            t.plain[i] = ' ';
        }
        i = t.plain[i] == '"' ? string_end(t.plain, i) : i + 1;
    }
    return t;
}

json_t *cli_json_read(const char *text)
{
    struct texts t = texts_of(text);
    json_t *v = json_loads(t.plain, JSON_REJECT_DUPLICATES, NULL);

    texts_done(&t);
    if (!json_is_object(v)) {
        json_decref(v);
        return NULL;
    }
    return v;
}

/* ---- Places, in plain JSON that is known to be good */

struct member {
    size_t key, value, end; /* first bytes; behind the value */
};
struct object {
    size_t open, close; /* its braces */
    size_t count;
    struct member first, last, found; /* found.end 0: there is none of that name */
    size_t before; /* end of the member before the one found, 0: it is the first */
};

static size_t value_end(const char *s, size_t i)
{
    unsigned depth = 0;
    do {
        if (s[i] == '"') {
            i = string_end(s, i);
            continue;
        }
        depth += s[i] == '{' || s[i] == '[';
        depth -= (s[i] == '}' || s[i] == ']') && depth > 0;
        i++;
    } while (s[i] && (depth > 0 || !strchr(",}] \t\r\n", s[i])));
    return i;
}

static bool key_is(const char *s, const struct member *m, const char *name)
{
    size_t end = string_end(s, m->key);
    _cleanup_json_ json_t *key = json_loadb(s + m->key, end - m->key, JSON_DECODE_ANY, NULL);
    return json_is_string(key) && strcmp(json_string_value(key), name) == 0;
}

static struct object walk(const char *s, size_t open, const char *name)
{
    struct object o = {.open = open};
    size_t i = skip_blanks(s, open + 1);

    while (s[i] == '"') {
        struct member m = {.key = i};
        m.value = skip_blanks(s, skip_blanks(s, string_end(s, i)) + 1); /* behind the colon */
        m.end = value_end(s, m.value);
        if (key_is(s, &m, name)) {
            o.found = m;
            o.before = o.count > 0 ? o.last.end : 0;
        }
        o.first = o.count++ == 0 ? m : o.first;
        o.last = m;
        i = skip_blanks(s, m.end);
        i = s[i] == ',' ? skip_blanks(s, i + 1) : i;
    }
    o.close = i;
    return o;
}

/* ---- Edits */

static char *replace(const char *text, size_t from, size_t to, const char *with)
{
    return cli_text("%.*s%s%s", (int)from, text, with, text + to);
}

/* The blanks before the first member of the root, if that stands on a line of its own: one level. */
static char *indent_unit(const char *s, const struct object *root)
{
    size_t line = root->first.key;
    while (root->count > 0 && line > root->open && (s[line - 1] == ' ' || s[line - 1] == '\t')) {
        line--;
    }
    return root->count > 0 && s[line - 1] == '\n' && root->first.key > line
               ? cli_copy(s + line, root->first.key - line)
               : cli_text("  ");
}

/* `"name": value`, its lines indented by units. */
static char *member_text(const char *name, const json_t *value, const char *unit, unsigned depth)
{
    _cleanup_free_ char *body = json_dumps(value, JSON_INDENT(1) | JSON_ENCODE_ANY);
    char *all = cli_text("\"%s\": ", name);

    for (const char *line = body; line && *line;) {
        size_t n = strcspn(line, "\n"), level = strspn(line, " ");
        char *longer = cli_text("%s%.*s", all, (int)(n - level), line + level);
        free(all);
        all = longer;
        line += n + (line[n] == '\n');
        level = strspn(line, " ") + depth;
        for (size_t i = 0; *line && i <= level; i++) {
            longer = cli_text("%s%s", all, i == 0 ? "\n" : unit);
            free(all);
            all = longer;
        }
    }
    return all;
}

/* A new last member of the object. */
static char *insert(const char *text, const struct texts *t, const struct object *o,
                    const char *member, const char *unit, unsigned depth)
{
    _cleanup_free_ char *lead = cli_text("%s%s", unit, depth > 1 ? unit : "");
    size_t at = o->count > 0 ? o->last.end : o->open + 1;
    size_t next = skip_blanks(t->bare, at);
    bool comma = o->count > 0 && t->bare[next] == ','; /* one that stands there already */
    bool closed =
        !memchr(t->bare + at, '\n', o->close - at); /* the brace follows on the same line */
    _cleanup_free_ char *piece = cli_text(
        "%s\n%s%s%s%s%s", o->count > 0 && !comma ? "," : "", lead, member, comma ? "," : "",
        closed && o->count == 0 ? "\n" : "", closed && o->count == 0 && depth > 1 ? unit : "");

    at = comma ? next + 1 : at;
    return replace(text, at, at, piece);
}

static char *cut(const char *text, const struct texts *t, const struct object *o)
{
    size_t from = o->found.key, next = skip_blanks(t->bare, o->found.end);
    bool comma = t->bare[next] == ',';
    size_t to = comma ? next + 1 : o->found.end;
    size_t old = o->before ? skip_blanks(t->bare, o->before) : 0; /* the comma before */
    _cleanup_free_ char *rest = NULL;

    while (from > o->open + 1 && (text[from - 1] == ' ' || text[from - 1] == '\t')) {
        from--;
    }
    from -= from > o->open + 1 && text[from - 1] == '\n';
    from -= from > o->open + 1 && text[from - 1] == '\r';
    rest = replace(text, from, to, "");
    return !comma && old > 0 ? replace(rest, old, old + 1, "") : cli_copy(rest, strlen(rest));
}

static char *edit(const char *text, const struct texts *t, const char *object, const char *name,
                  const json_t *value)
{
    struct object root = walk(t->plain, skip_blanks(t->plain, 0), object);
    struct object inner =
        root.found.end ? walk(t->plain, root.found.value, name) : (struct object){0};
    _cleanup_free_ char *unit = indent_unit(t->plain, &root), *member = NULL;

    if (!value) {
        return root.found.end && inner.found.end ? cut(text, t, &inner) : NULL;
    }
    if (!root.found.end) {
        _cleanup_json_ json_t *whole = json_pack("{s:O}", name, (json_t *)value);
        member = member_text(object, whole, unit, 1);
        return insert(text, t, &root, member, unit, 1);
    }
    member = member_text(name, value, unit, 2);
    return inner.found.end ? replace(text, inner.found.key, inner.found.end, member)
                           : insert(text, t, &inner, member, unit, 2);
}

/* ---- All together */

/* What should have come out. */
static json_t *expected(const char *text, const char *object, const char *name, const json_t *value)
{
    json_t *root = cli_json_read(text), *inner = json_object_get(root, object);

    if (root && !inner && value) {
        inner = json_object();
        json_object_set_new(root, object, inner);
    }
    if (!json_is_object(inner)) {
        json_decref(root);
        return NULL;
    }
    if (value) {
        json_object_set(inner, name, (json_t *)value);
    } else {
        json_object_del(inner, name);
    }
    return root;
}

char *cli_json_edit(const char *text, const char *object, const char *name, const json_t *value)
{
    _cleanup_json_ json_t *good = expected(text, object, name, value), *seen = NULL;
    struct texts t = texts_of(text);
    char *edited = good ? edit(text, &t, object, name, value) : NULL;

    texts_done(&t);
    seen = edited ? cli_json_read(edited) : NULL;
    if (!seen || !json_equal(good, seen)) {
        free(edited);
        return NULL;
    }
    return edited;
}
