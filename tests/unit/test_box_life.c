/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_box_life.c: the life of boxes through the library: creation, start, stop, removal, what
 * happens when a shim or this process fails, and the loop that the caller owns.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "box/shim.h"
#include "box/shimproc.h"
#include "box_fixture.h"

/* ---- Creation -------------------------------------------------------------------------------- */

static boxlite_box_options *options(const char *image)
{
    boxlite_box_options *o;
    ASSERT_OK(boxlite_box_options_new(image, &o, ERR));
    ASSERT_OK(boxlite_box_options_set_disk(o, 64u << 20, ERR));
    return o;
}

TEST(an_unknown_image_is_told_with_what_to_do)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_options *o = options("nothing:here");
    boxlite_box *box = NULL;
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_create(rt, o, &box, ERR));
    ASSERT_CONTAINS(err_message(), "nothing:here");
    ASSERT_CONTAINS(err_hint(), "boxlite image");
    ASSERT_NULL(box);
    boxlite_box_options_free(o);
    boxlite_runtime_free(rt);
}

TEST(an_unknown_kernel_is_told_with_what_to_do)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_options *o = options(IMAGE);
    boxlite_box *box = NULL;
    ASSERT_OK(boxlite_box_options_set_kernel(o, "odd", ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_create(rt, o, &box, ERR));
    ASSERT_CONTAINS(err_message(), "\"odd\"");
    ASSERT_CONTAINS(err_hint(), "kernel import");
    boxlite_box_options_free(o);
    boxlite_runtime_free(rt);
}

TEST(a_kernel_that_boxes_use_is_removed_by_force_only)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box[5];
    char name[8];
    for (size_t i = 0; i < BX_ARRAY_SIZE(box); i++) {
        (void)snprintf(name, sizeof(name), "k%zu", i);
        box[i] = bf_box(rt, name, "true", 0);
        if (i == 0) {
            ASSERT_FAILS(BOXLITE_E_BUSY, boxlite_kernel_remove(rt, "default", 0, ERR));
            ASSERT_CONTAINS(err_message(), "used by box k0");
        }
    }
    ASSERT_FAILS(BOXLITE_E_BUSY, boxlite_kernel_remove(rt, "default", 0, ERR));
    ASSERT_CONTAINS(err_message(), "used by boxes k0, k1, k2 and 2 more");
    ASSERT_CONTAINS(err_hint(), "-f");
    ASSERT_OK(boxlite_kernel_remove(rt, "default", 1, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_start(box[0], ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_kernel_remove(rt, "default", 1, ERR));
    for (size_t i = 0; i < BX_ARRAY_SIZE(box); i++) {
        boxlite_box_free(box[i]);
    }
    boxlite_runtime_free(rt);
}

/* What an import has put in is its result, whatever becomes of it at once. */
TEST_FOR(an_image_is_imported_while_another_process_removes_it, 60)
{
    char path[600];
    boxlite_runtime *rt = bf_runtime();
    boxlite_image *image;
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
        boxlite_runtime *other = bf_runtime();
        for (;;) {
            (void)boxlite_image_remove(other, "race", 1, NULL);
        }
    }
    (void)snprintf(path, sizeof(path), "%s/image.tar", tmpdir());
    for (int i = 0; i < 60; i++) {
        ASSERT_OK(boxlite_image_import(rt, path, "race", NULL, &image, ERR));
        ASSERT_CONTAINS(boxlite_image_digest(image), "sha256:");
        boxlite_image_free(image);
    }
    ASSERT_OK(kill(pid, SIGKILL));
    ASSERT_EQ(waitpid(pid, NULL, 0), pid);
    boxlite_runtime_free(rt);
}

