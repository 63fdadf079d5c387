/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_harness.c: the harness sees what it promises to see.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "harness.h"

/* Runs the victim's test: its status; what it printed in out. */
static int run_victim(const char *name, struct bx_buf *out)
{
    const char *path = getenv("HARNESS_VICTIM");
    if (!path) {
        SKIP("HARNESS_VICTIM names no program");
    }
    int status = -1;
    const char *argv[] = {path, name, NULL};
    struct bx_spawn spec = {.path = path, .argv = argv, .death_signal = SIGKILL};
    ASSERT_OK(
        bx_run(&spec, out, NULL, bx_deadline_ms(15000 * (int64_t)time_scale()), &status, ERR));
    return status;
}

static void expect(const char *name, int status, const char *line, const char *detail)
{
    struct bx_buf out = BX_BUF_INIT(1 << 20);
    int r = run_victim(name, &out);
    ASSERT_CONTAINS(bx_buf_str(&out), "TAP version 13\n1..1\n");
    ASSERT_CONTAINS(bx_buf_str(&out), line);
    ASSERT_CONTAINS(bx_buf_str(&out), detail);
    ASSERT_EQ(r, status);
    bx_buf_done(&out);
}

TEST(a_pass_is_reported_without_its_output)
{
    struct bx_buf out = BX_BUF_INIT(65536);
    ASSERT_EQ(run_victim("passes", &out), 0);
    ASSERT_STREQ(bx_buf_str(&out), "TAP version 13\n1..1\nok 1 - passes\n");
    bx_buf_done(&out);
}

TEST(a_failure_shows_both_values_and_the_output)
{
    expect("fails", 1, "not ok 1 - fails\n", "output of a failing test");
    expect("fails", 1, "not ok 1 - fails\n", "is not so: 6 * 7 == 41: 42, 41");
    expect("fails_by_text", 1, "not ok", "is \"a\", not \"b\"");
}

TEST(an_error_object_is_shown)
{
    expect("fails_by_error", 1, "not ok", "DENIED): opening the vault");
    expect("fails_by_wrong_code", 1, "not ok", "(DENIED), not IO: opening the vault");
}

TEST(a_skip_gives_its_reason)
{
    expect("skips", 0, "ok 1 - skips # SKIP no moon here\n", "");
}

TEST(descriptor_leaks_are_failures)
{
    expect("leaks_descriptor", 1, "not ok", "/dev/null");
    expect("closes_foreign_descriptor", 1, "not ok", "closed descriptor 0");
}

TEST(child_leaks_are_failures)
{
    expect("leaks_child", 1, "not ok", "left running child");
    expect("leaks_zombie", 1, "not ok", "not reaped child");
    expect("leaks_orphan_of_new_session", 1, "not ok", "left running child");
}

TEST(a_hanging_test_is_ended)
{
    expect("hangs", 1, "not ok", "hangs: timed out");
}

TEST(a_test_that_ends_early_is_a_failure)
{
    expect("crashes", 1, "not ok", "ended by signal 6");
    expect("exits", 1, "not ok", "exited by itself with status 0");
}

TEST(the_folder_of_a_failed_test_is_removed)
{
    struct bx_buf out = BX_BUF_INIT(65536);
    ASSERT_EQ(run_victim("leaves_folder_and_fails", &out), 1);
    const char *path = strstr(bx_buf_str(&out), "folder ");
    ASSERT_NOT_NULL(path);
    path += strlen("folder ");
    char name[256];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(path, "\n"), path);
    struct stat st;
    ASSERT_CONTAINS(name, "bx-test-");
    ASSERT_EQ(stat(name, &st), -1);
    bx_buf_done(&out);
}

TEST(torture_finds_what_is_not_checked)
{
    expect("torture_without_allocation", 1, "not ok", "allocates nothing");
    expect("torture_finds_unchecked_allocation", 1, "not ok", "");
}

TEST(an_unknown_test_is_refused)
{
    struct bx_buf out = BX_BUF_INIT(65536);
    ASSERT_EQ(run_victim("no_such_test", &out), 2);
    bx_buf_done(&out);
}

TEST_FOR(one_failure_does_not_stop_the_others, 60)
{
    struct bx_buf out = BX_BUF_INIT(1 << 20);
    ASSERT_EQ(run_victim(NULL, &out), 1);
    ASSERT_CONTAINS(bx_buf_str(&out), "ok 1 - passes\n");
    ASSERT_CONTAINS(bx_buf_str(&out), " - passes_after_all_that\n");
    ASSERT_NULL(strstr(bx_buf_str(&out), "not ok 18"));
    bx_buf_done(&out);
}
