/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h: the test harness of the C tests.
 *
 *     TEST(parses_plain_numbers)
 *     {
 *         uint64_t v;
 *         ASSERT_EQ(bx_parse_u64("12", 100, &v), 0);
 *         ASSERT_OK(bx_json_parse("{}", 2, "x", &j, ERR));
 *         ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_json_parse("{", 1, "x", &j, ERR));
 *         ASSERT_CONTAINS(err_message(), "line 1");
 *     }
 *
 * Tests register themselves; main() is the harness'. Each runs in a fork and a process group of its
 * own, with a time-out, and fails if it leaves a descriptor open, closes one that it found open,
 * leaves a child running or not reaped, or (under LeakSanitizer) leaks memory. Its output is shown
 * only if it fails. The program speaks TAP 13; run `test_x NAME…` for single tests, `--list` for names.
 * BX_TEST_SCALE=N multiplies time-outs.
 */
#ifndef BX_TESTS_HARNESS_H
#define BX_TESTS_HARNESS_H

#include <boxlite.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

struct harness_test {
    const char *name;
    void (*fn)(void);
    unsigned seconds; /* 0: the default, 20 */
    struct harness_test *next;
};
void harness_register(struct harness_test *test);

#define TEST(name) TEST_FOR(name, 0)
/* A test that may take so many seconds. */
#define TEST_FOR(name_, seconds_)                                                                  \
    static void test_fn_##name_(void);                                                             \
    __attribute__((constructor)) static void test_add_##name_(void)                                \
    {                                                                                              \
        static struct harness_test test = {                                                        \
            .name = #name_, .fn = test_fn_##name_, .seconds = (seconds_)};                         \
        harness_register(&test);                                                                   \
    }                                                                                              \
    static void test_fn_##name_(void)

/* Ends the test as skipped; say what was missing. */
#define SKIP(...) harness_skip(__VA_ARGS__)
#define FAIL(...) harness_fail(__FILE__, __LINE__, __VA_ARGS__)

#define ASSERT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            FAIL("is not so: %s", #cond);                                                          \
        }                                                                                          \
    } while (0)
/* Integers of any type. */
#define ASSERT_EQ(a, b) ASSERT_INT_OP_(a, ==, b)
#define ASSERT_NE(a, b) ASSERT_INT_OP_(a, !=, b)
#define ASSERT_LT(a, b) ASSERT_INT_OP_(a, <, b)
#define ASSERT_LE(a, b) ASSERT_INT_OP_(a, <=, b)
#define ASSERT_GT(a, b) ASSERT_INT_OP_(a, >, b)
#define ASSERT_GE(a, b) ASSERT_INT_OP_(a, >=, b)
#define ASSERT_INT_OP_(a, op, b)                                                                   \
    do {                                                                                           \
        intmax_t harness_a_ = (intmax_t)(a), harness_b_ = (intmax_t)(b);                           \
        if (!(harness_a_ op harness_b_)) {                                                         \
            FAIL("is not so: %s %s %s: %jd, %jd", #a, #op, #b, harness_a_, harness_b_);            \
        }                                                                                          \
    } while (0)
#define ASSERT_NULL(p) ASSERT((p) == NULL)
#define ASSERT_NOT_NULL(p) ASSERT((p) != NULL)
/* Strings; either may be NULL. */
#define ASSERT_STREQ(a, b) harness_streq(__FILE__, __LINE__, #a, (a), (b))
#define ASSERT_CONTAINS(text, part) harness_contains(__FILE__, __LINE__, #text, (text), (part))
#define ASSERT_MEM(a, b, len) harness_mem(__FILE__, __LINE__, #a, (a), (b), (len))

/* ERR is a `boxlite_error **` for one call; the harness owns what is stored there, until the next. */
#define ERR harness_err()
/* The call returned >= 0, of the kind -errno or BOXLITE_E_*. Shows the error given to ERR. */
#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        (void)harness_err();                                                                       \
        harness_ok(__FILE__, __LINE__, #call, (intmax_t)(call));                                   \
    } while (0)
/* The call returned this BOXLITE_E_* code, and its error (if it took ERR) says the same. */
#define ASSERT_FAILS(code, call)                                                                   \
    do {                                                                                           \
        (void)harness_err();                                                                       \
        harness_fails(__FILE__, __LINE__, #call, (code), (intmax_t)(call));                        \
    } while (0)
const char *err_message(void); /* of the last error given to ERR; "" if there was none */
const char *err_hint(void);    /* the same; "" if it has none */

/* A folder for this test alone, removed with all in it when the test is over, however it ends. */
const char *tmpdir(void);
/* The folder's descriptor, the harness' own. */
int tmpdir_fd(void);

/* Reaps orphans that the test made on purpose (children of its children), 10 s at most. */
void reap_orphans(void);
/* True once the condition holds, polled with short naps, 10 s at most: only for what gives no event. */
bool eventually(bool (*condition)(void *data), void *data);
/* Nanoseconds are multiplied by it where the machine is slowed by a sanitizer. */
unsigned time_scale(void);

/* Failing allocations. The body runs again and again, with its 1st, 2nd, … allocation failing, until
 * one run needs none more; it must end normally, and checks that each run gave the right result or,
 * if allocation_failed(), reported being out of memory and leaked nothing. Counted are malloc, calloc,
 * realloc, strdup, strndup and vasprintf of our own code, and everything of jansson.
 *     TORTURE {
 *         int r = bx_buf_append(&b, "x", 1);
 *         ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 0);
 *     }
 */
#define TORTURE for (torture_begin(); torture_next();)
bool allocation_failed(void); /* in this run */
void torture_begin(void);
bool torture_next(void);

/* ---- Behind the macros ------------------------------------------------------------------------ */

#define HARNESS_PRINTF(f, a) __attribute__((format(printf, f, a)))
void harness_fail(const char *file, int line, const char *fmt, ...) HARNESS_PRINTF(3, 4)
    __attribute__((noreturn));
void harness_skip(const char *fmt, ...) HARNESS_PRINTF(1, 2) __attribute__((noreturn));
void harness_streq(const char *file, int line, const char *what, const char *a, const char *b);
void harness_contains(const char *file, int line, const char *what, const char *s, const char *sub);
void harness_mem(const char *file, int line, const char *what, const void *a, const void *b,
                 size_t len);
boxlite_error **harness_err(void);
void harness_ok(const char *file, int line, const char *what, intmax_t r);
void harness_fails(const char *file, int line, const char *what, int code, intmax_t r);

#endif
