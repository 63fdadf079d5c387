/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c: see record.h. Each type has one row of functions (write, read, done), so a table is
 * walked without a chain of ifs. bx_json_* name the key in their errors; what is checked here does
 * too.
 */
#include "box/record.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"

#define STR_MAX 4096u
#define STRV_MAX 4096u

/* ---- bytes that may not be text */

static json_t *bytes_to_json(const char *s)
{
    static const char digits[] = "0123456789abcdef";
    size_t len = strlen(s);
    json_t *v = json_stringn(s, len); /* NULL if it is no UTF-8 */
    if (v) {
        return v;
    }
    _cleanup_free_ char *hex = malloc(2 * len + 1);
    if (!hex) {
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        hex[2 * i] = digits[(uint8_t)s[i] >> 4];
        hex[2 * i + 1] = digits[(uint8_t)s[i] & 15];
    }
    hex[2 * len] = '\0';
    return json_pack("{s:s}", "hex", hex);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A new string, or NULL with errno EINVAL (not such a value) or ENOMEM. */
static char *hex_to_bytes(const char *hex)
{
    size_t len = strlen(hex);
    char *s = malloc(len / 2 + 1);
    if (!s) {
        errno = ENOMEM;
        return NULL;
    }
    for (size_t i = 0; i < len / 2; i++) {
        int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);
        if (hi < 0 || lo < 0 || (hi | lo) == 0) {
            free(s);
            errno = EINVAL;
            return NULL;
        }
        s[i] = (char)(hi << 4 | lo);
    }
    s[len / 2] = '\0';
    if (len % 2 != 0) {
        free(s);
        errno = EINVAL;
        return NULL;
    }
    return s;
}

static char *bytes_from_json(const json_t *v)
{
    const char *hex = json_string_value(json_object_get(v, "hex"));
    if (json_is_object(v) && hex) {
        return hex_to_bytes(hex);
    }
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v)) {
        errno = EINVAL;
        return NULL;
    }
    char *s = strdup(json_string_value(v));
    if (!s) {
        errno = ENOMEM;
    }
    return s;
}

/* ---- one field */

static json_t *to_json(const struct bx_rec_table *t, const void *rec);

static int bad_field(const struct bx_rec_field *f, boxlite_error **err)
{
    return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: not a valid value", f->key);
}

static int read_bytes(const struct bx_rec_field *f, const json_t *v, size_t max, char **ret,
                      boxlite_error **err)
{
    _cleanup_free_ char *s = bytes_from_json(v);
    if (!s) {
        return errno == ENOMEM ? bx_fail_oom(err) : bad_field(f, err);
    }
    if (strlen(s) > max || (f->ok && !f->ok(s))) {
        return bad_field(f, err);
    }
    *ret = steal_ptr(&s);
    return 0;
}

static int read_str(const struct bx_rec_field *f, const json_t *v, void *p, boxlite_error **err)
{
    return read_bytes(f, v, f->max ? (size_t)f->max : STR_MAX, p, err);
}

static json_t *write_str(const struct bx_rec_field *f, const void *p)
{
    const char *s = *(char *const *)p;
    return s ? bytes_to_json(s) : json_null();
}

static void done_str(const struct bx_rec_field *f, void *p)
{
    free(*(char **)p);
    *(char **)p = NULL;
}

static int read_strv(const struct bx_rec_field *f, const json_t *v, void *p, boxlite_error **err)
{
    struct bx_strv *sv = p;
    sv->max = f->max ? (size_t)f->max : STRV_MAX;
    if (!json_is_array(v) || json_array_size(v) > sv->max) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: not a list of at most %zu strings", f->key,
                       sv->max);
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        _cleanup_free_ char *s = NULL;
        int r = read_bytes(f, json_array_get(v, i), SIZE_MAX, &s, err);
        if (r < 0) {
            return r;
        }
        if (bx_strv_add(sv, s) < 0) {
            return bx_fail_oom(err);
        }
    }
    return 0;
}

