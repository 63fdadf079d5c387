/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_box_crash.c: several processes in one home, and processes that are killed at any point of
 * what they do. A child here runs the library from the beginning; after its death the next runtime
 * must find, or make, a sound home.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "box_fixture.h"

/* Each entry of boxes/ has its row and each row its folder; nothing is left in tmp/. */
static bool home_is_sound(void *data)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_list *list;
    size_t folders = 0, left = 0;
    char path[700];
    struct dirent *d;
    ASSERT_OK(boxlite_box_list_new(rt, &list, ERR));
    (void)snprintf(path, sizeof(path), "%s/boxes", bf_home());
    DIR *dir = opendir(path);
    ASSERT_NOT_NULL(dir);
    while ((d = readdir(dir))) {
        folders += d->d_name[0] != '.';
    }
    (void)closedir(dir);
    size_t rows = boxlite_box_list_count(list);
    for (size_t i = 0; i < rows; i++) {
        const char *json;
        int r = boxlite_box_json(boxlite_box_list_get(list, i), &json, NULL);
        ASSERT(r == 0 || r == BOXLITE_E_NOT_FOUND);
    }
    (void)snprintf(path, sizeof(path), "%s/tmp", bf_home());
    dir = opendir(path);
    while (dir && (d = readdir(dir))) {
        left += d->d_name[0] != '.';
    }
    if (dir) {
        (void)closedir(dir);
    }
    boxlite_box_list_free(list);
    boxlite_runtime_free(rt);
    return folders == rows && left == 0;
}

/* A shim may just be at its very end: then the next look finds all in order. */
static void check_home(void)
{
    ASSERT(eventually(home_is_sound, NULL));
}

/* Runs fn in a child, kills it after so long unless it has ended. */
static void run_and_kill(void (*fn)(void), uint64_t after_ns)
{
    struct timespec wait = {(time_t)(after_ns / BX_SEC), (long)(after_ns % BX_SEC)};
    pid_t pid = fork();
    ASSERT_OK(pid);
    if (pid == 0) {
        fn();
        _exit(0);
    }
    (void)nanosleep(&wait, NULL); /* the moment of death is what varies, nothing is waited for */
    (void)kill(pid, SIGKILL);
    ASSERT_EQ(waitpid(pid, NULL, 0), pid);
}

static void create_and_remove(void)
{
    boxlite_runtime *rt = bf_runtime();
    for (;;) {
        boxlite_box *a = bf_box(rt, NULL, NULL, 0), *b = bf_box(rt, NULL, NULL, 0);
        (void)boxlite_box_remove(a, 0, NULL);
        boxlite_box_free(a);
        boxlite_box_free(b);
    }
}

TEST_FOR(killed_while_boxes_are_made_and_removed, 120)
{
    boxlite_runtime_free(bf_runtime());
    for (unsigned i = 0; i < 25; i++) {
        run_and_kill(create_and_remove, (10 + i * 7) * BX_MS);
        check_home();
    }
    reap_orphans(); /* mke2fs, if it was just running */
}

static void start_and_stop(void)
{
    boxlite_runtime *rt = bf_runtime();
    for (;;) {
        boxlite_box *box = bf_box(rt, NULL, "exec sleep 100", BF_START | BF_AUTO_REMOVE);
        bf_expect(box, "echo x", "x\n");
        (void)boxlite_box_stop(box, 0, NULL);
        boxlite_box_free(box);
    }
}

static bool no_box_is_left(void *data)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_list *list;
    size_t ended = 0;
    ASSERT_OK(boxlite_box_list_new(rt, &list, ERR));
    size_t n = boxlite_box_list_count(list);
    for (size_t i = 0; i < n; i++) {
        int state = boxlite_box_state(boxlite_box_list_get(list, i), NULL);
        ended += state == BOXLITE_BOX_CREATED; /* it was killed before it started it */
    }
    boxlite_box_list_free(list);
    boxlite_runtime_free(rt);
    return ended == n;
}

TEST_FOR(killed_owners_leave_no_running_box, 120)
{
    boxlite_runtime_free(bf_runtime());
    for (unsigned i = 0; i < 12; i++) {
        run_and_kill(start_and_stop, (30 + i * 23) * BX_MS);
        ASSERT(eventually(no_box_is_left, NULL));
        check_home();
    }
    reap_orphans();
}

/* ---- Two at once ----------------------------------------------------------------------------- */

#define ROUNDS 15

static void make_and_remove_same_names(void)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_options *o;
    ASSERT_OK(boxlite_box_options_new(IMAGE, &o, ERR));
    ASSERT_OK(boxlite_box_options_set_name(o, "shared", ERR));
    ASSERT_OK(boxlite_box_options_set_disk(o, 64u << 20, ERR));
    for (int i = 0; i < ROUNDS; i++) {
        boxlite_box *box = NULL;
        int r = boxlite_box_create(rt, o, &box, NULL);
        ASSERT(r == 0 || r == BOXLITE_E_EXISTS);
        if (r == BOXLITE_E_EXISTS) {
            r = boxlite_box_open(rt, "shared", &box, NULL);
            ASSERT(r == 0 || r == BOXLITE_E_NOT_FOUND);
        }
        if (r == 0) {
            ASSERT_OK(boxlite_box_remove(box, 1, ERR));
            boxlite_box_free(box);
        }
        boxlite_runtime_free(bf_runtime()); /* sweeps meanwhile */
    }
    boxlite_box_options_free(o);
    boxlite_runtime_free(rt);
}

TEST_FOR(two_processes_make_and_remove_at_once, 120)
{
    pid_t pids[3];
    boxlite_runtime_free(bf_runtime());
    for (size_t i = 0; i < 3; i++) {
        pids[i] = fork();
        ASSERT_OK(pids[i]);
        if (pids[i] == 0) {
            make_and_remove_same_names();
            _exit(0);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        int status;
        ASSERT_EQ(waitpid(pids[i], &status, 0), pids[i]);
        ASSERT_EQ(status, 0);
    }
    check_home();
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* Those that a program sees which is started now. */
static void list_descriptors(char *ret, size_t size)
{
    int out[2];
    ASSERT_OK(bx_pipe(out));
    pid_t pid = fork();
    ASSERT_OK(pid);
    if (pid == 0) {
        (void)dup2(out[1], 1);
        (void)execl("/bin/sh", "sh", "-c", "cd /proc/self/fd && echo *", (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    ASSERT_EQ(waitpid(pid, NULL, 0), pid);
    ASSERT_GT(read(out[0], ret, size - 1), 0);
    (void)close(out[0]);
}

TEST(no_descriptor_is_left_to_a_program_that_the_caller_starts)
{
    char names[256] = "", want[256] = "";
    list_descriptors(want, sizeof(want)); /* what the harness has open in any case */
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, NULL, NULL, BF_START);
    boxlite_exec *exec = bf_sh(box, "exec sleep 100", BF_IN);
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STARTED, 20000, ERR));
    list_descriptors(names, sizeof(names));
    ASSERT_STREQ(names, want);
    boxlite_exec_free(exec);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}
