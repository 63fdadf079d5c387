/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeutil.c: clocks and their text forms.
 */
#include "base/timeutil.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"

static uint64_t now(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * BX_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t bx_now_mono(void)
{
    return now(CLOCK_MONOTONIC);
}

uint64_t bx_now_real(void)
{
    return now(CLOCK_REALTIME);
}

uint64_t bx_deadline_ms(int64_t ms)
{
    if (ms < 0) {
        return BX_NEVER;
    }
    uint64_t t = bx_now_mono();
    return (uint64_t)ms > (BX_NEVER - 1 - t) / BX_MS ? BX_NEVER : t + (uint64_t)ms * BX_MS;
}

int bx_deadline_left_ms(uint64_t deadline)
{
    if (deadline == BX_NEVER) {
        return -1;
    }
    uint64_t t = bx_now_mono();
    if (deadline <= t) {
        return 0;
    }
    uint64_t ms = (deadline - t - 1) / BX_MS + 1;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

const char *bx_format_rfc3339(int64_t seconds, char *buf, size_t size)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    if (t != seconds || !gmtime_r(&t, &tm) || tm.tm_year + 1900 < 0 || tm.tm_year + 1900 > 9999) {
        snprintf(buf, size, "0000-00-00T00:00:00Z");
        return buf;
    }
    snprintf(buf, size, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    return buf;
}

const char *bx_format_ago(int64_t seconds, int64_t now_seconds, char *buf, size_t size)
{
    enum { MIN = 60, HOUR = 3600, DAY = 24 * HOUR };
    static const struct {
        int64_t below; /* seconds */
        int64_t unit;
        const char *text;
    } steps[] = {
        {1, 1, "Less than a second ago"},
        {2, 1, "1 second ago"},
        {MIN, 1, "%lld seconds ago"},
        {2 * MIN, MIN, "About a minute ago"},
        {HOUR, MIN, "%lld minutes ago"},
        {2 * HOUR, HOUR, "About an hour ago"},
        {48 * HOUR, HOUR, "%lld hours ago"},
        {14 * DAY, DAY, "%lld days ago"},
        {60 * DAY, 7 * DAY, "%lld weeks ago"},
        {730 * DAY, 30 * DAY, "%lld months ago"},
        {INT64_MAX, 365 * DAY, "%lld years ago"},
    };
    uint64_t gap = now_seconds > seconds ? (uint64_t)now_seconds - (uint64_t)seconds : 0;
    int64_t age = gap >= INT64_MAX ? INT64_MAX - 1 : (int64_t)gap;
    size_t i = 0;
    while (age >= steps[i].below) {
        i++;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the formats are the table's */
    snprintf(buf, size, steps[i].text, (long long)(age / steps[i].unit));
#pragma GCC diagnostic pop
    return buf;
}
