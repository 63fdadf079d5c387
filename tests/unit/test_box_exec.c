/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_box_exec.c: commands in boxes: streams to the byte, results, callbacks, what is kept after
 * the end.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/timeutil.h"
#include "box_fixture.h"

#define MIB (1u << 20)

/* A box for one test. */
struct room {
    boxlite_runtime *rt;
    boxlite_box *box;
};

static struct room enter(void)
{
    struct room r = {bf_runtime(), NULL};
    r.box = bf_box(r.rt, "room", NULL, BF_START);
    return r;
}

static void leave(struct room *r)
{
    boxlite_box_free(r->box);
    boxlite_runtime_free(r->rt);
}

/* ---- Output ---------------------------------------------------------------------------------- */

TEST(both_streams_and_the_exit_code)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "echo out; echo err >&2; exit 42", 0);
    char *out = bf_read_all(exec, BOXLITE_STDOUT, NULL);
    char *err = bf_read_all(exec, BOXLITE_STDERR, NULL);
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    ASSERT_STREQ(out, "out\n");
    ASSERT_STREQ(err, "err\n");
    ASSERT_OK(boxlite_exec_wait(exec, 20000, &result, ERR));
    ASSERT_EQ(result.exit_code, 42);
    ASSERT_EQ(result.signal, 0);
    ASSERT_EQ(result.flags, 0);
    ASSERT_EQ(boxlite_exec_events(exec) & BOXLITE_EXEC_STARTED, BOXLITE_EXEC_STARTED);
    ASSERT_NULL(boxlite_exec_failure(exec));
    ASSERT_OK(boxlite_exec_wait(exec, 0, &result, ERR)); /* as often as one likes */
    free(out);
    free(err);
    boxlite_exec_free(exec);
    leave(&r);
}

/* The bytes of `seq`, which tell their place. */
static size_t check_seq(const char *text, size_t len, unsigned last)
{
    size_t at = 0;
    char line[16];
    for (unsigned i = 1; i <= last; i++) {
        size_t n = (size_t)snprintf(line, sizeof(line), "%u\n", i);
        ASSERT_LE(at + n, len);
        if (memcmp(text + at, line, n) != 0) {
            FAIL("line %u is not where it belongs", i);
        }
        at += n;
    }
    return at;
}

TEST_FOR(much_output_arrives_to_the_byte, 60)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "exec seq 1 2000000", 0);
    size_t len;
    char *text = bf_read_all(exec, BOXLITE_STDOUT, &len);
    ASSERT_EQ(check_seq(text, len, 2000000), len);
    ASSERT_EQ(bf_wait(exec), 0);
    free(text);
    boxlite_exec_free(exec);
    leave(&r);
}

TEST_FOR(a_reader_that_stops_loses_nothing_and_holds_no_other_back, 60)
{
    struct room r = enter();
    boxlite_exec *slow = bf_sh(r.box, "exec seq 1 1500000", 0);
    size_t len;
    ASSERT_OK(boxlite_exec_poll(slow, BOXLITE_EXEC_STDOUT, 20000, ERR));
    for (int i = 0; i < 5; i++) { /* its window is full, the others go on */
        bf_expect(r.box, "echo quick", "quick\n");
    }
    char *text = bf_read_all(slow, BOXLITE_STDOUT, &len);
    ASSERT_EQ(check_seq(text, len, 1500000), len);
    free(text);
    boxlite_exec_free(slow);
    leave(&r);
}

TEST(reading_never_blocks_and_says_why)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "read x; echo $x", BF_IN);
    char b[8];
    ASSERT_FAILS(BOXLITE_E_AGAIN, boxlite_exec_read(exec, BOXLITE_STDOUT, b, sizeof(b), ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_exec_read(exec, 7, b, sizeof(b), ERR));
    ASSERT_EQ(boxlite_exec_read(exec, BOXLITE_STDOUT, b, 0, ERR), 0);
    ASSERT_FAILS(BOXLITE_E_TIMEOUT, boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 10, ERR));
    ASSERT_FAILS(BOXLITE_E_TIMEOUT, boxlite_exec_wait(exec, 10, NULL, ERR));
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDIN, 20000, ERR));
    ASSERT_EQ(boxlite_exec_write(exec, "abc\n", 4, ERR), 4);
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
    ASSERT_EQ(boxlite_exec_read(exec, BOXLITE_STDOUT, b, 2, ERR), 2);
    ASSERT_MEM(b, "ab", 2);
    ASSERT_EQ(boxlite_exec_read(exec, BOXLITE_STDOUT, b, sizeof(b), ERR), 2);
    ASSERT_EQ(bf_wait(exec), 0);
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
    ASSERT_EQ(boxlite_exec_read(exec, BOXLITE_STDOUT, b, sizeof(b), ERR), 0);
    boxlite_exec_free(exec);
    leave(&r);
}

