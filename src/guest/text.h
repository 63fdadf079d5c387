/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h: an error in words, of bounded size, that fits in one write to a pipe: the way a child tells the
 * agent why it could not do its work. The first error stays.
 */
#ifndef BX_GUEST_TEXT_H
#define BX_GUEST_TEXT_H

#include <stdint.h>

struct failure {
    int32_t errnum; /* positive errno, 0: none */
    int32_t code;   /* exit code of a command that could not start: 126 or 127 */
    char text[248];
};

/* Fills f with the text and ": strerror(errnum)"; returns -errnum. errnum may be negative. */
int failure_set(struct failure *f, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, without the words of errnum, which says only what kind it is. */
int failure_say(struct failure *f, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
