/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h: the one place that knows jansson. Values are json_t of jansson; getters check types and say
 * in the error where: "config.json: box.cpus: not an integer from 1 to 256". Parsing refuses
 * duplicate keys, depth and size over the maxima.
 */
#ifndef BX_BASE_JSON_H
#define BX_BASE_JSON_H

#include <boxlite.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define BX_JSON_MAX_DEPTH 128

BX_DEFINE_CLEANUP(json_t *, json_decref, bx_cleanup_json);
#define _cleanup_json_ _cleanup_(bx_cleanup_json)

/* `what` names the source in errors ("manifest sha256:…"). BOXLITE_E_INTEGRITY on bad input. Any JSON
 * value is taken, also a plain string or number. */
int bx_json_parse(const void *data, size_t len, const char *what, json_t **ret,
                  boxlite_error **err);
/* Reads and parses a file of at most max bytes. */
int bx_json_read(int dirfd, const char *path, size_t max, json_t **ret, boxlite_error **err);
/* Compact text, keys in insertion order; caller frees; NULL when out of memory. */
char *bx_json_text(const json_t *v);
char *bx_json_text_pretty(const json_t *v);

/* Getters. *ret is borrowed from obj. Absent (or null) is an error unless `optional`, where *ret is
 * left untouched. obj not an object is an error. */
int bx_json_str(const json_t *obj, const char *key, bool optional, const char **ret,
                boxlite_error **err);
int bx_json_u64(const json_t *obj, const char *key, bool optional, uint64_t max, uint64_t *ret,
                boxlite_error **err);
int bx_json_i64(const json_t *obj, const char *key, bool optional, int64_t *ret,
                boxlite_error **err);
int bx_json_bool(const json_t *obj, const char *key, bool optional, bool *ret, boxlite_error **err);
int bx_json_array(const json_t *obj, const char *key, bool optional, json_t **ret,
                  boxlite_error **err);
int bx_json_object(const json_t *obj, const char *key, bool optional, json_t **ret,
                   boxlite_error **err);
/* An array of strings without NUL, added to sv. */
int bx_json_strv(const json_t *obj, const char *key, bool optional, struct bx_strv *sv,
                 boxlite_error **err);
/* obj[key] = v, which is taken (also on failure; v may be NULL = out of memory): 0, -ENOMEM, or
 * -EINVAL (the key is not UTF-8, obj not an object). */
int bx_json_set(json_t *obj, const char *key, json_t *v);
/* A JSON string from bytes that may be bad UTF-8 (each bad byte becomes U+FFFD). */
json_t *bx_json_bytes(const void *data, size_t len);
json_t *bx_json_from_strv(const struct bx_strv *sv);

#endif
