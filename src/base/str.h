/* SPDX-License-Identifier: Apache-2.0 */
/*
 * str.h: text helpers. Nothing here knows locales; numbers are parsed strictly (the whole string,
 * no sign, no blanks) and with a maximum.
 */
#ifndef BX_BASE_STR_H
#define BX_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

static inline bool bx_streq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}
static inline bool bx_startswith(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}
bool bx_endswith(const char *s, const char *suffix);
/* A new string (caller frees) or NULL when out of memory. */
char *bx_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* -EINVAL, -ERANGE (over max). */
int bx_parse_u64(const char *s, uint64_t max, uint64_t *ret);
/* "1073741824", "512k", "512M", "2G", "2GiB", "1.5G"; units of 1024 up to T, case-insensitive; up to
 * six digits of a fraction. -EINVAL, -ERANGE. */
int bx_parse_size(const char *s, uint64_t *ret);
/* Human form of a byte count, "1.5 GB" style with units of 1000 like Docker's tables; buf >= 16. */
const char *bx_format_size(uint64_t bytes, char *buf, size_t size);
/* Length of the UTF-8 character at data (its value in *ret), 0 if there is none or it is bad. */
size_t bx_utf8_decode(const void *data, size_t len, uint32_t *ret);
bool bx_utf8_valid(const char *s, size_t len);
/* A copy fit for one line of a terminal or log: the bytes of controls, line breaks, marks that turn
 * the direction of text, and bad UTF-8 as \xNN; at most max bytes of output, "..." where cut. Doing
 * it twice changes nothing. NULL when out of memory. */
char *bx_escape(const void *data, size_t len, size_t max);

/* A NULL-terminated vector of strings with a maximum count. {0} with max set is a valid empty one. */
struct bx_strv {
    char **v; /* NULL while empty; else n pointers and a NULL */
    size_t n;
    size_t max; /* 0: 4096 */
};
/* Copies s. -ENOMEM, -E2BIG. */
int bx_strv_add(struct bx_strv *sv, const char *s);
int bx_strv_add_mem(struct bx_strv *sv, const char *s, size_t len); /* -EINVAL on embedded NUL */
/* Sets NAME=VALUE in an environment vector, replacing an older NAME. -EINVAL for an empty name or one
 * with '='. */
int bx_strv_setenv(struct bx_strv *sv, const char *name, const char *value);
/* Adds all, or none on failure. */
int bx_strv_copy(struct bx_strv *dst, const char *const *argv, size_t argc);
/* Drops all entries behind the first n. */
void bx_strv_truncate(struct bx_strv *sv, size_t n);
void bx_strv_done(struct bx_strv *sv);
#define _cleanup_strv_ _cleanup_(bx_strv_done)

#endif
