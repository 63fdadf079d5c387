/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeutil.h: clocks. Deadlines are monotonic nanoseconds; BX_NEVER is none.
 */
#ifndef BX_BASE_TIMEUTIL_H
#define BX_BASE_TIMEUTIL_H

#include <stddef.h>
#include <stdint.h>

#define BX_NEVER UINT64_MAX
#define BX_MS UINT64_C(1000000)
#define BX_SEC UINT64_C(1000000000)

uint64_t bx_now_mono(void);
uint64_t bx_now_real(void);
/* Monotonic deadline so many ms from now; negative: BX_NEVER. */
uint64_t bx_deadline_ms(int64_t ms);
/* Milliseconds left for poll(2), rounded up: -1 for BX_NEVER, 0 if past. */
int bx_deadline_left_ms(uint64_t deadline);
/* "2026-11-30T16:00:00Z"; buf >= 32. */
const char *bx_format_rfc3339(int64_t seconds, char *buf, size_t size);
/* "3 minutes ago" as Docker says it; buf >= 32. */
const char *bx_format_ago(int64_t seconds, int64_t now, char *buf, size_t size);

#endif
