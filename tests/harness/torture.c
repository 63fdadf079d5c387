/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torture.c: allocations that fail when told to.
 *
 * Test programs are linked with --wrap for the functions below, which works with sanitizers as well
 * (a failed allocation's leak is then seen) and leaves libraries alone. jansson is given our malloc by
 * its own hook. Counting is off outside of TORTURE.
 */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

#define RUNS_MAX 100000

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_vasprintf(char **ret, const char *fmt, va_list ap);

/* Visible, because the linker makes a sanitized libboxlite's calls refer to them too. */
#pragma GCC visibility push(default)
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_vasprintf(char **ret, const char *fmt, va_list ap);
#pragma GCC visibility pop

static atomic_bool counting;
static atomic_long countdown; /* the allocation that makes it 0 fails */
static atomic_bool failed;
static long run;

static bool must_fail(void)
{
    if (atomic_load(&counting) && atomic_fetch_sub(&countdown, 1) == 1) {
        atomic_store(&failed, true);
        errno = ENOMEM;
        return true;
    }
    return false;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return must_fail() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return must_fail() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
    return must_fail() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return must_fail() ? NULL : __real_strndup(s, n);
}

int __wrap_vasprintf(char **ret, const char *fmt, va_list ap)
{
    return must_fail() ? -1 : __real_vasprintf(ret, fmt, ap);
}

bool allocation_failed(void)
{
    return atomic_load(&failed);
}

void torture_begin(void)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    run = 0;
    atomic_store(&failed, true); /* lets the first run begin */
}

bool torture_next(void)
{
    atomic_store(&counting, false);
    if (!atomic_exchange(&failed, false)) {
        if (run < 2) {
            FAIL("TORTURE: the body allocates nothing");
        }
        return false;
    }
    if (++run > RUNS_MAX) {
        FAIL("TORTURE: no end after %d allocations", RUNS_MAX);
    }
    atomic_store(&countdown, run);
    atomic_store(&counting, true);
    return true;
}