TEST(options_name_the_field_that_is_wrong)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_options *o = options(IMAGE);
    boxlite_box *box = NULL;
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_set_name(o, "-x", ERR));
    ASSERT_CONTAINS(err_message(), "name");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_set_cpus(o, 0, ERR));
    ASSERT_CONTAINS(err_message(), "cpus");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_set_memory(o, 1, ERR));
    ASSERT_CONTAINS(err_message(), "memory");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_set_disk(o, 1, ERR));
    ASSERT_CONTAINS(err_message(), "disk");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_set_engine(o, "bochs", ERR));
    ASSERT_CONTAINS(err_message(), "engine");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_set_workdir(o, "a", ERR));
    ASSERT_CONTAINS(err_message(), "workdir");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_add_env(o, "A=B", "1", ERR));
    ASSERT_CONTAINS(err_message(), "env");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_set_tty(o, 1, 0, ERR));
    ASSERT_CONTAINS(err_message(), "tty");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_options_add_volume(o, "/", "b", 0, ERR));
    ASSERT_CONTAINS(err_message(), "volume");
    ASSERT_OK(boxlite_box_options_set_cpus(o, 64, ERR));
    if (sysconf(_SC_NPROCESSORS_ONLN) < 64) {
        ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_create(rt, o, &box, ERR));
        ASSERT_CONTAINS(err_message(), "cpus");
    }
    ASSERT_OK(boxlite_box_options_set_cpus(o, 1, ERR));
    ASSERT_OK(boxlite_box_options_set_main(o, 1, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_create(rt, o, &box, ERR));
    ASSERT_CONTAINS(err_message(), "command");
    boxlite_box_options_free(o);
    boxlite_runtime_free(rt);
}

TEST(names_are_made_up_and_taken_once)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *a = bf_box(rt, NULL, NULL, 0), *b = bf_box(rt, "b", NULL, 0), *c = NULL;
    boxlite_box_options *o = options(IMAGE);
    ASSERT_CONTAINS(boxlite_box_name(a), "_");
    ASSERT_EQ(boxlite_box_state(a, ERR), BOXLITE_BOX_CREATED);
    ASSERT_OK(boxlite_box_options_set_name(o, "b", ERR));
    ASSERT_FAILS(BOXLITE_E_EXISTS, boxlite_box_create(rt, o, &c, ERR));
    ASSERT_CONTAINS(err_message(), "b");
    ASSERT_OK(boxlite_box_open(rt, boxlite_box_id(b), &c, ERR));
    ASSERT_STREQ(boxlite_box_name(c), "b");
    boxlite_box_free(c);
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_open(rt, "zzz", &c, ERR));
    boxlite_box_options_free(o);
    boxlite_box_free(a);
    boxlite_box_free(b);
    boxlite_runtime_free(rt);
}

TEST(what_is_known_of_a_box)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_options *o = options(IMAGE);
    boxlite_box *box = NULL;
    const char *json;
    ASSERT_OK(boxlite_box_options_add_label(o, "a", "1=2", ERR));
    ASSERT_OK(boxlite_box_options_add_label(o, "b", "", ERR));
    ASSERT_OK(boxlite_box_options_add_env(o, "PATH", "/x", ERR));
    ASSERT_OK(boxlite_box_create(rt, o, &box, ERR));
    boxlite_box_options_free(o);
    ASSERT_EQ(boxlite_box_label_count(box), 2);
    ASSERT_STREQ(boxlite_box_label_name(box, 0), "a");
    ASSERT_STREQ(boxlite_box_label_value(box, 0), "1=2");
    ASSERT_STREQ(boxlite_box_label_name(box, 1), "b");
    ASSERT_STREQ(boxlite_box_label_value(box, 1), "");
    ASSERT_NULL(boxlite_box_label_name(box, 2));
    ASSERT_STREQ(boxlite_box_engine(box), "auto");
    ASSERT_STREQ(boxlite_box_image(box), IMAGE);
    ASSERT_LT(llabs(boxlite_box_created(box) - (long long)time(NULL)), 60);
    ASSERT_OK(boxlite_box_json(box, &json, ERR));
    ASSERT_CONTAINS(json, "\"state\":\"created\"");
    ASSERT_CONTAINS(json, "\"network\":\"none\"");
    ASSERT_CONTAINS(json, "PATH=/x");
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