static json_t *write_strv(const struct bx_rec_field *f, const void *p)
{
    const struct bx_strv *sv = p;
    _cleanup_json_ json_t *list = json_array();
    for (size_t i = 0; list && i < sv->n; i++) {
        if (json_array_append_new(list, bytes_to_json(sv->v[i])) < 0) {
            return NULL;
        }
    }
    return steal_ptr(&list);
}

static void done_strv(const struct bx_rec_field *f, void *p)
{
    bx_strv_done(p);
}

static int read_bool(const struct bx_rec_field *f, const json_t *v, void *p, boxlite_error **err)
{
    if (!json_is_boolean(v)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: not true or false", f->key);
    }
    *(bool *)p = json_is_true(v);
    return 0;
}

static json_t *write_bool(const struct bx_rec_field *f, const void *p)
{
    return json_boolean(*(const bool *)p);
}

/* JSON integers are int64 here: larger u64 values have no use in these files and are refused. */
static int read_number(const struct bx_rec_field *f, const json_t *v, int64_t *ret,
                       boxlite_error **err)
{
    int64_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < f->min || (n > 0 && (uint64_t)n > f->max)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: not an integer from %" PRId64 " to %" PRIu64,
                       f->key, f->min, f->max);
    }
    *ret = n;
    return 0;
}

#define NUMBER(name, type)                                                                         \
    static int read_##name(const struct bx_rec_field *f, const json_t *v, void *p,                 \
                           boxlite_error **err)                                                    \
    {                                                                                              \
        int64_t n = 0;                                                                             \
        int r = read_number(f, v, &n, err);                                                        \
        if (r == 0) {                                                                              \
            *(type *)p = (type)n;                                                                  \
        }                                                                                          \
        return r;                                                                                  \
    }                                                                                              \
    static json_t *write_##name(const struct bx_rec_field *f, const void *p)                       \
    {                                                                                              \
        return json_integer((json_int_t) * (const type *)p);                                       \
    }                                                                                              \
    struct bx_swallow_semicolon

NUMBER(u16, uint16_t);
NUMBER(u32, uint32_t);
NUMBER(u64, uint64_t);
NUMBER(i32, int32_t);
NUMBER(i64, int64_t);

/* ---- lists of records */

static int read_list(const struct bx_rec_field *f, const json_t *v, void *p, boxlite_error **err)
{
    struct bx_rec_list *list = p;
    size_t max = f->max ? (size_t)f->max : STRV_MAX;
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > max) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: not a list of at most %zu entries", f->key,
                       max);
    }
    if (n > 0 && !(list->v = calloc(n, f->item->size))) {
        return bx_fail_oom(err);
    }
    for (size_t i = 0; i < n; i++) {
        void *entry = (char *)list->v + i * f->item->size;
        int r = bx_rec_from_json(f->item, json_array_get(v, i), f->key, entry, err);
        if (r < 0) {
            return r;
        }
        list->n = i + 1;
    }
    return 0;
}

static json_t *write_list(const struct bx_rec_field *f, const void *p)
{
    const struct bx_rec_list *list = p;
    _cleanup_json_ json_t *array = list->n > 0 ? json_array() : NULL;
    if (list->n == 0) {
        return json_null();
    }
    for (size_t i = 0; array && i < list->n; i++) {
        json_t *entry = to_json(f->item, (const char *)list->v + i * f->item->size);
        if (!entry || json_array_append_new(array, entry) < 0) {
            return NULL;
        }
    }
    return steal_ptr(&array);
}

static void done_list(const struct bx_rec_field *f, void *p)
{
    bx_rec_list_done(f->item, p);
}

static const struct type_ops {
    int (*read)(const struct bx_rec_field *f, const json_t *v, void *p, boxlite_error **err);
    json_t *(*write)(const struct bx_rec_field *f, const void *p);
    void (*done)(const struct bx_rec_field *f, void *p);
} types[] = {
    [BX_REC_STR] = {read_str, write_str, done_str},
    [BX_REC_STRV] = {read_strv, write_strv, done_strv},
    [BX_REC_BOOL] = {read_bool, write_bool, NULL},
    [BX_REC_U16] = {read_u16, write_u16, NULL},
    [BX_REC_U32] = {read_u32, write_u32, NULL},
    [BX_REC_U64] = {read_u64, write_u64, NULL},
    [BX_REC_I32] = {read_i32, write_i32, NULL},
    [BX_REC_I64] = {read_i64, write_i64, NULL},
    [BX_REC_LIST] = {read_list, write_list, done_list},
};