/* ---- Input ----------------------------------------------------------------------------------- */

TEST_FOR(a_megabyte_through_cat_comes_back_identical, 60)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "exec cat", BF_IN);
    static unsigned char in[3 * MIB], out[3 * MIB + 1];
    size_t sent = 0, got = 0;
    for (size_t i = 0; i < sizeof(in); i++) {
        in[i] = (unsigned char)((i * 2654435761u) >> 13);
    }
    for (;;) {
        ssize_t n = sent < sizeof(in) ? boxlite_exec_write(exec, in + sent, sizeof(in) - sent, NULL)
                                      : BOXLITE_E_AGAIN;
        if (n > 0) {
            sent += (size_t)n;
            if (sent == sizeof(in)) {
                ASSERT_OK(boxlite_exec_close_stdin(exec, ERR));
            }
        }
        ssize_t m = boxlite_exec_read(exec, BOXLITE_STDOUT, out + got, sizeof(out) - got, NULL);
        if (m == 0) {
            break;
        }
        got += m > 0 ? (size_t)m : 0;
        if (n < 0 && m < 0) {
            ASSERT_OK(boxlite_exec_poll(
                exec, BOXLITE_EXEC_STDOUT | (sent < sizeof(in) ? BOXLITE_EXEC_STDIN : 0u), 20000,
                ERR));
        }
    }
    ASSERT_EQ(got, sizeof(in));
    ASSERT(memcmp(in, out, got) == 0);
    ASSERT_EQ(bf_wait(exec), 0);
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_exec_write(exec, "x", 1, ERR));
    boxlite_exec_free(exec);
    leave(&r);
}

TEST(input_that_nobody_takes)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "exit 0", BF_IN);
    ASSERT_EQ(bf_wait(exec), 0);
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_exec_write(exec, "x", 1, ERR));
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDIN, 1000, ERR)); /* no endless wait */
    ASSERT_OK(boxlite_exec_close_stdin(exec, ERR));
    boxlite_exec_free(exec);
    exec = bf_sh(r.box, "cat; echo end", 0); /* without an input it reads the end */
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_exec_write(exec, "x", 1, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_exec_close_stdin(exec, ERR));
    char *text = bf_read_all(exec, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, "end\n");
    free(text);
    boxlite_exec_free(exec);
    leave(&r);
}

/* ---- Starting -------------------------------------------------------------------------------- */