TEST(a_box_is_started_used_stopped_and_removed)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "life", NULL, BF_START);
    const char *json;
    char id[32];
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_RUNNING);
    ASSERT_STREQ(boxlite_box_engine(box), "fake");
    ASSERT_OK(boxlite_box_start(box, ERR)); /* it runs already */
    bf_expect(box, "echo hello", "hello\n");
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_remove(box, 0, ERR));
    ASSERT_CONTAINS(err_hint(), "rm -f");
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_set_detached(box, 1, ERR));
    ASSERT_OK(boxlite_box_pause(box, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_PAUSED);
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_start(box, ERR));
    ASSERT_OK(boxlite_box_resume(box, ERR));
    ASSERT_OK(boxlite_box_stop(box, 1000, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_STOPPED);
    ASSERT_OK(boxlite_box_stop(box, 1000, ERR));
    ASSERT_OK(boxlite_box_wait(box, 0, ERR));
    ASSERT_OK(boxlite_box_json(box, &json, ERR));
    ASSERT_CONTAINS(json, "\"ended_at\"");
    ASSERT_OK(boxlite_box_start(box, ERR)); /* at once again */
    bf_expect(box, "echo again", "again\n");
    ASSERT_OK(boxlite_box_stop(box, 0, ERR));
    (void)snprintf(id, sizeof(id), "%s", boxlite_box_id(box));
    ASSERT_OK(boxlite_box_remove(box, 0, ERR));
    ASSERT(!bf_exists(id, "."));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_state(box, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_start(box, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_remove(box, 0, ERR));
    ASSERT_OK(boxlite_box_remove(box, 1, ERR)); /* gone is what was wanted */
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

TEST(commands_need_a_running_box)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "idle", NULL, 0);
    const char *argv[] = {"true"};
    boxlite_exec_options *o;
    boxlite_exec *exec = NULL;
    ASSERT_OK(boxlite_exec_options_new(argv, 1, &o, ERR));
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_exec(box, o, &exec, ERR));
    ASSERT_CONTAINS(err_hint(), "boxlite start idle");
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_pause(box, ERR));
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_wait(box, 0, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_main(box, &exec, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_attach(box, 7, &exec, ERR));
    ASSERT_OK(boxlite_box_stop(box, 0, ERR));
    boxlite_exec_options_free(o);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

/* Each way to fail is told, and the next start is not harmed by it. */
static void check_failed_start(const char *how, int code, const char *message)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, NULL, NULL, 0);
    bf_fail_shim(how);
    ASSERT_FAILS(code, boxlite_box_start(box, ERR));
    ASSERT_CONTAINS(err_message(), "starting box");
    ASSERT_CONTAINS(err_message(), message);
    ASSERT(*err_hint());
    bf_fail_shim(NULL);
    ASSERT_OK(boxlite_box_start(box, ERR));
    bf_expect(box, "echo up", "up\n");
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

TEST(a_shim_that_is_killed_at_its_start)
{
    check_failed_start("crash", BOXLITE_E_ENGINE, "killed by signal 9");
}

TEST(a_shim_that_gives_up_at_its_start)
{
    check_failed_start("exit", BOXLITE_E_ENGINE, "exit code 3");
}

TEST(a_missing_engine)
{
    check_failed_start("engine", BOXLITE_E_ENGINE, "there is no engine here");
}

TEST(a_guest_that_panics)
{
    check_failed_start("panic", BOXLITE_E_GUEST, "panicked");
}