/* ---- whole records */

void bx_rec_done(const struct bx_rec_table *t, void *rec)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct bx_rec_field *f = &t->fields[i];
        if (types[f->type].done) {
            types[f->type].done(f, (char *)rec + f->offset);
        }
    }
}

void bx_rec_list_done(const struct bx_rec_table *t, struct bx_rec_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        bx_rec_done(t, (char *)list->v + i * t->size);
    }
    free(list->v);
    *list = (struct bx_rec_list){0};
}

static int read_field(const struct bx_rec_field *f, const json_t *obj, void *rec,
                      boxlite_error **err)
{
    const json_t *v = json_object_get(obj, f->key);
    if (!v || json_is_null(v)) {
        return f->optional ? 0 : bx_fail(err, BOXLITE_E_INTEGRITY, "%s: missing", f->key);
    }
    return types[f->type].read(f, v, (char *)rec + f->offset, err);
}

int bx_rec_from_json(const struct bx_rec_table *t, const json_t *obj, const char *what, void *rec,
                     boxlite_error **err)
{
    int r = 0;
    if (!json_is_object(obj)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: not a JSON object", what);
    }
    for (size_t i = 0; i < t->n && r == 0; i++) {
        r = read_field(&t->fields[i], obj, rec, err);
    }
    if (r < 0) {
        bx_wrap(err, "%s", what);
        bx_rec_done(t, rec);
    }
    return r;
}

static json_t *to_json(const struct bx_rec_table *t, const void *rec)
{
    _cleanup_json_ json_t *obj = json_object();
    for (size_t i = 0; obj && i < t->n; i++) {
        const struct bx_rec_field *f = &t->fields[i];
        json_t *v = types[f->type].write(f, (const char *)rec + f->offset);
        if (json_is_null(v)) {
            continue; /* an absent string or an empty list is left out */
        }
        if (bx_json_set(obj, f->key, v) < 0) {
            return NULL;
        }
    }
    return steal_ptr(&obj);
}

char *bx_rec_text(const struct bx_rec_table *t, const void *rec)
{
    _cleanup_json_ json_t *obj = to_json(t, rec);
    return obj ? bx_json_text(obj) : NULL;
}

int bx_rec_read(const struct bx_rec_table *t, int dirfd, const char *name, size_t max, void *rec,
                boxlite_error **err)
{
    _cleanup_json_ json_t *obj = NULL;
    int r = bx_json_read(dirfd, name, max, &obj, err);
    if (r < 0) {
        return r;
    }
    return bx_rec_from_json(t, obj, name, rec, err);
}

/* Atomic towards other processes, not towards a loss of power: without the wait for the disk. */
static int replace_file(int dirfd, const char *name, const void *data, size_t len)
{
    char tmp[64];
    _cleanup_close_ int fd = bx_mkstempat(dirfd, ".new", tmp, sizeof(tmp));
    int r = fd < 0 ? fd : bx_write_full(fd, data, len);
    if (fd >= 0 && r == 0 && renameat(dirfd, tmp, dirfd, name) < 0) {
        r = -errno;
    }
    if (fd >= 0 && r < 0) {
        (void)unlinkat(dirfd, tmp, 0);
    }
    return r;
}

int bx_rec_write(const struct bx_rec_table *t, const void *rec, int dirfd, const char *name,
                 size_t max, bool durable, boxlite_error **err)
{
    _cleanup_free_ char *text = bx_rec_text(t, rec);
    if (!text) {
        return bx_fail_oom(err);
    }
    if (strlen(text) > max) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: %zu bytes, more than the %zu allowed", name,
                       strlen(text), max);
    }
    int r = durable ? bx_write_file(dirfd, name, text, strlen(text), 0600)
                    : replace_file(dirfd, name, text, strlen(text));
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing %s", name) : 0;
}