TEST(environment_folder_and_arguments_arrive)
{
    struct room r = enter();
    const char *argv[] = {"/bin/sh", "-c", "printf '%s|%s|%s|%s' \"$A\" \"$PATH\" \"$PWD\" \"$1\"",
                          "sh", "a \"b\"\n'c' \xc3\xa9 \xff"};
    boxlite_exec_options *o;
    boxlite_exec *exec;
    ASSERT_OK(boxlite_exec_options_new(argv, 5, &o, ERR));
    ASSERT_OK(boxlite_exec_options_add_env(o, "A", "x=y\nz \xff", ERR));
    ASSERT_OK(boxlite_exec_options_add_env(o, "PATH", "/bin", ERR));
    ASSERT_OK(boxlite_exec_options_set_workdir(o, "/usr", ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_exec_options_set_workdir(o, "usr", ERR));
    ASSERT_OK(boxlite_box_exec(r.box, o, &exec, ERR));
    boxlite_exec_options_free(o);
    char *text = bf_read_all(exec, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, "x=y\nz \xff|/bin|/usr|a \"b\"\n'c' \xc3\xa9 \xff");
    free(text);
    boxlite_exec_free(exec);
    leave(&r);
}

TEST(a_command_that_is_not_there)
{
    struct room r = enter();
    const char *argv[] = {"/no/such/thing"};
    boxlite_exec_options *o;
    boxlite_exec *exec;
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    char b[1];
    ASSERT_OK(boxlite_exec_options_new(argv, 1, &o, ERR));
    ASSERT_OK(boxlite_box_exec(r.box, o, &exec, ERR));
    boxlite_exec_options_free(o);
    ASSERT_OK(boxlite_exec_wait(exec, 20000, &result, ERR));
    ASSERT_EQ(result.exit_code, 127);
    ASSERT_EQ(result.flags, BOXLITE_EXIT_NOT_STARTED);
    ASSERT_CONTAINS(boxlite_exec_failure(exec), "No such file");
    ASSERT_EQ(boxlite_exec_events(exec) & BOXLITE_EXEC_STARTED, 0);
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
    ASSERT_EQ(boxlite_exec_read(exec, BOXLITE_STDOUT, b, 1, ERR), 0);
    boxlite_exec_free(exec);
    leave(&r);
}

TEST(an_environment_that_is_too_large)
{
    struct room r = enter();
    const char *argv[] = {"true"};
    boxlite_exec_options *o;
    boxlite_exec *exec = NULL;
    static char value[3 * MIB];
    memset(value, 'x', sizeof(value) - 1);
    ASSERT_OK(boxlite_exec_options_new(argv, 1, &o, ERR));
    ASSERT_OK(boxlite_exec_options_add_env(o, "A", value, ERR));
    ASSERT_OK(boxlite_exec_options_add_env(o, "B", value, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_exec(r.box, o, &exec, ERR));
    ASSERT_CONTAINS(err_message(), "4 MiB");
    boxlite_exec_options_free(o);
    bf_expect(r.box, "echo on", "on\n");
    leave(&r);
}

/* ---- Signals, ends --------------------------------------------------------------------------- */

TEST(signals_reach_the_command)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "exec sleep 100", 0);
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_exec_signal(exec, 0, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_exec_signal(exec, 65, ERR));
    ASSERT_OK(boxlite_exec_signal(exec, SIGINT, ERR)); /* before its number is known */
    ASSERT_OK(boxlite_exec_wait(exec, 20000, &result, ERR));
    ASSERT_EQ(result.signal, SIGINT);
    ASSERT_EQ(result.exit_code, 128 + SIGINT);
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_exec_signal(exec, SIGINT, ERR));
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_exec_resize(exec, 1, 1, ERR));
    boxlite_exec_free(exec);
    leave(&r);
}

static bool gone(void *pid)
{
    return kill(*(pid_t *)pid, 0) < 0 && errno == ESRCH;
}

TEST(freeing_the_handle_kills_the_command)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "echo $$; exec sleep 100", 0);
    char b[32] = "";
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
    ASSERT_GT(boxlite_exec_read(exec, BOXLITE_STDOUT, b, sizeof(b) - 1, ERR), 0);
    pid_t pid = (pid_t)strtol(b, NULL, 10);
    ASSERT_OK(kill(pid, 0));
    boxlite_exec_free(exec);
    bf_expect(r.box, "echo next", "next\n"); /* the kill has gone out before */
    ASSERT(eventually(gone, &pid));
    boxlite_exec_free(bf_sh(r.box, "exec sleep 100", 0)); /* freed before its number is known */
    bf_expect(r.box, "echo next", "next\n");
    leave(&r);
}

TEST(a_stopped_box_ends_its_commands)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "exec sleep 100", 0), *late = NULL;
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    const char *argv[] = {"true"};
    boxlite_exec_options *o;
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STARTED, 20000, ERR));
    ASSERT_OK(boxlite_box_stop(r.box, 0, ERR));
    ASSERT_OK(boxlite_exec_wait(exec, 20000, &result, ERR));
    ASSERT_EQ(result.exit_code, 137);
    boxlite_exec_free(exec);
    ASSERT_OK(boxlite_exec_options_new(argv, 1, &o, ERR));
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_exec(r.box, o, &late, ERR));
    boxlite_exec_options_free(o);
    leave(&r);
}

TEST(a_result_in_an_older_struct)
{
    struct room r = enter();
    boxlite_exec *exec = bf_sh(r.box, "exit 5", 0);
    struct {
        boxlite_exec_result result;
    } v;
    memset(&v, 0x55, sizeof(v));
    v.result.struct_size = offsetof(boxlite_exec_result, wall_us);
    ASSERT_OK(boxlite_exec_wait(exec, 20000, &v.result, ERR));
    ASSERT_EQ(v.result.exit_code, 5);
    ASSERT_EQ(v.result.wall_us, 0x5555555555555555); /* beyond its size nothing is touched */
    v.result.struct_size = 4;
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_exec_wait(exec, 0, &v.result, ERR));
    boxlite_exec_free(exec);
    leave(&r);
}

