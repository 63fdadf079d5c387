/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h: the error object behind boxlite_error (public accessors are implemented here).
 *
 * Rule: a function that takes `boxlite_error **err` touches it only on failure; err may be NULL.
 * *err must be NULL on entry. bx_fail() returns its code, so that a failing line is one statement:
 *     return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening %s", path);
 * Context is added where meaning is added: bx_wrap(err, "importing %s", ref) gives
 * "importing x: opening y: Permission denied". Out of memory gives a static object.
 */
#ifndef BX_BASE_ERROR_H
#define BX_BASE_ERROR_H

#include <boxlite.h>

#include "base/cleanup.h"

/* Makes an error. Returns `code`. */
int bx_fail(boxlite_error **err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with ": strerror(errnum)" behind the message. errnum may be negative (-errno). The code
 * is made finer where errnum tells: ENOSPC/EDQUOT NO_SPACE, ENOMEM NO_MEMORY, EACCES/EPERM DENIED,
 * ENOENT NOT_FOUND only if code is BOXLITE_E_IO; any other code is kept. Returns the code used. */
int bx_fail_errno(boxlite_error **err, int code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int bx_fail_oom(boxlite_error **err);
/* Puts "context: " before the message of *err, if there is one. */
void bx_wrap(boxlite_error **err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets the hint of *err, if there is one; replaces an older one. */
void bx_hint(boxlite_error **err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A copy of an error that came from elsewhere (over the wire): code, errno, message, hint|NULL. */
int bx_fail_copy(boxlite_error **err, int code, int errnum, const char *message, const char *hint);
/* A copy of an error object, for one that goes to several places. Returns its code. */
int bx_fail_again(boxlite_error **err, const boxlite_error *from);

BX_DEFINE_CLEANUP(boxlite_error *, boxlite_error_free, bx_cleanup_error);
#define _cleanup_error_ _cleanup_(bx_cleanup_error)

#endif
