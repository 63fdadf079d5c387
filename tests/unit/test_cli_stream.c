/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cli_stream.c: the pump between a command in a box and our descriptors, against a stand-in for the library whose
 * command is a few counters: so slow readers, full inputs and signals come exactly when a test wants them.
 * The functions of the library that the pump calls are defined here and hide those of the real one.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/boxrun.h"
#include "cli/stream.h"

/* ---- The stand-in ---- */

struct boxlite_exec {
    int fd;           /* readable: dispatch has work */
    uint64_t left[3]; /* bytes that the command will still write, by stream */
    uint64_t at[3];
    size_t burst; /* how many become readable by one dispatch */
    size_t ready[3];
    bool runs_on; /* it ends by a signal only */
    int signal;   /* the first that it got */
    int code;
    uint64_t in;    /* bytes that it has read */
    size_t in_room; /* taken by one dispatch */
    bool in_ok, in_closed, wants_end;
};
static struct boxlite_exec fake;

/* Byte n of a stream: not a power of two long, so that a lost or doubled block shows. */
static unsigned char pattern(int stream, uint64_t n)
{
    return (unsigned char)((n % 251) ^ (n / 251 % 253) ^ ((unsigned)stream << 7));
}

static void poke(void)
{
    uint64_t one = 1;

    ASSERT_EQ(write(fake.fd, &one, sizeof(one)), sizeof(one));
}

static void start(uint64_t out, uint64_t errors, int code)
{
    fake = (struct boxlite_exec){
        .fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK),
        .left = {0, out, errors},
        .burst = 300000,
        .code = code,
        .in_ok = true,
    };
    ASSERT_GE(fake.fd, 0);
}

static bool ended(void)
{
    return fake.runs_on || fake.wants_end ? fake.signal || (fake.wants_end && fake.in_closed)
                                          : true;
}

int boxlite_runtime_fd(const boxlite_runtime *rt)
{
    return fake.fd;
}

int boxlite_runtime_dispatch(boxlite_runtime *rt, int timeout_ms, boxlite_error **err)
{
    uint64_t n;
    bool more = false;

    ASSERT_EQ(timeout_ms, 0); /* it must not wait there */
    (void)!read(fake.fd, &n, sizeof(n));
    for (int s = BOXLITE_STDOUT; s <= BOXLITE_STDERR; s++) {
        size_t take = fake.left[s] < fake.burst ? (size_t)fake.left[s] : fake.burst;

        if (fake.ready[s] == 0) { /* credit: no more before this was read */
            fake.ready[s] = take;
            fake.left[s] -= take;
        }
    }
    fake.in_room = 1000;
    more = fake.left[1] || fake.left[2] || (fake.in_ok && !fake.in_closed && fake.wants_end);
    if (more) {
        poke();
    }
    return 0;
}

ssize_t boxlite_exec_read(boxlite_exec *exec, int stream, void *data, size_t size,
                          boxlite_error **err)
{
    size_t n = fake.ready[stream] < size ? fake.ready[stream] : size;
    unsigned char *p = data;

    for (size_t i = 0; i < n; i++) {
        p[i] = pattern(stream, fake.at[stream]++);
    }
    fake.ready[stream] -= n;
    if (n > 0) {
        return (ssize_t)n;
    }
    return fake.left[stream] == 0 && ended() ? 0 : BOXLITE_E_AGAIN;
}

uint32_t boxlite_exec_events(const boxlite_exec *exec)
{
    return ended() && !fake.left[1] && !fake.left[2] ? BOXLITE_EXEC_EXITED : 0;
}

int boxlite_exec_wait(boxlite_exec *exec, int timeout_ms, boxlite_exec_result *ret,
                      boxlite_error **err)
{
    ASSERT(boxlite_exec_events(exec) & BOXLITE_EXEC_EXITED);
    ret->exit_code = fake.signal ? 128 + fake.signal : fake.code;
    return 0;
}

ssize_t boxlite_exec_write(boxlite_exec *exec, const void *data, size_t size, boxlite_error **err)
{
    const unsigned char *p = data;
    size_t n = size < fake.in_room ? size : fake.in_room;

    for (size_t i = 0; i < n; i++) {
        fake.in_ok = fake.in_ok && p[i] == pattern(0, fake.in++);
    }
    fake.in_room -= n;
    return n ? (ssize_t)n : BOXLITE_E_AGAIN;
}

int boxlite_exec_close_stdin(boxlite_exec *exec, boxlite_error **err)
{
    fake.in_closed = true;
    poke();
    return 0;
}

int boxlite_exec_signal(boxlite_exec *exec, int signo, boxlite_error **err)
{
    if (fake.runs_on && signo != SIGUSR1 && signo != SIGINT) {
        fake.signal = signo;
    }
    poke();
    return 0;
}

