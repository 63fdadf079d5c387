/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsc.c: measures the time-stamp counter against CLOCK_MONOTONIC_RAW, which no clock discipline
 * bends.
 *
 * A sample is a pair of both clocks taken together; of several the tightest is kept, so that being
 * interrupted between the two does no harm. A pair is good to about 50 ns; over SPAN_NS that makes
 * an error of 20 parts in a million, what a computer's own clock has. The first sample is kept for
 * the process' life, so the span, and the accuracy, only grow.
 */
#include "vmm/tsc.h"

#include <pthread.h>
#include <time.h>

#include "base/timeutil.h"

#define SPAN_NS (5 * BX_MS)
#define TRIES 5

#if defined(__x86_64__)
struct sample {
    uint64_t tsc;
    uint64_t ns;
};

static struct sample first;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t now_raw(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (uint64_t)ts.tv_sec * BX_SEC + (uint64_t)ts.tv_nsec;
}

static struct sample take(void)
{
    struct sample best = {0};
    uint64_t best_width = UINT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        uint64_t before = __builtin_ia32_rdtsc();
        uint64_t ns = now_raw();
        uint64_t width = __builtin_ia32_rdtsc() - before;

        if (width < best_width) {
            best_width = width;
            best = (struct sample){.tsc = before + width / 2, .ns = ns};
        }
    }
    return best;
}

static void take_first(void)
{
    first = take();
}

void bx_tsc_begin(void)
{
    (void)pthread_once(&once, take_first);
}

uint64_t bx_tsc_khz(void)
{
    bx_tsc_begin();
    uint64_t age = now_raw() - first.ns;
    if (age < SPAN_NS) {
        struct timespec rest = {.tv_nsec = (long)(SPAN_NS - age)};
        (void)nanosleep(&rest, NULL);
    }
    struct sample last = take();
    if (last.ns <= first.ns || last.tsc <= first.tsc) {
        return 0;
    }
    return (uint64_t)((unsigned __int128)(last.tsc - first.tsc) * 1000000 / (last.ns - first.ns));
}
#else
void bx_tsc_begin(void)
{
}

uint64_t bx_tsc_khz(void)
{
    return 0;
}
#endif
