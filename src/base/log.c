/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c: formats a line for the sink. A line that is longer than the buffer is cut: a log must not
 * need memory to say that memory is short.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void bx_log(const struct bx_log *log, int level, const char *area, const char *fmt, ...)
{
    if (!log || !log->fn || level > log->level) {
        return;
    }
    char line[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof(line)) {
        snprintf(line + sizeof(line) - 4, 4, "...");
    }
    log->fn(log->data, level, area, n < 0 ? fmt : line);
}