int boxlite_exec_resize(boxlite_exec *exec, uint16_t rows, uint16_t cols, boxlite_error **err)
{
    return 0;
}

const char *boxlite_exec_failure(const boxlite_exec *exec)
{
    return NULL;
}

uint64_t cli_box_memory(boxlite_box *box)
{
    return 0;
}

void boxlite_runtime_wakeup(boxlite_runtime *rt)
{
}

void boxlite_runtime_options_init(boxlite_runtime_options *o)
{
}

int boxlite_runtime_new(const boxlite_runtime_options *o, boxlite_runtime **ret,
                        boxlite_error **err)
{
    return BOXLITE_E_INTERNAL;
}

void boxlite_runtime_free(boxlite_runtime *rt)
{
}

int boxlite_box_open(boxlite_runtime *rt, const char *name, boxlite_box **ret, boxlite_error **err)
{
    return BOXLITE_E_INTERNAL;
}

void boxlite_box_free(boxlite_box *box)
{
}

void boxlite_exec_free(boxlite_exec *exec)
{
}

/* ---- The tests: the pump runs in a child whose descriptors are pipes ---- */

/* Runs the pump in a child with standard output on `out` (and input on `in`, -1: /dev/null). */
static pid_t run_child(struct cli_stream stream, int out, int in)
{
    pid_t pid = fork();

    ASSERT_GE(pid, 0);
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)signal(SIGPIPE, SIG_IGN);
        stream.exec = &fake;
        if (dup2(in >= 0 ? in : null, 0) < 0 || dup2(out, 1) < 0) {
            _exit(99);
        }
        for (int fd = 3; fd < 64; fd++) { /* the test's ends of the pipes above all */
            if (fd != fake.fd) {
                (void)close(fd);
            }
        }
        if (stream.input && !stream.tty) {
            fake.wants_end = true;
        }
        int status = cli_stream_run(&stream);
        _exit(fake.in_ok ? status : 98);
    }
    return pid;
}

static void make_pipe(int fds[2])
{
    ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
}

