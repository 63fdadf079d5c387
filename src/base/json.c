/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c: JSON by jansson.
 *
 * Input is hostile: nesting is measured before jansson, which recurses, sees the text; duplicate keys
 * are refused, because two readers may take different ones; what an error quotes of the input is
 * escaped. Getters never convert: a wrong type is an error, not a zero.
 */
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"

/* How deep brackets nest outside of strings; all else is jansson's to check. */
static size_t nesting(const char *s, size_t len)
{
    size_t depth = 0, most = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = s[i];
        if (in_string) {
            i += c == '\\'; /* whatever is escaped does not end the string */
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            depth++;
            most = depth > most ? depth : most;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return most;
}

int bx_json_parse(const void *data, size_t len, const char *what, json_t **ret, boxlite_error **err)
{
    if (len && nesting(data, len) > BX_JSON_MAX_DEPTH) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: nested deeper than %d levels", what,
                       BX_JSON_MAX_DEPTH);
    }
    json_error_t e = {0};
    errno = 0;
    json_t *v = json_loadb(len ? data : "", len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (v) {
        *ret = v;
        return 0;
    }
    /* Where an allocation fails in its depths jansson says nothing, or calls the token an invalid one; the
     * allocator's own word stays. */
    if (json_error_code(&e) == json_error_out_of_memory || !e.text[0] || errno == ENOMEM) {
        return bx_fail_oom(err);
    }
    _cleanup_free_ char *text = bx_escape(e.text, strlen(e.text), sizeof(e.text));
    return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: line %d, column %d: %s", what, e.line, e.column,
                   text ? text : "bad JSON");
}

int bx_json_read(int dirfd, const char *path, size_t max, json_t **ret, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(max);
    int r = bx_read_file(dirfd, path, &b);
    if (r == -EFBIG) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: larger than %zu bytes", path, max);
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading %s", path);
    }
    return bx_json_parse(bx_buf_data(&b), b.len, path, ret, err);
}

char *bx_json_text(const json_t *v)
{
    return json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
}

char *bx_json_text_pretty(const json_t *v)
{
    return json_dumps(v, JSON_INDENT(2) | JSON_ENCODE_ANY);
}

static int wrong(const char *key, const char *expected, boxlite_error **err)
{
    return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: not %s", key, expected);
}

/* Finds obj[key]: 1 and *ret, 0 if it is absent and may be, or an error. */
static int find(const json_t *obj, const char *key, bool optional, json_t **ret,
                boxlite_error **err)
{
    if (!json_is_object(obj)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: looked for in what is not an object", key);
    }
    json_t *v = json_object_get(obj, key);
    if (v && !json_is_null(v)) {
        *ret = v;
        return 1;
    }
    return optional ? 0 : bx_fail(err, BOXLITE_E_INTEGRITY, "%s: missing", key);
}

/* The same for a value of one type. */
static int find_typed(const json_t *obj, const char *key, bool optional, json_type type,
                      const char *expected, json_t **ret, boxlite_error **err)
{
    json_t *v = NULL;
    int r = find(obj, key, optional, &v, err);
    if (r <= 0) {
        return r;
    }
    if (json_typeof(v) != type) {
        return wrong(key, expected, err);
    }
    *ret = v;
    return 1;
}

int bx_json_str(const json_t *obj, const char *key, bool optional, const char **ret,
                boxlite_error **err)
{
    json_t *v = NULL;
    int r = find_typed(obj, key, optional, JSON_STRING, "a string", &v, err);
    if (r <= 0) {
        return r;
    }
    if (strlen(json_string_value(v)) != json_string_length(v)) {
        return wrong(key, "a string without NUL", err);
    }
    *ret = json_string_value(v);
    return 0;
}

