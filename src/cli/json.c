/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: JSON output; see output.h. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "cli/output.h"

static json_t *cell_value(const struct cli_cell *cell)
{
    const char *exact = cell->exact ? cell->exact : cell->text;

    if (cell->number) {
        return json_integer((json_int_t)strtoull(exact, NULL, 10));
    }
    return json_string(exact);
}

static json_t *row_object(const struct cli_table *t, size_t row)
{
    json_t *object = json_object();

    for (size_t c = 0; object && c < t->ncolumns; c++) {
        const char *key = t->columns[c].key;

        if (key &&
            json_object_set_new(object, key, cell_value(&t->cells[row * t->ncolumns + c])) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static char *dump(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;

    json_decref(value);
    return text;
}

char *cli_json_rows(const struct cli_table *t, bool only)
{
    size_t rows = t->ncells / t->ncolumns;
    json_t *array;

    if (only) {
        return dump(row_object(t, 0));
    }
    array = json_array();
    for (size_t r = 0; r < rows; r++) {
        if (json_array_append_new(array, row_object(t, r)) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return dump(array);
}

char *cli_json_array(char *const *objects, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(array, json_loads(objects[i], 0, NULL)) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return dump(array);
}

bool cli_json_true(const char *object, const char *key)
{
    json_t *root = json_loads(object, 0, NULL), *value = json_object_get(root, key);
    bool yes = json_is_true(value) || json_integer_value(value) != 0;

    json_decref(root);
    return yes;
}

uint64_t cli_json_number(const char *object, const char *key)
{
    json_t *root = json_loads(object, 0, NULL);
    json_int_t number = json_integer_value(json_object_get(root, key));

    json_decref(root);
    return number > 0 ? (uint64_t)number : 0;
}

char *cli_json_text(const char *object, const char *key)
{
    json_t *root = json_loads(object, 0, NULL);
    const char *value = json_string_value(json_object_get(root, key));
    char *text = value ? cli_text("%s", value) : NULL;

    json_decref(root);
    return text;
}

/* Takes the object. */
static void put_line(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    if (!text) {
        cli_die_memory();
        return;
    }
    puts(text);
    fflush(stdout); /* whoever reads them wants them now */
    free(text);
}

void cli_json_event(const char *kind, const char *digest, const char *state, uint64_t done,
                    uint64_t total, const char *note)
{
    put_line(json_pack("{s:s, s:s, s:s, s:I, s:I, s:s?}", "event", kind, "digest", digest, "state",
                       state, "done", (json_int_t)done, "total", (json_int_t)total, "note", note));
}

void cli_json_failure(const char *code, const char *message)
{
    put_line(json_pack("{s:s, s:s, s:s}", "event", "error", "code", code, "message", message));
}

void cli_json_end(const char *name, const char *digest)
{
    put_line(json_pack("{s:s, s:s, s:s}", "event", "end", "name", name, "digest", digest));
}