static int wait_child(pid_t pid)
{
    int status;

    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Reads until the end and checks each byte; their number. */
static uint64_t read_all(int fd, uint64_t from)
{
    static unsigned char data[1 << 16];
    uint64_t n = from;
    ssize_t r;

    while ((r = read(fd, data, sizeof(data))) > 0) {
        for (ssize_t i = 0; i < r; i++, n++) {
            ASSERT_EQ(data[i], pattern(BOXLITE_STDOUT, n));
        }
    }
    ASSERT_EQ(r, 0);
    return n - from;
}

static uint64_t through_pipe(struct cli_stream stream, int *ret_status)
{
    int fds[2];

    make_pipe(fds);
    pid_t pid = run_child(stream, fds[1], -1);
    close(fds[1]);
    uint64_t n = read_all(fds[0], stream.skip_output);
    close(fds[0]);
    *ret_status = wait_child(pid);
    close(fake.fd);
    return n;
}

TEST_FOR(forty_mebibytes_are_byte_exact, 60)
{
    int status;

    start(40u << 20, 0, 7);
    ASSERT_EQ(through_pipe((struct cli_stream){0}, &status), 40u << 20);
    ASSERT_EQ(status, 7);
}

TEST(an_empty_output_is_fine)
{
    int status;

    start(0, 0, 3);
    ASSERT_EQ(through_pipe((struct cli_stream){0}, &status), 0);
    ASSERT_EQ(status, 3);
}

TEST(the_beginning_can_be_skipped)
{
    int status;

    start(1000000, 0, 9);
    ASSERT_EQ(
        through_pipe((struct cli_stream){.output_only = true, .skip_output = 700001}, &status),
        299999);
    ASSERT_EQ(status, 0); /* not the command's */
}

TEST(unwanted_output_is_read_and_dropped)
{
    int status;

    start(1000000, 0, 0);
    ASSERT_EQ(through_pipe((struct cli_stream){.no_output = true}, &status), 0);
    ASSERT_EQ(status, 0);
}

TEST(a_socket_takes_output_too)
{
    int fds[2];

    start(3000000, 0, 0);
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pid_t pid = run_child((struct cli_stream){0}, fds[1], -1);
    close(fds[1]);
    ASSERT_EQ(read_all(fds[0], 0), 3000000);
    ASSERT_EQ(wait_child(pid), 0);
    close(fds[0]);
    close(fake.fd);
}

TEST(a_file_takes_output_too)
{
    int fd = open(tmpdir(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    ASSERT_GE(fd, 0);
    start(3000000, 0, 0);
    ASSERT_EQ(wait_child(run_child((struct cli_stream){0}, fd, -1)), 0);
    ASSERT_EQ(lseek(fd, 0, SEEK_SET), 0);
    ASSERT_EQ(read_all(fd, 0), 3000000);
    close(fd);
    close(fake.fd);
}

TEST(a_full_disk_is_an_error)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    if (fd < 0) {
        SKIP("no /dev/full");
    }
    start(1000, 0, 0);
    ASSERT_EQ(wait_child(run_child((struct cli_stream){0}, fd, -1)), CLI_EXIT_ERROR);
    close(fd);
    close(fake.fd);
}

TEST(a_reader_that_goes_away_ends_it)
{
    int fds[2];
    char byte;

    make_pipe(fds);
    start(UINT64_C(1) << 40, 0, 0);
    pid_t pid = run_child((struct cli_stream){0}, fds[1], -1);
    close(fds[1]);
    ASSERT_EQ(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    ASSERT_EQ(wait_child(pid), 128 + SIGPIPE);
    close(fake.fd);
}

/* Fills the pipe to the brim first, so that the pump waits for its reader. */
TEST(a_slow_reader_does_not_hold_up_signals)
{
    int fds[2];

    make_pipe(fds);
    start(10000000, 0, 0);
    fake.runs_on = true;
    pid_t pid = run_child((struct cli_stream){0}, fds[1], -1);
    close(fds[1]);
    struct pollfd pfd = {.fd = fds[0], .events = POLLIN};
    ASSERT_EQ(poll(&pfd, 1, 10000), 1);
    ASSERT_EQ(kill(pid, SIGTERM), 0);
    ASSERT_EQ(read_all(fds[0], 0), 10000000); /* still nothing is lost */
    ASSERT_EQ(wait_child(pid), 128 + SIGTERM);
    close(fds[0]);
    close(fake.fd);
}

TEST(the_second_interrupt_within_a_second_ends_it)
{
    int fds[2];

    make_pipe(fds);
    start(1, 0, 0);
    fake.runs_on = true; /* and it ignores SIGINT */
    pid_t pid = run_child((struct cli_stream){0}, fds[1], -1);
    close(fds[1]);
    struct pollfd pfd = {.fd = fds[0], .events = POLLIN};
    ASSERT_EQ(poll(&pfd, 1, 10000), 1);
    siginfo_t info = {0}; /* signals of one kind do not queue: send until it has seen two */
    while (info.si_pid == 0) {
        ASSERT_EQ(kill(pid, SIGINT), 0);
        (void)poll(NULL, 0, 5);
        ASSERT_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    ASSERT_EQ(wait_child(pid), 128 + SIGINT);
    close(fds[0]);
    close(fake.fd);
}

TEST(input_goes_on_when_the_command_takes_it)
{
    int in[2], out[2];
    unsigned char data[4096];
    uint64_t n = 0;

    make_pipe(in);
    make_pipe(out);
    start(5, 0, 4);
    pid_t pid = run_child((struct cli_stream){.input = true}, out[1], in[0]);
    close(in[0]);
    close(out[1]);
    while (n < 300000) {
        size_t size = sizeof(data) < 300000 - n ? sizeof(data) : (size_t)(300000 - n);

        for (size_t i = 0; i < size; i++) {
            data[i] = pattern(0, n + i);
        }
        ASSERT_EQ(cli_write_all(in[1], data, size), 0);
        n += size;
    }
    close(in[1]);
    ASSERT_EQ(read_all(out[0], 0), 5);
    ASSERT_EQ(wait_child(pid), 4); /* 98 if a byte was wrong */
    close(out[0]);
    close(fake.fd);
}

TEST(descriptors_stay_blocking)
{
    int in[2], out[2];

    make_pipe(in);
    make_pipe(out);
    close(in[1]);
    start(100, 0, 0);
    pid_t pid = run_child((struct cli_stream){.input = true}, out[1], in[0]);
    ASSERT_EQ(wait_child(pid), 0);
    ASSERT_EQ(fcntl(out[1], F_GETFL) & O_NONBLOCK, 0);
    ASSERT_EQ(fcntl(in[0], F_GETFL) & O_NONBLOCK, 0);
    close(in[0]);
    close(out[0]);
    close(out[1]);
    close(fake.fd);
}

TEST(a_result_becomes_a_status)
{
    static const struct {
        int code;
        uint32_t flags;
        int status;
    } rows[] = {
        {0, 0, 0},
        {3, 0, 3},
        {137, 0, 137},
        {124, BOXLITE_EXIT_TIMED_OUT, 124},
        {137, BOXLITE_EXIT_OOM_KILLED, 137},
        {127, BOXLITE_EXIT_NOT_STARTED, 127},
        {137, BOXLITE_EXIT_BOX_LOST, 125},
    };

    for (size_t i = 0; i < CLI_COUNT(rows); i++) {
        boxlite_exec_result r = {.exit_code = rows[i].code, .flags = rows[i].flags};

        ASSERT_EQ(cli_stream_status(NULL, NULL, &r), rows[i].status);
    }
}