/* ---- The main command ------------------------------------------------------------------------ */

TEST(the_main_command_is_followed_and_kept)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "main", "echo one; read x; echo $x; exit 6", BF_STDIN);
    boxlite_exec *exec, *logs;
    char *text;
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_box_main(box, &exec, ERR));
    ASSERT_OK(boxlite_box_start(box, ERR));
    ASSERT_OK(boxlite_box_main(box, &exec, ERR));
    ASSERT_EQ(boxlite_exec_number(exec), 1);
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
    ASSERT_OK(boxlite_box_output(box, 0, &logs, ERR)); /* ends though the command goes on */
    text = bf_read_all(logs, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, "one\n");
    free(text);
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_exec_wait(logs, 0, NULL, ERR));
    boxlite_exec_free(logs);
    ASSERT_OK(boxlite_box_main(box, &logs, ERR)); /* a second follower; the first one writes */
    ASSERT_OK(boxlite_exec_poll(logs, BOXLITE_EXEC_STDOUT, 20000, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_exec_write(logs, "x", 1, ERR));
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDIN, 20000, ERR));
    ASSERT_EQ(boxlite_exec_write(exec, "two\n", 4, ERR), 4);
    text = bf_read_all(exec, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, "one\ntwo\n");
    free(text);
    text = bf_read_all(logs, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, "one\ntwo\n");
    free(text);
    ASSERT_EQ(bf_wait(exec), 6);
    ASSERT_EQ(bf_wait(logs), 6);
    boxlite_exec_free(exec);
    boxlite_exec_free(logs);
    ASSERT_OK(boxlite_box_wait(box, 20000, ERR)); /* it ends with its main command */
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    rt = bf_runtime();
    ASSERT_OK(boxlite_box_open(rt, "main", &box, ERR));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(i ? boxlite_box_main(box, &exec, ERR) : boxlite_box_output(box, 0, &exec, ERR));
        text = bf_read_all(exec, BOXLITE_STDOUT, NULL);
        ASSERT_STREQ(text, "one\ntwo\n");
        free(text);
        ASSERT_EQ(bf_wait(exec), 6);
        boxlite_exec_free(exec);
    }
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

/* Each leaves a WAIT behind, of which a box holds 256 for one connection. */
TEST_FOR(followers_come_and_go_without_end, 60)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "main", "echo one; exec sleep 100", 0);
    boxlite_exec *exec;
    ASSERT_OK(boxlite_box_start(box, ERR));
    for (int i = 0; i < 600; i++) {
        ASSERT_OK(boxlite_box_main(box, &exec, ERR));
        ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
        boxlite_exec_free(exec);
    }
    bf_expect(box, "echo next", "next\n");
    ASSERT_OK(boxlite_box_stop(box, 0, ERR));
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

