/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.c: the runner.
 *
 * One test at a time: fork, wait for the pidfd or the time-out, kill what is left of its group, print
 * the TAP line. The test's process reports through shared memory, because an exit status cannot carry
 * a reason, and says "passed" only as its very last act: a crash, an exit() in the code under test, or
 * a kill leaves no outcome and so is a failure. Both processes are child subreapers, so that no
 * descendant escapes either the leak check or the clean-up.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "internal.h"

#define DEFAULT_SECONDS 20
#define OUTPUT_SHOWN 65536

struct harness_report *harness_report;
static struct harness_test *first_test, **last_test = &first_test;

void harness_register(struct harness_test *test)
{
    *last_test = test;
    last_test = &test->next;
}

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

unsigned time_scale(void)
{
    const char *s = getenv("BX_TEST_SCALE");
    uint64_t scale;
    if (s && bx_parse_u64(s, 1000, &scale) == 0 && scale > 0) {
        return (unsigned)scale;
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer)
    return 5;
#else
    return 1;
#endif
}

/* ---- The test's process ----------------------------------------------------------------------- */

static void __attribute__((noreturn)) child_main(const struct harness_test *test, int output)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct fd_set_names *before = harness_fds();
    test->fn();
    harness_release();
    fflush(NULL);
    struct fd_set_names *after = harness_fds();
    int faults = harness_fds_compare(before, after) + harness_children_left();
    harness_fds_free(before);
    harness_fds_free(after);
    faults += harness_memory_left();
    harness_report->outcome = faults ? OUTCOME_FAILED : OUTCOME_PASSED;
    _exit(faults ? 1 : 0);
}

/* ---- The runner ------------------------------------------------------------------------------- */

/* Shows the end of what the test printed, as TAP comments. */
static void show_output(int fd)
{
    static char buf[OUTPUT_SHOWN + 1];
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > OUTPUT_SHOWN ? size - OUTPUT_SHOWN : 0;
    ssize_t n = pread(fd, buf, OUTPUT_SHOWN, from);
    for (ssize_t i = 0; i < n;) {
        size_t len = strcspn(buf + i, "\n");
        len = len > (size_t)(n - i) ? (size_t)(n - i) : len;
        printf("#   %.*s\n", (int)len, buf + i);
        i += (ssize_t)len + 1;
    }
}

static void print_result(const struct harness_test *test, int number, bool timed_out, int status)
{
    switch (harness_report->outcome) {
    case OUTCOME_PASSED:
        printf("ok %d - %s\n", number, test->name);
        return;
    case OUTCOME_SKIPPED:
        printf("ok %d - %s # SKIP %s\n", number, test->name, harness_report->reason);
        return;
    case OUTCOME_NONE:
    case OUTCOME_FAILED:
        break;
    }
    printf("not ok %d - %s\n", number, test->name);
    if (timed_out) {
        printf("# %s: timed out\n", test->name);
    } else if (WIFSIGNALED(status)) {
        printf("# %s: ended by signal %d, %s\n", test->name, WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    } else if (harness_report->outcome == OUTCOME_NONE) {
        printf("# %s: exited by itself with status %d\n", test->name, WEXITSTATUS(status));
    }
}

/* Waits for the end of the test's process. False if it had to be killed. */
static bool await_test(pid_t pid, unsigned seconds, int *ret_status)
{
    int pidfd = bx_pidfd_open(pid);
    if (pidfd < 0) { /* valgrind 3.19, for one, does not know it: use the sanitizers */
        kill(pid, SIGKILL);
        printf("Bail out! no pidfd: %s\n", strerror(-pidfd));
        exit(99);
    }
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int n;
    do {
        n = poll(&p, 1, (int)(seconds * 1000));
    } while (n < 0 && errno == EINTR);
    bool in_time = n == 1;
    kill(-pid, SIGKILL); /* the group: itself if it is late, and what it left behind */
    kill(pid, SIGKILL);
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR) {
    }
    close(pidfd);
    harness_children_kill();
    return in_time;
}

static bool run_test(const struct harness_test *test, int number)
{
    memset(harness_report, 0, sizeof(*harness_report));
    int output = memfd_create("output", MFD_CLOEXEC);
    fflush(NULL);
    pid_t pid = output < 0 ? -1 : fork();
    if (pid == 0) {
        child_main(test, output);
    }
    if (pid < 0) {
        printf("Bail out! cannot start a test: %s\n", strerror(errno));
        exit(99);
    }
    setpgid(pid, pid);
    unsigned seconds = (test->seconds ? test->seconds : DEFAULT_SECONDS) * time_scale();
    int status = 0;
    bool in_time = await_test(pid, seconds, &status);
    if (!in_time) {
        harness_report->outcome = OUTCOME_FAILED;
    }
    bool failed =
        harness_report->outcome != OUTCOME_PASSED && harness_report->outcome != OUTCOME_SKIPPED;
    print_result(test, number, !in_time, status);
    if (failed) {
        show_output(output);
    }
    close(output);
    if (harness_report->tmpdir[0]) {
        int r = bx_rm_rf(AT_FDCWD, harness_report->tmpdir);
        if (r < 0) {
            printf("# %s: removing %s: %s\n", test->name, harness_report->tmpdir, strerror(-r));
        }
    }
    return !failed;
}

static bool wanted(const struct harness_test *test, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (bx_streq(argv[i], test->name)) {
            return true;
        }
    }
    return argc < 2;
}

static bool is_test(const char *name)
{
    const struct harness_test *t = first_test;
    while (t && !bx_streq(t->name, name)) {
        t = t->next;
    }
    return t != NULL;
}

int main(int argc, char **argv)
{
    bool list = argc == 2 && bx_streq(argv[1], "--list");
    for (int i = 1; i < argc && !list; i++) {
        if (!is_test(argv[i])) {
            fprintf(stderr, "%s: no test \"%s\"; --list shows their names\n", argv[0], argv[i]);
            return 2;
        }
    }
    int count = 0;
    for (const struct harness_test *t = first_test; t; t = t->next) {
        count += wanted(t, list ? 1 : argc, argv);
        if (list) {
            printf("%s\n", t->name);
        }
    }
    if (list) {
        return 0;
    }
    harness_report = mmap(NULL, sizeof(*harness_report), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == 0 || harness_report == MAP_FAILED || bx_fix_stdio() < 0) {
        printf("Bail out! no tests, or no memory\n");
        return 99;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    printf("TAP version 13\n1..%d\n", count);
    int number = 0, failures = 0;
    for (const struct harness_test *t = first_test; t; t = t->next) {
        if (wanted(t, argc, argv)) {
            failures += !run_test(t, ++number);
        }
    }
    fflush(NULL);
    return failures ? 1 : 0;
}
