/* SPDX-License-Identifier: Apache-2.0 */
/* values.c: see values.h. */
#include "cli/values.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Reads digits at *p and moves it behind them. -1: no digit there, -2: too large. */
static int take_number(const char **p, uint64_t *ret)
{
    uint64_t n = 0;

    if (!isdigit((unsigned char)**p)) {
        return -1;
    }
    for (; isdigit((unsigned char)**p); (*p)++) {
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(**p - '0'), &n)) {
            return -2;
        }
    }
    *ret = n;
    return 0;
}

int cli_parse_number(const char *text, uint64_t *ret)
{
    uint64_t n;
    int r = take_number(&text, &n);

    if (r < 0) {
        return r;
    }
    if (*text) {
        return -1;
    }
    *ret = n;
    return 0;
}

int cli_parse_size(const char *text, uint64_t *ret)
{
    static const char units[] = "bkmgt";
    uint64_t n;
    unsigned power = 0;
    int r = take_number(&text, &n);

    if (r < 0) {
        return r;
    }
    if (*text) {
        const char *unit = strchr(units, tolower((unsigned char)*text));

        if (!unit) {
            return -1;
        }
        power = (unsigned)(unit - units);
        text++;
        if (power > 0 && *text && strcasecmp(text, "b") != 0 && strcasecmp(text, "ib") != 0) {
            return -1;
        }
        if (power == 0 && *text) {
            return -1;
        }
    }
    if (power && n > UINT64_MAX >> (10 * power)) {
        return -2;
    }
    *ret = n << (10 * power);
    return 0;
}

static const struct time_unit {
    const char *name;
    uint64_t ms;
} time_units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

/* Reads NUMBER[.FRACTION] at *p in units of `unit` once that is known: leaves whole and thousandths. */
static int take_decimal(const char **p, uint64_t *whole, uint64_t *thousandths)
{
    int r = take_number(p, whole);
    uint64_t scale = 100;

    *thousandths = 0;
    if (r < 0 || **p != '.') {
        return r;
    }
    (*p)++;
    if (!isdigit((unsigned char)**p)) {
        return -1;
    }
    for (; isdigit((unsigned char)**p); (*p)++) {
        *thousandths += (uint64_t)(**p - '0') * scale;
        scale /= 10;
    }
    return 0;
}

/* The unit at *p, from index `from` on; -1 if there is none. Moves *p behind it. */
static int take_unit(const char **p, size_t from)
{
    size_t n = strspn(*p, "hms");

    for (size_t i = from; i < CLI_COUNT(time_units); i++) {
        if (strlen(time_units[i].name) == n && memcmp(*p, time_units[i].name, n) == 0) {
            *p += n;
            return (int)i;
        }
    }
    return -1;
}

int cli_parse_time(const char *text, uint64_t *ret_ms)
{
    const char *start = text;
    uint64_t total = 0;
    size_t next = 0;

    do {
        uint64_t whole, part, ms;
        bool first = text == start;
        int r = take_decimal(&text, &whole, &part);
        int unit = 2;

        if (r < 0) {
            return r;
        }
        if (*text || !first) { /* only a lone number may go without a unit */
            unit = take_unit(&text, next);
        }
        if (unit < 0) {
            return -1;
        }
        next = (size_t)unit + 1;
        if (__builtin_mul_overflow(whole, time_units[unit].ms, &ms) ||
            __builtin_add_overflow(ms, part * time_units[unit].ms / 1000, &ms) ||
            __builtin_add_overflow(total, ms, &total)) {
            return -2;
        }
    } while (*text);
    *ret_ms = total;
    return 0;
}