TEST(a_missing_shim_program)
{
    boxlite_runtime_options o;
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "x", NULL, 0);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    boxlite_runtime_options_init(&o);
    o.home = bf_home();
    o.libexec = "/nonexistent";
    ASSERT_OK(boxlite_runtime_new(&o, &rt, ERR));
    ASSERT_OK(boxlite_box_open(rt, "x", &box, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_start(box, ERR));
    ASSERT_CONTAINS(err_message(), "boxlite-shim");
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

/* ---- Lost shims ------------------------------------------------------------------------------ */

TEST(a_lost_shim_is_told_and_the_next_command_works)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, NULL, NULL, BF_START);
    boxlite_exec *exec = bf_sh(box, "echo before; exec sleep 100", 0);
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    const char *json;
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
    pid_t sleeper = bf_shim_pid(box);
    ASSERT_OK(kill(sleeper, SIGKILL));
    ASSERT_OK(boxlite_exec_wait(exec, 20000, &result, ERR));
    ASSERT_EQ(result.flags, BOXLITE_EXIT_BOX_LOST);
    ASSERT_EQ(result.exit_code, 137);
    char *text = bf_read_all(exec, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, "before\n");
    free(text);
    boxlite_exec_free(exec);
    ASSERT_OK(boxlite_box_wait(box, 20000, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_STOPPED);
    ASSERT_OK(boxlite_box_json(box, &json, ERR));
    ASSERT_CONTAINS(json, "lost");
    ASSERT_OK(boxlite_box_start(box, ERR));
    bf_expect(box, "echo up", "up\n");
    ASSERT_OK(boxlite_box_remove(box, 1, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    reap_orphans();
}

TEST(a_shim_that_hangs_costs_a_listing_one_second_in_all)
{
    boxlite_runtime *rt = bf_runtime(), *other;
    boxlite_box *a = bf_box(rt, "a", NULL, BF_START), *b = bf_box(rt, "b", NULL, BF_START);
    boxlite_box *c = bf_box(rt, "c", NULL, BF_START);
    boxlite_box_list *list;
    pid_t hung[2] = {bf_shim_pid(a), bf_shim_pid(b)};
    other = bf_runtime();
    ASSERT_OK(kill(hung[0], SIGSTOP));
    ASSERT_OK(kill(hung[1], SIGSTOP));
    uint64_t start = bx_now_mono();
    ASSERT_OK(boxlite_box_list_new(other, &list, ERR));
    ASSERT_EQ(boxlite_box_list_count(list), 3);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_EQ(boxlite_box_state(boxlite_box_list_get(list, i), ERR), BOXLITE_BOX_RUNNING);
    }
    ASSERT_LT(bx_now_mono() - start, 1900 * BX_MS * time_scale());
    ASSERT_OK(kill(hung[0], SIGCONT));
    ASSERT_OK(kill(hung[1], SIGCONT));
    boxlite_box_list_free(list);
    boxlite_runtime_free(other);
    boxlite_box_free(a);
    boxlite_box_free(b);
    boxlite_box_free(c);
    boxlite_runtime_free(rt);
}

static int connect_raw(boxlite_box *box)
{
    char path[700];
    (void)snprintf(path, sizeof(path), "%s/boxes/%s", bf_home(), boxlite_box_id(box));
    _cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_OK(dir);
    int fd = bx_unix_connect(dir, BX_CONTROL_SOCKET);
    return fd;
}

static bool stops(void *data)
{
    return boxlite_box_stop(data, 1000, NULL) == 0;
}

TEST(a_box_with_no_place_for_one_more_connection_says_so_and_is_not_hurt)
{
    boxlite_runtime *rt = bf_runtime(), *other = bf_runtime();
    boxlite_box *box = bf_box(rt, "full", NULL, BF_DETACHED | BF_START), *late;
    int fds[BX_SHIM_CLIENTS_MAX];
    for (size_t i = 0; i < BX_ARRAY_SIZE(fds); i++) {
        do { /* until it has taken some of those that wait */
            fds[i] = connect_raw(box);
        } while (fds[i] == -EAGAIN);
        ASSERT_OK(fds[i]);
    }
    ASSERT_OK(boxlite_box_open(other, "full", &late, ERR));
    ASSERT_FAILS(BOXLITE_E_BUSY, boxlite_box_stop(late, 1000, ERR));
    ASSERT_CONTAINS(err_message(), "takes no more connections");
    ASSERT_FAILS(BOXLITE_E_BUSY, boxlite_box_wait(late, 20000, ERR));
    ASSERT_EQ(boxlite_box_state(late, ERR), BOXLITE_BOX_RUNNING);
    bf_expect(box, "echo well", "well\n");
    for (size_t i = 0; i < BX_ARRAY_SIZE(fds); i++) {
        bx_close(&fds[i]);
    }
    ASSERT(eventually(stops, late));
    boxlite_box_free(late);
    boxlite_box_free(box);
    boxlite_runtime_free(other);
    boxlite_runtime_free(rt);
    reap_orphans();
}

/* ---- Owners ---------------------------------------------------------------------------------- */

TEST(an_attached_box_ends_with_its_runtime)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "mine", NULL, BF_START);
    pid_t pid = bf_shim_pid(box);
    bf_expect(box, "echo up", "up\n");
    boxlite_box_free(box); /* the handle alone does not end it */
    ASSERT_OK(boxlite_box_open(rt, "mine", &box, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_RUNNING);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    ASSERT(kill(pid, 0) < 0 && errno == ESRCH); /* not even a zombie */
    rt = bf_runtime();
    ASSERT_OK(boxlite_box_open(rt, "mine", &box, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_STOPPED);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

TEST(a_shim_that_does_not_end_is_killed_with_its_runtime)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, NULL, NULL, BF_START);
    pid_t pid = bf_shim_pid(box);
    ASSERT_OK(kill(pid, SIGSTOP));
    boxlite_box_free(box);
    uint64_t start = bx_now_mono();
    boxlite_runtime_free(rt);
    ASSERT_LT(bx_now_mono() - start, 4 * BX_SEC * time_scale());
    ASSERT(kill(pid, 0) < 0 && errno == ESRCH);
}