TEST(output_is_read_on_after_the_box_has_gone)
{
    boxlite_runtime *rt = bf_runtime();
    boxlite_box *box = bf_box(rt, "main", "exec seq 1 600000", BF_START);
    boxlite_exec *exec;
    char first[100];
    size_t len;
    ASSERT_OK(boxlite_box_main(box, &exec, ERR));
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
    ASSERT_EQ(boxlite_exec_read(exec, BOXLITE_STDOUT, first, sizeof(first), ERR), 100);
    ASSERT_OK(boxlite_box_wait(box, 20000, ERR));
    ASSERT_OK(kill(bf_shim_pid(box), SIGKILL)); /* it only stays for this reader */
    char *rest = bf_read_all(exec, BOXLITE_STDOUT, &len);
    char *text = malloc(len + 101);
    ASSERT_NOT_NULL(text);
    memcpy(text, first, 100);
    memcpy(text + 100, rest, len);
    ASSERT_EQ(check_seq(text, len + 100, 600000), len + 100);
    free(text);
    free(rest);
    ASSERT_EQ(bf_wait(exec), 0);
    boxlite_exec_free(exec);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

struct heard {
    boxlite_exec *exec;
    unsigned calls;
    uint32_t events;
    size_t bytes, at_once;
    bool free_in_it, ended;
};

static void on_exec(void *data, boxlite_exec *exec, uint32_t events)
{
    struct heard *h = data;
    char b[4096];
    ssize_t n;
    h->calls++;
    h->events |= events;
    if (events & BOXLITE_EXEC_STDOUT) {
        n = boxlite_exec_read(exec, BOXLITE_STDOUT, b, h->at_once, NULL);
        h->bytes += n > 0 ? (size_t)n : 0;
        h->ended = h->ended || n == 0;
    }
    if (h->free_in_it) {
        boxlite_exec_free(exec);
        h->exec = NULL;
    }
}

static void turn(boxlite_runtime *rt)
{
    struct pollfd p = {.fd = boxlite_runtime_fd(rt), .events = POLLIN};
    ASSERT_GT(poll(&p, 1, 20000), 0);
    ASSERT_OK(boxlite_runtime_dispatch(rt, 0, ERR));
}

TEST(a_callback_that_reads_a_little_gets_all_in_the_end)
{
    struct room r = enter();
    struct heard h = {.at_once = 10};
    boxlite_exec *exec = bf_sh(r.box, "exec seq 1 2000", 0);
    boxlite_exec_set_callback(exec, on_exec, &h);
    while (!h.ended || !(h.events & BOXLITE_EXEC_EXITED)) {
        turn(r.rt);
    }
    ASSERT_EQ(h.bytes, 8893);
    ASSERT_EQ(h.events & BOXLITE_EXEC_STARTED, BOXLITE_EXEC_STARTED);
    boxlite_exec_free(exec);
    leave(&r);
}

TEST(a_callback_that_takes_nothing_does_not_spin)
{
    struct room r = enter();
    struct heard h = {.at_once = 0};
    boxlite_exec *exec = bf_sh(r.box, "echo x; exec sleep 100", 0);
    boxlite_exec_set_callback(exec, on_exec, &h);
    while (!(h.events & BOXLITE_EXEC_STDOUT)) {
        turn(r.rt);
    }
    unsigned calls = h.calls;
    for (int i = 0; i < 50; i++) {
        ASSERT_OK(boxlite_runtime_dispatch(r.rt, 2, ERR));
    }
    ASSERT_LE(h.calls, calls + 2);
    boxlite_exec_free(exec);
    leave(&r);
}

TEST(a_command_is_freed_in_its_own_callback)
{
    struct room r = enter();
    struct heard h = {.at_once = 10, .free_in_it = true};
    h.exec = bf_sh(r.box, "echo x; exec sleep 100", 0);
    boxlite_exec_set_callback(h.exec, on_exec, &h);
    while (h.exec) {
        turn(r.rt);
    }
    ASSERT_EQ(h.calls, 1);
    bf_expect(r.box, "echo on", "on\n");
    leave(&r);
}

static void on_exec_blocking(void *data, boxlite_exec *exec, uint32_t events)
{
    ASSERT_EQ(boxlite_exec_wait(exec, 0, NULL, NULL), BOXLITE_E_STATE);
    ASSERT_EQ(boxlite_exec_poll(exec, BOXLITE_EXEC_STDERR, 0, NULL), BOXLITE_E_STATE);
    *(bool *)data = true;
}

TEST(blocking_inside_a_callback_is_refused)
{
    struct room r = enter();
    bool called = false;
    boxlite_exec *exec = bf_sh(r.box, "exec sleep 100", BF_IN);
    boxlite_exec_set_callback(exec, on_exec_blocking, &called);
    while (!called) {
        turn(r.rt);
    }
    boxlite_exec_free(exec);
    leave(&r);
}

TEST_FOR(many_commands_at_once, 60)
{
    enum { MANY = 40 };
    struct room r = enter();
    boxlite_exec *execs[MANY];
    char script[64];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(script, sizeof(script), "echo %d; exit %d", i, i);
        execs[i] = bf_sh(r.box, script, 0);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        char want[16], *text = bf_read_all(execs[i], BOXLITE_STDOUT, NULL);
        (void)snprintf(want, sizeof(want), "%d\n", i);
        ASSERT_STREQ(text, want);
        ASSERT_EQ(bf_wait(execs[i]), i);
        free(text);
        boxlite_exec_free(execs[i]);
    }
    leave(&r);
}
