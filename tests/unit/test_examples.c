/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_examples.c: the example programs do what they say.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "box_fixture.h"

/* Runs an example; its output is the text's, what it complains of has `complaint` in it if that is
 * not NULL, and no box is left of it. */
static void run_with(const char *name, const char *const args[], int status, const char *text,
                     const char *complaint)
{
    struct bx_buf out = BX_BUF_INIT(1 << 20), err = BX_BUF_INIT(1 << 20);
    const char *argv[8] = {NULL};
    char program[700];
    int got;
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_list *list;

    (void)snprintf(program, sizeof(program), "%s/example-%s", EXAMPLES_DIR, name);
    argv[0] = program;
    for (size_t i = 0; args[i]; i++) {
        argv[i + 1] = args[i];
    }
    ASSERT_OK(setenv("BOXLITE_HOME", bf_home(), 1));
    ASSERT_OK(setenv("BOXLITE_LIBEXEC", FAKESHIM_DIR, 1));
    const struct bx_spawn spec = {.path = program, .argv = argv};
    ASSERT_OK(bx_run(&spec, &out, &err, bx_deadline_ms(20000 * time_scale()), &got, ERR));
    if (got != status) {
        FAIL("exit code %d: %s", got, bx_buf_str(&err));
    }
    ASSERT_STREQ(bx_buf_str(&out), text);
    if (complaint) {
        ASSERT_CONTAINS(bx_buf_str(&err), complaint);
    }
    bx_buf_done(&out);
    bx_buf_done(&err);
    ASSERT_OK(boxlite_box_list_new(rt, &list, ERR));
    ASSERT_EQ(boxlite_box_list_count(list), 0);
    boxlite_box_list_free(list);
    boxlite_runtime_free(rt);
}

static void run(const char *name, const char *const args[], int status, const char *text)
{
    run_with(name, args, status, text, NULL);
}

TEST(hello)
{
    run("hello", (const char *[]){IMAGE, NULL}, 0, "Hello from a micro-VM\n");
}

TEST(stream)
{
    run("stream", (const char *[]){IMAGE, "/bin/sh", "-c", "seq 1 3; exit 4", NULL}, 4,
        "1\n2\n3\n");
}

TEST(feed)
{
    run("feed", (const char *[]){IMAGE, "/bin/sh", "-c", "cat; echo end; exit 5", NULL}, 5,
        "end\n");
}

TEST(own_loop)
{
    run("own_loop", (const char *[]){IMAGE, NULL}, 3, "started\nrunning\nstopped\n");
}

TEST_FOR(many, 60)
{
    run("many", (const char *[]){"5", IMAGE, NULL}, 0,
        "box 1: 1\nbox 2: 4\nbox 3: 9\nbox 4: 16\nbox 5: 25\n");
}

TEST(what_fails_is_told)
{
    run_with("hello", (const char *[]){"none:1", NULL}, 125, "", "none:1");
    run_with("stream", (const char *[]){"none:1", "true", NULL}, 125, "", "none:1");
    run_with("feed", (const char *[]){"none:1", "true", NULL}, 125, "", "none:1");
    run_with("own_loop", (const char *[]){"none:1", NULL}, 125, "", "none:1");
    run_with("many", (const char *[]){"2", "none:1", NULL}, 125, "", "none:1");
}