static const char *const signal_names[] = {
    [1] = "HUP",     [2] = "INT",   [3] = "QUIT",   [4] = "ILL",   [5] = "TRAP",  [6] = "ABRT",
    [7] = "BUS",     [8] = "FPE",   [9] = "KILL",   [10] = "USR1", [11] = "SEGV", [12] = "USR2",
    [13] = "PIPE",   [14] = "ALRM", [15] = "TERM",  [17] = "CHLD", [18] = "CONT", [19] = "STOP",
    [20] = "TSTP",   [21] = "TTIN", [22] = "TTOU",  [23] = "URG",  [24] = "XCPU", [25] = "XFSZ",
    [26] = "VTALRM", [27] = "PROF", [28] = "WINCH", [29] = "IO",   [30] = "PWR",  [31] = "SYS",
};

int cli_parse_signal(const char *text)
{
    uint64_t n;

    if (cli_parse_number(text, &n) == 0) {
        return n >= 1 && n <= 64 ? (int)n : -1;
    }
    if (strncasecmp(text, "SIG", 3) == 0) {
        text += 3;
    }
    for (size_t i = 1; i < CLI_COUNT(signal_names); i++) {
        if (signal_names[i] && strcasecmp(text, signal_names[i]) == 0) {
            return (int)i;
        }
    }
    return -1;
}

void cli_size_text(uint64_t bytes, char ret[CLI_VALUE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double n = (double)bytes;
    size_t u = 0;

    while (n >= 999.5 && u + 1 < CLI_COUNT(units)) {
        n /= 1024;
        u++;
    }
    (void)snprintf(ret, CLI_VALUE_TEXT, u > 0 && n < 9.95 ? "%.1f %s" : "%.0f %s", n, units[u]);
}

void cli_size_exact(uint64_t bytes, char ret[CLI_VALUE_TEXT])
{
    static const char units[] = "\0KMGT";
    unsigned u = 0;

    while (u < 4 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        u++;
    }
    (void)snprintf(ret, CLI_VALUE_TEXT, "%" PRIu64 "%.1s", bytes, units + u);
}

void cli_age_text(int64_t then, int64_t now, char ret[CLI_VALUE_TEXT])
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{365 * 86400, "year"}, {30 * 86400, "month"}, {7 * 86400, "week"}, {86400, "day"},
                 {3600, "hour"},        {60, "minute"},        {1, "second"}};
    int64_t age = now > then ? now - then : 0;

    for (size_t i = 0; i < CLI_COUNT(units); i++) {
        int64_t n = age / units[i].seconds;

        if (n > 0) {
            (void)snprintf(ret, CLI_VALUE_TEXT, "%" PRId64 " %s%s ago", n, units[i].name,
                           n == 1 ? "" : "s");
            return;
        }
    }
    (void)snprintf(ret, CLI_VALUE_TEXT, "just now");
}

void cli_time_text(int64_t then, char ret[CLI_VALUE_TEXT])
{
    time_t t = (time_t)then;
    struct tm tm;

    if (!gmtime_r(&t, &tm) || strftime(ret, CLI_VALUE_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        (void)snprintf(ret, CLI_VALUE_TEXT, "?");
    }
}

void cli_time_exact(uint64_t ms, char ret[CLI_VALUE_TEXT])
{
    size_t unit = 0;

    while (unit + 1 < CLI_COUNT(time_units) && ms % time_units[unit].ms) {
        unit++;
    }
    (void)snprintf(ret, CLI_VALUE_TEXT, "%" PRIu64 "%s", ms / time_units[unit].ms,
                   time_units[unit].name);
}

void cli_duration_text(uint64_t ms, char ret[CLI_VALUE_TEXT])
{
    if (ms % 1000) {
        (void)snprintf(ret, CLI_VALUE_TEXT, "%" PRIu64 " ms", ms);
    } else if (ms < 60000 || ms % 60000) {
        (void)snprintf(ret, CLI_VALUE_TEXT, "%" PRIu64 " s", ms / 1000);
    } else {
        (void)snprintf(ret, CLI_VALUE_TEXT, "%" PRIu64 " min", ms / 60000);
    }
}
