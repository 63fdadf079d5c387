/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h: a sink per user of the library; NULL or an empty one is silent. Text that came from outside
 * is escaped by the caller (bx_escape).
 */
#ifndef BX_BASE_LOG_H
#define BX_BASE_LOG_H

#include <boxlite.h>

struct bx_log {
    boxlite_log_fn fn;
    void *data;
    int level;
};

void bx_log(const struct bx_log *log, int level, const char *area, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define bx_debug(log, area, ...) bx_log(log, BOXLITE_LOG_DEBUG, area, __VA_ARGS__)
#define bx_info(log, area, ...) bx_log(log, BOXLITE_LOG_INFO, area, __VA_ARGS__)
#define bx_warn(log, area, ...) bx_log(log, BOXLITE_LOG_WARN, area, __VA_ARGS__)

#endif
