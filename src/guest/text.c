/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.c: errors in words. See text.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "guest/text.h"

static int set(struct failure *f, int errnum, const char *fmt, va_list ap)
{
    errnum = errnum < 0 ? -errnum : errnum;
    errnum = errnum ? errnum : EIO;
    if (f->errnum == 0) {
        f->errnum = errnum;
        (void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
    }
    return -errnum;
}

int failure_set(struct failure *f, int errnum, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int first = f->errnum == 0;
    int r = set(f, errnum, fmt, ap);
    va_end(ap);
    if (first) {
        size_t len = strlen(f->text);
        (void)snprintf(f->text + len, sizeof(f->text) - len, ": %s", strerror(-r));
    }
    return r;
}

int failure_say(struct failure *f, int errnum, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int r = set(f, errnum, fmt, ap);
    va_end(ap);
    return r;
}
