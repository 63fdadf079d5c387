/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.c: error objects.
 *
 * An error is made once, at the place that knows what failed, and grows context on its way up. A
 * message is always one line of at most MESSAGE_MAX bytes: control characters, which can only come
 * from names and data of outside, become '?', and what is too long is cut. When there is no memory
 * for an object the static one stands in; it is never changed and never freed. When there is no
 * memory for more context or a hint, the error stays as it is: late detail is worth less than the
 * first cause.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

#define MESSAGE_MAX 4096

struct boxlite_error {
    int code;
    int errnum;
    char *message;
    char *hint;
};

static char oom_message[] = "out of memory";
static boxlite_error oom_error = {
    .code = BOXLITE_E_NO_MEMORY, .errnum = ENOMEM, .message = oom_message};

static const char *const code_names[] = {
    [-BOXLITE_OK] = "OK",
    [-BOXLITE_E_INVALID] = "INVALID",
    [-BOXLITE_E_NOT_FOUND] = "NOT_FOUND",
    [-BOXLITE_E_EXISTS] = "EXISTS",
    [-BOXLITE_E_BUSY] = "BUSY",
    [-BOXLITE_E_STATE] = "STATE",
    [-BOXLITE_E_DENIED] = "DENIED",
    [-BOXLITE_E_AUTH] = "AUTH",
    [-BOXLITE_E_UNSUPPORTED] = "UNSUPPORTED",
    [-BOXLITE_E_TIMEOUT] = "TIMEOUT",
    [-BOXLITE_E_CANCELLED] = "CANCELLED",
    [-BOXLITE_E_NETWORK] = "NETWORK",
    [-BOXLITE_E_INTEGRITY] = "INTEGRITY",
    [-BOXLITE_E_NO_SPACE] = "NO_SPACE",
    [-BOXLITE_E_NO_MEMORY] = "NO_MEMORY",
    [-BOXLITE_E_IO] = "IO",
    [-BOXLITE_E_GUEST] = "GUEST",
    [-BOXLITE_E_ENGINE] = "ENGINE",
    [-BOXLITE_E_INTERNAL] = "INTERNAL",
    [-BOXLITE_E_AGAIN] = "AGAIN",
};

static bool code_known(int code)
{
    return code <= 0 && code > -(int)BX_ARRAY_SIZE(code_names);
}

/* Keeps a text within one line and the maximum. */
static void make_one_line(char *s)
{
    size_t n = 0;
    for (; s[n]; n++) {
        unsigned char c = (unsigned char)s[n];
        if (n == MESSAGE_MAX) {
            memcpy(s + n - 3, "...", 4);
            return;
        }
        if (c < 0x20 || c == 0x7f) {
            s[n] = '?';
        }
    }
}

static char *format_line(const char *fmt, va_list ap)
{
    char *s = NULL;
    if (vasprintf(&s, fmt, ap) < 0) {
        return NULL;
    }
    make_one_line(s);
    return s;
}

/* Takes message and hint (also on failure). */
static int store(boxlite_error **err, int code, int errnum, char *message, char *hint)
{
    boxlite_error *e = message ? malloc(sizeof(*e)) : NULL;
    if (!e) {
        free(message);
        free(hint);
        return bx_fail_oom(err);
    }
    *e = (boxlite_error){.code = code, .errnum = errnum, .message = message, .hint = hint};
    boxlite_error_free(*err);
    *err = e;
    return code;
}

/* A failure whose code is no failure is a bug, but must not look like success. */
static int sane_code(int code)
{
    return code < 0 && code_known(code) ? code : BOXLITE_E_INTERNAL;
}

static int refine_code(int code, int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
        return BOXLITE_E_NO_SPACE;
    case ENOMEM:
        return BOXLITE_E_NO_MEMORY;
    case EACCES:
    case EPERM:
        return BOXLITE_E_DENIED;
    case ENOENT:
        return BOXLITE_E_NOT_FOUND;
    default:
        return code;
    }
}

int bx_fail(boxlite_error **err, int code, const char *fmt, ...)
{
    code = sane_code(code);
    if (!err) {
        return code;
    }
    va_list ap;
    va_start(ap, fmt);
    char *message = format_line(fmt, ap);
    va_end(ap);
    return store(err, code, 0, message, NULL);
}

int bx_fail_errno(boxlite_error **err, int code, int errnum, const char *fmt, ...)
{
    /* INT_MIN has no positive twin, and is no errno either. */
    errnum = errnum < 0 && errnum != INT32_MIN ? -errnum : errnum;
    code = sane_code(code);
    if (code == BOXLITE_E_IO) {
        code = refine_code(code, errnum);
    }
    if (!err) {
        return code;
    }
    va_list ap;
    va_start(ap, fmt);
    _cleanup_free_ char *what = format_line(fmt, ap);
    va_end(ap);
    char *message = NULL;
    if (what) {
        message = errnum ? bx_asprintf("%s: %s", what, strerror(errnum)) : steal_ptr(&what);
    }
    return store(err, code, errnum, message, NULL);
}

int bx_fail_oom(boxlite_error **err)
{
    if (err) {
        boxlite_error_free(*err);
        *err = &oom_error;
    }
    return BOXLITE_E_NO_MEMORY;
}

void bx_wrap(boxlite_error **err, const char *fmt, ...)
{
    if (!err || !*err || *err == &oom_error) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    _cleanup_free_ char *context = format_line(fmt, ap);
    va_end(ap);
    char *message = context ? bx_asprintf("%s: %s", context, (*err)->message) : NULL;
    if (message) {
        make_one_line(message);
        free((*err)->message);
        (*err)->message = message;
    }
}

void bx_hint(boxlite_error **err, const char *fmt, ...)
{
    if (!err || !*err || *err == &oom_error) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    char *hint = format_line(fmt, ap);
    va_end(ap);
    if (hint) {
        free((*err)->hint);
        (*err)->hint = hint;
    }
}

int bx_fail_copy(boxlite_error **err, int code, int errnum, const char *message, const char *hint)
{
    code = sane_code(code);
    if (!err) {
        return code;
    }
    char *m = strndup(message, MESSAGE_MAX + 1);
    char *h = hint ? strndup(hint, MESSAGE_MAX + 1) : NULL;
    if (m) {
        make_one_line(m);
    }
    if (h) {
        make_one_line(h);
    }
    return store(err, code, errnum, m, h);
}

int bx_fail_again(boxlite_error **err, const boxlite_error *from)
{
    return bx_fail_copy(err, from->code, from->errnum, from->message, from->hint);
}

const char *boxlite_error_name(int code)
{
    return code_known(code) ? code_names[-code] : "UNKNOWN";
}

int boxlite_error_code(const boxlite_error *err)
{
    return err ? err->code : BOXLITE_OK;
}

int boxlite_error_errno(const boxlite_error *err)
{
    return err ? err->errnum : 0;
}

const char *boxlite_error_message(const boxlite_error *err)
{
    return err ? err->message : "no error";
}

const char *boxlite_error_hint(const boxlite_error *err)
{
    return err ? err->hint : NULL;
}

void boxlite_error_free(boxlite_error *err)
{
    if (!err || err == &oom_error) {
        return;
    }
    free(err->message);
    free(err->hint);
    free(err);
}