int bx_json_u64(const json_t *obj, const char *key, bool optional, uint64_t max, uint64_t *ret,
                boxlite_error **err)
{
    json_t *v = NULL;
    int r = find(obj, key, optional, &v, err);
    if (r <= 0) {
        return r;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > max) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: not an integer from 0 to %" PRIu64, key, max);
    }
    *ret = (uint64_t)json_integer_value(v);
    return 0;
}

int bx_json_i64(const json_t *obj, const char *key, bool optional, int64_t *ret,
                boxlite_error **err)
{
    json_t *v = NULL;
    int r = find_typed(obj, key, optional, JSON_INTEGER, "an integer", &v, err);
    if (r <= 0) {
        return r;
    }
    *ret = json_integer_value(v);
    return 0;
}

int bx_json_bool(const json_t *obj, const char *key, bool optional, bool *ret, boxlite_error **err)
{
    json_t *v = NULL;
    int r = find(obj, key, optional, &v, err);
    if (r <= 0) {
        return r;
    }
    if (!json_is_boolean(v)) {
        return wrong(key, "true or false", err);
    }
    *ret = json_is_true(v);
    return 0;
}

static int get_container(const json_t *obj, const char *key, bool optional, json_type type,
                         const char *expected, json_t **ret, boxlite_error **err)
{
    int r = find_typed(obj, key, optional, type, expected, ret, err);
    return r < 0 ? r : 0;
}

int bx_json_array(const json_t *obj, const char *key, bool optional, json_t **ret,
                  boxlite_error **err)
{
    return get_container(obj, key, optional, JSON_ARRAY, "an array", ret, err);
}

int bx_json_object(const json_t *obj, const char *key, bool optional, json_t **ret,
                   boxlite_error **err)
{
    return get_container(obj, key, optional, JSON_OBJECT, "an object", ret, err);
}

int bx_json_strv(const json_t *obj, const char *key, bool optional, struct bx_strv *sv,
                 boxlite_error **err)
{
    json_t *list = NULL;
    int r = find_typed(obj, key, optional, JSON_ARRAY, "an array of strings", &list, err);
    if (r <= 0) {
        return r;
    }
    size_t before = sv->n, i;
    const json_t *v;
    json_array_foreach(list, i, v)
    {
        r = json_is_string(v) ? bx_strv_add_mem(sv, json_string_value(v), json_string_length(v))
                              : -EINVAL;
        if (r < 0) {
            bx_strv_truncate(sv, before);
            return r == -ENOMEM  ? bx_fail_oom(err)
                   : r == -E2BIG ? bx_fail(err, BOXLITE_E_INTEGRITY, "%s: too many entries", key)
                                 : wrong(key, "an array of strings without NUL", err);
        }
    }
    return 0;
}

int bx_json_set(json_t *obj, const char *key, json_t *v)
{
    if (!v) {
        return -ENOMEM;
    }
    if (!bx_utf8_valid(key, strlen(key)) || !json_is_object(obj)) {
        json_decref(v);
        return -EINVAL;
    }
    return json_object_set_new(obj, key, v) < 0 ? -ENOMEM : 0;
}

json_t *bx_json_bytes(const void *data, size_t len)
{
    const char *p = data;
    if (bx_utf8_valid(p, len)) {
        return json_stringn(len ? p : "", len);
    }
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(SIZE_MAX / 4);
    for (size_t i = 0; i < len;) {
        uint32_t c;
        size_t n = bx_utf8_decode(p + i, len - i, &c);
        int r = n ? bx_buf_append(&b, p + i, n) : bx_buf_appends(&b, replacement);
        if (r < 0) {
            return NULL;
        }
        i += n ? n : 1;
    }
    return json_stringn(bx_buf_str(&b), b.len);
}

json_t *bx_json_from_strv(const struct bx_strv *sv)
{
    _cleanup_json_ json_t *list = json_array();
    for (size_t i = 0; list && i < sv->n; i++) {
        if (json_array_append_new(list, bx_json_bytes(sv->v[i], strlen(sv->v[i]))) < 0) {
            return NULL;
        }
    }
    return steal_ptr(&list);
}