TEST(a_detached_box_outlives_its_runtime)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "free", NULL, BF_DETACHED | BF_START);
    boxlite_exec *exec = bf_sh(box, "exec sleep 100", BF_KEEP);
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STARTED, 20000, ERR));
    uint32_t number = boxlite_exec_number(exec);
    ASSERT_GT(number, 0);
    boxlite_exec_free(exec);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    rt = bf_runtime();
    ASSERT_OK(boxlite_box_open(rt, "free", &box, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_RUNNING);
    bf_expect(box, "echo still", "still\n");
    ASSERT_OK(boxlite_box_attach(box, number, &exec, ERR)); /* the detached command goes on */
    ASSERT_OK(boxlite_exec_signal(exec, SIGTERM, ERR));
    ASSERT_EQ(bf_wait(exec), 128 + SIGTERM);
    boxlite_exec_free(exec);
    ASSERT_OK(boxlite_box_remove(box, 1, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    reap_orphans();
}

TEST(a_kept_box_outlives_its_stop_and_goes_with_its_keeper)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "kept", NULL, BF_AUTO_REMOVE | BF_START), *other;
    char id[32];

    (void)snprintf(id, sizeof(id), "%s", boxlite_box_id(box));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(boxlite_box_keep(box, 1, ERR));
        ASSERT_OK(boxlite_box_keep(box, 1, ERR));
        ASSERT_OK(boxlite_box_open(rt, "kept", &other, ERR));
        ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_keep(other, 1, ERR));
        boxlite_box_free(other);
        ASSERT_OK(boxlite_box_stop(box, 0, ERR));
        boxlite_runtime *second = bf_runtime(); /* which clears what nobody holds */
        ASSERT_OK(boxlite_box_open(second, "kept", &other, ERR));
        ASSERT_EQ(boxlite_box_state(other, ERR), BOXLITE_BOX_STOPPED);
        boxlite_box_free(other);
        boxlite_runtime_free(second);
        ASSERT_OK(boxlite_box_start(box, ERR));
        ASSERT_OK(boxlite_box_keep(box, 0, ERR));
        bf_expect(box, "echo again", "again\n");
    }
    ASSERT_OK(boxlite_box_keep(box, 1, ERR));
    ASSERT_OK(boxlite_box_stop(box, 0, ERR));
    ASSERT(bf_exists(id, "config.json"));
    ASSERT_OK(boxlite_box_keep(box, 0, ERR)); /* at once */
    ASSERT(!bf_exists(id, "."));
    boxlite_box_free(box);
    box = bf_box(rt, "kept", NULL, BF_AUTO_REMOVE | BF_START);
    (void)snprintf(id, sizeof(id), "%s", boxlite_box_id(box));
    ASSERT_OK(boxlite_box_keep(box, 1, ERR));
    ASSERT_OK(boxlite_box_stop(box, 0, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    rt = bf_runtime(); /* the next one to look */
    ASSERT(!bf_exists(id, "."));
    boxlite_runtime_free(rt);
}

TEST(a_box_can_be_detached_before_it_starts)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "later", NULL, 0);
    ASSERT_OK(boxlite_box_set_detached(box, 1, ERR));
    ASSERT_OK(boxlite_box_start(box, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    rt = bf_runtime();
    ASSERT_OK(boxlite_box_open(rt, "later", &box, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_RUNNING);
    ASSERT_OK(boxlite_box_remove(box, 1, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    reap_orphans();
}

TEST(a_box_that_is_to_be_removed_goes_when_it_stops)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "brief", "echo out; exit 3", BF_AUTO_REMOVE | BF_START);
    boxlite_exec *exec = NULL;
    boxlite_box_list *list;
    char id[32];
    (void)snprintf(id, sizeof(id), "%s", boxlite_box_id(box));
    ASSERT_OK(boxlite_box_wait(box, 20000, ERR));
    boxlite_box_free(box);
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_open(rt, "brief", &box, ERR));
    ASSERT_OK(boxlite_box_list_new(rt, &list, ERR));
    ASSERT_EQ(boxlite_box_list_count(list), 0);
    boxlite_box_list_free(list);
    boxlite_runtime_free(rt);
    ASSERT(!bf_exists(id, "."));
    (void)exec;
}

TEST(the_output_of_a_box_that_is_removed_when_it_stops)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "brief", "echo out; exit 3", BF_AUTO_REMOVE);
    boxlite_exec *exec;
    ASSERT_OK(boxlite_box_start(box, ERR));
    ASSERT_OK(boxlite_box_main(box, &exec, ERR));
    char *text = bf_read_all(exec, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, "out\n");
    ASSERT_EQ(bf_wait(exec), 3);
    free(text);
    boxlite_exec_free(exec);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    ASSERT_OK(0);
    rt = bf_runtime();
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_open(rt, "brief", &box, ERR));
    boxlite_runtime_free(rt);
}

