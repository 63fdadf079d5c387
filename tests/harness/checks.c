/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checks.c: what tests call: checks, the error slot, the temporary folder, waiting.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "base/timeutil.h"
#include "harness.h"
#include "internal.h"

#define PATIENCE_MS 10000

static boxlite_error *error_slot;
static int tmp_fd = -1;

void harness_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%s:%d: ", file, line);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
    fflush(stdout);
    harness_report->outcome = OUTCOME_FAILED;
    _exit(1);
}

void harness_skip(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(harness_report->reason, sizeof(harness_report->reason), fmt, ap);
    va_end(ap);
    harness_report->outcome = OUTCOME_SKIPPED;
    _exit(0);
}

void harness_streq(const char *file, int line, const char *what, const char *a, const char *b)
{
    if (!a || !b ? a != b : strcmp(a, b) != 0) {
        harness_fail(file, line, "%s is \"%s\", not \"%s\"", what, a ? a : "(NULL)",
                     b ? b : "(NULL)");
    }
}

void harness_contains(const char *file, int line, const char *what, const char *s, const char *sub)
{
    if (!s || !strstr(s, sub)) {
        harness_fail(file, line, "%s is \"%s\", without \"%s\"", what, s ? s : "(NULL)", sub);
    }
}

void harness_mem(const char *file, int line, const char *what, const void *a, const void *b,
                 size_t len)
{
    const uint8_t *pa = a, *pb = b;
    for (size_t i = 0; i < len; i++) {
        if (pa[i] != pb[i]) {
            harness_fail(file, line, "%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, len,
                         pa[i], pb[i]);
        }
    }
}

boxlite_error **harness_err(void)
{
    boxlite_error_free(error_slot);
    error_slot = NULL;
    return &error_slot;
}

const char *err_message(void)
{
    return error_slot ? boxlite_error_message(error_slot) : "";
}

const char *err_hint(void)
{
    const char *hint = boxlite_error_hint(error_slot);
    return hint ? hint : "";
}

void harness_ok(const char *file, int line, const char *what, intmax_t r)
{
    if (error_slot) {
        harness_fail(file, line, "%s gave %jd (%s): %s%s%s", what, r,
                     boxlite_error_name(boxlite_error_code(error_slot)), err_message(),
                     *err_hint() ? "; hint: " : "", err_hint());
    }
    if (r < 0) {
        harness_fail(file, line, "%s gave %jd (%s, or errno %s)", what, r,
                     boxlite_error_name((int)r), strerror((int)-r));
    }
}

void harness_fails(const char *file, int line, const char *what, int code, intmax_t r)
{
    if (r != code) {
        harness_fail(file, line, "%s gave %jd (%s), not %s: %s", what, r,
                     boxlite_error_name((int)r), boxlite_error_name(code), err_message());
    }
    if (error_slot && boxlite_error_code(error_slot) != code) {
        harness_fail(file, line, "%s returned %s, but its error says %s", what,
                     boxlite_error_name(code), boxlite_error_name(boxlite_error_code(error_slot)));
    }
}

const char *tmpdir(void)
{
    if (!harness_report->tmpdir[0]) {
        const char *base = getenv("TMPDIR");
        char path[PATH_MAX];
        int n = snprintf(path, sizeof(path), "%s/bx-test-XXXXXX", base && *base ? base : "/tmp");
        if (n < 0 || (size_t)n >= sizeof(path) || !mkdtemp(path)) {
            FAIL("no temporary folder %s: %s", path, strerror(errno));
        }
        memcpy(harness_report->tmpdir, path, (size_t)n + 1);
    }
    return harness_report->tmpdir;
}

int tmpdir_fd(void)
{
    if (tmp_fd < 0) {
        tmp_fd = open(tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return tmp_fd;
}

void harness_release(void)
{
    (void)harness_err();
    bx_cleanup_close(&tmp_fd);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2 * (long)BX_MS}, NULL);
}

void reap_orphans(void)
{
    uint64_t deadline = bx_deadline_ms((int64_t)PATIENCE_MS * time_scale());
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) {
            return;
        }
        if (pid == 0) {
            if (bx_deadline_left_ms(deadline) == 0) {
                FAIL("orphans still run");
            }
            nap();
        }
    }
}

bool eventually(bool (*condition)(void *data), void *data)
{
    uint64_t deadline = bx_deadline_ms((int64_t)PATIENCE_MS * time_scale());
    while (!condition(data)) {
        if (bx_deadline_left_ms(deadline) == 0) {
            return false;
        }
        nap();
    }
    return true;
}
