/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim.c: tests that fail, leak, hang and crash on purpose; test_harness.c looks whether the harness
 * sees it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "harness.h"

TEST(passes)
{
    printf("output of a passing test\n");
    ASSERT_EQ(1, 1);
}

TEST(fails)
{
    printf("output of a failing test\n");
    ASSERT_EQ(6 * 7, 41);
}

TEST(fails_by_text)
{
    ASSERT_STREQ("a", "b");
}

TEST(fails_by_error)
{
    ASSERT_OK(bx_fail(ERR, BOXLITE_E_DENIED, "opening the vault"));
}

TEST(fails_by_wrong_code)
{
    ASSERT_FAILS(BOXLITE_E_IO, bx_fail(ERR, BOXLITE_E_DENIED, "opening the vault"));
}

TEST(skips)
{
    SKIP("no %s here", "moon");
}

TEST(leaks_descriptor)
{
    ASSERT_GE(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
}

TEST(closes_foreign_descriptor)
{
    close(0);
}

TEST(leaks_child)
{
    if (fork() == 0) {
        pause();
    }
}

TEST(leaks_zombie)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    siginfo_t si;
    waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT);
}

TEST(leaks_orphan_of_new_session)
{
    int p[2];
    ASSERT_EQ(pipe2(p, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0) {
            setsid();
            close(p[0]);
            close(p[1]);
            pause();
        }
        _exit(0);
    }
    close(p[1]);
    char c;
    ASSERT_EQ(read(p[0], &c, 1), 0);
    close(p[0]);
    ASSERT_EQ(waitpid(pid, NULL, 0), pid);
}

TEST_FOR(hangs, 1)
{
    for (;;) {
        pause();
    }
}

TEST(crashes)
{
    abort();
}

TEST(exits)
{
    exit(0);
}

TEST(leaves_folder_and_fails)
{
    FILE *f = fopen("/proc/self/comm", "re");
    fclose(f);
    char path[512];
    snprintf(path, sizeof(path), "%s/a-file", tmpdir());
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    FAIL("folder %s", tmpdir());
}

TEST(torture_without_allocation)
{
    TORTURE
    {
        ASSERT(!allocation_failed());
    }
}

static int first_byte_of_copy(const char *s)
{
    char *p = strdup(s);
    int c = p[0]; /* not checked */
    free(p);
    return c;
}

TEST(torture_finds_unchecked_allocation)
{
    TORTURE
    {
        ASSERT_EQ(first_byte_of_copy("x"), 'x');
    }
}

TEST(passes_after_all_that)
{
    ASSERT_STREQ("a", "a");
}