TEST(a_box_marked_for_removal_goes_when_its_shim_was_killed)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "brief", NULL, BF_AUTO_REMOVE | BF_DETACHED | BF_START);
    char id[32];
    (void)snprintf(id, sizeof(id), "%s", boxlite_box_id(box));
    pid_t pid = bf_shim_pid(box);
    ASSERT_OK(kill(pid, SIGKILL));
    ASSERT_OK(boxlite_box_wait(box, 20000, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    boxlite_runtime_free(bf_runtime()); /* sweeps */
    ASSERT(!bf_exists(id, "."));
    reap_orphans();
}

TEST(a_running_box_is_removed_with_force)
{
    boxlite_runtime *rt = bf_runtime(), *other = bf_runtime();
    boxlite_box *box = bf_box(rt, "x", NULL, BF_START), *same;
    pid_t pid = bf_shim_pid(box);
    ASSERT_OK(boxlite_box_open(other, "x", &same, ERR));
    ASSERT_OK(boxlite_box_remove(same, 1, ERR));
    ASSERT_OK(boxlite_box_remove(box, 1, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_state(box, ERR));
    boxlite_box_free(same);
    boxlite_box_free(box);
    boxlite_runtime_free(other);
    boxlite_runtime_free(rt);
    ASSERT(kill(pid, 0) < 0);
}

TEST(a_damaged_box_can_be_listed_and_removed)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "hurt", NULL, 0);
    boxlite_box_list *list;
    char path[700];
    (void)snprintf(path, sizeof(path), "%s/boxes/%s/config.json", bf_home(), boxlite_box_id(box));
    boxlite_box_free(box);
    ASSERT_OK(truncate(path, 7));
    ASSERT_OK(boxlite_box_list_new(rt, &list, ERR));
    ASSERT_EQ(boxlite_box_list_count(list), 1);
    boxlite_box_list_free(list);
    ASSERT_OK(boxlite_box_open(rt, "hurt", &box, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, boxlite_box_start(box, ERR));
    ASSERT_CONTAINS(err_message(), "config.json");
    ASSERT_OK(boxlite_box_remove(box, 1, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

/* ---- The caller's loop ----------------------------------------------------------------------- */

struct done {
    unsigned calls;
    int result;
    boxlite_runtime *rt;
    boxlite_box *box;
    int inner; /* what a blocking call inside the callback gave */
};

static void on_done(void *data, int result, const boxlite_error *error)
{
    struct done *d = data;
    d->calls++;
    d->result = result;
    ASSERT_EQ(result == 0, error == NULL);
    if (d->box) {
        d->inner = boxlite_box_stop(d->box, 0, NULL);
    }
}

static void turn_until(boxlite_runtime *rt, const struct done *d)
{
    uint64_t end = bx_deadline_ms(20000);
    while (!d->calls) {
        struct pollfd p = {.fd = boxlite_runtime_fd(rt), .events = POLLIN};
        ASSERT_GT(poll(&p, 1, bx_deadline_left_ms(end)), 0);
        ASSERT_OK(boxlite_runtime_dispatch(rt, 0, ERR));
    }
}

TEST(starting_and_stopping_in_the_callers_loop)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, NULL, NULL, 0);
    struct done started = {.rt = rt, .box = box}, stopped = {0};
    ASSERT_OK(boxlite_box_start_async(box, on_done, &started, ERR));
    ASSERT_EQ(started.calls, 0);
    turn_until(rt, &started);
    ASSERT_EQ(started.result, 0);
    ASSERT_EQ(started.inner, BOXLITE_E_STATE); /* blocking inside a callback is refused */
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_RUNNING);
    ASSERT_OK(boxlite_box_stop_async(box, 0, on_done, &stopped, ERR));
    boxlite_box_free(box); /* the call goes on without the handle */
    turn_until(rt, &stopped);
    ASSERT_EQ(stopped.result, 0);
    boxlite_runtime_free(rt);
}

TEST(what_is_under_way_ends_with_the_runtime)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, NULL, NULL, 0);
    struct done d = {0};
    bf_fail_shim("hang");
    ASSERT_OK(boxlite_box_start_async(box, on_done, &d, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    ASSERT_EQ(d.calls, 1);
    ASSERT_EQ(d.result, BOXLITE_E_CANCELLED);
}

TEST(two_start_the_same_box_at_once)
{
    boxlite_runtime *rt = bf_runtime(), *other = bf_runtime();
    boxlite_box *a = bf_box(rt, "both", NULL, 0), *b;
    struct done first = {0}, second = {0};
    ASSERT_OK(boxlite_box_open(other, "both", &b, ERR));
    ASSERT_OK(boxlite_box_start_async(a, on_done, &first, ERR));
    ASSERT_OK(boxlite_box_start_async(b, on_done, &second, ERR));
    uint64_t end = bx_deadline_ms(20000);
    while (!first.calls || !second.calls) {
        struct pollfd p[2] = {{.fd = boxlite_runtime_fd(rt), .events = POLLIN},
                              {.fd = boxlite_runtime_fd(other), .events = POLLIN}};
        ASSERT_GT(poll(p, 2, bx_deadline_left_ms(end)), 0);
        ASSERT_OK(boxlite_runtime_dispatch(rt, 0, ERR));
        ASSERT_OK(boxlite_runtime_dispatch(other, 0, ERR));
    }
    ASSERT_EQ(first.result, 0);
    ASSERT_EQ(second.result, 0);
    bf_expect(a, "echo a", "a\n");
    bf_expect(b, "echo b", "b\n");
    boxlite_box_free(a);
    boxlite_box_free(b);
    boxlite_runtime_free(other);
    boxlite_runtime_free(rt);
}

static void *wake(void *data)
{
    boxlite_runtime_wakeup(data);
    return NULL;
}

TEST(a_wake_up_from_another_thread_cancels_a_blocking_call)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, NULL, NULL, BF_START);
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, NULL, wake, rt), 0);
    ASSERT_FAILS(BOXLITE_E_CANCELLED, boxlite_box_wait(box, -1, ERR));
    (void)pthread_join(thread, NULL);
    ASSERT_FAILS(BOXLITE_E_TIMEOUT, boxlite_box_wait(box, 20, ERR));
    boxlite_runtime_wakeup(rt);
    ASSERT_OK(boxlite_runtime_dispatch(rt, -1, ERR)); /* returns at once */
    bf_expect(box, "echo on", "on\n");                /* and nothing is left of it */
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}
