/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_spawn.c: starting programs: what the child gets, what the caller is told.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "harness.h"

/* Runs a shell script with the given spec: its status; what it printed in out. */
static int sh_with(struct bx_spawn spec, const char *script, struct bx_buf *out)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    spec.path = "sh";
    spec.argv = argv;
    int status = -1;
    ASSERT_OK(
        bx_run(&spec, out, NULL, bx_deadline_ms(10000 * (int64_t)time_scale()), &status, ERR));
    return status;
}

static int sh(const char *script, struct bx_buf *out)
{
    return sh_with((struct bx_spawn){0}, script, out);
}

TEST(status_and_output_come_back)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1000), err = BX_BUF_INIT(1000);
    const char *argv[] = {"sh", "-c", "echo to out; echo to err >&2; exit 3", NULL};
    struct bx_spawn spec = {.path = "sh", .argv = argv};
    int status = -1;
    ASSERT_OK(bx_run(&spec, &out, &err, BX_NEVER, &status, ERR));
    ASSERT_EQ(status, 3);
    ASSERT_STREQ(bx_buf_str(&out), "to out\n");
    ASSERT_STREQ(bx_buf_str(&err), "to err\n");
    ASSERT_OK(bx_run(&spec, NULL, NULL, BX_NEVER, &status, ERR));
    ASSERT_EQ(status, 3);
    ASSERT_EQ(sh("kill -9 $$", &out), 128 + 9);
}

TEST(output_over_the_maximum_is_dropped_not_waited_for)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(10);
    ASSERT_EQ(sh("head -c 1000000 /dev/zero | tr '\\0' x; exit 4", &out), 4);
    ASSERT_STREQ(bx_buf_str(&out), "xxxxxxxxxx");
}

TEST(a_deadline_ends_it)
{
    static const char *const scripts[] = {"exec sleep 1000", "while :; do echo noise; done"};
    for (size_t i = 0; i < 2; i++) {
        _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(10);
        const char *argv[] = {"sh", "-c", scripts[i], NULL};
        struct bx_spawn spec = {.path = "sh", .argv = argv};
        int status = 77;
        ASSERT_FAILS(BOXLITE_E_TIMEOUT,
                     bx_run(&spec, &out, NULL, bx_deadline_ms(50), &status, ERR));
        ASSERT_EQ(status, 77);
    }
}

TEST(a_grandchild_that_keeps_the_output_open_does_not_keep_us)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1000);
    ASSERT_EQ(sh("sleep 1000 & echo $!", &out), 0);
    uint64_t pid = 0;
    bx_buf_data(&out)[out.len - 1] = '\0'; /* the line break */
    ASSERT_EQ(bx_parse_u64(bx_buf_str(&out), INT32_MAX, &pid), 0);
    ASSERT_EQ(kill((pid_t)pid, SIGKILL), 0);
    reap_orphans();
}

TEST(a_program_that_cannot_be_started_is_the_calls_error)
{
    int pidfd = -1;
    pid_t pid = -1;
    const char *argv[] = {"x", NULL};
    struct bx_spawn spec = {.path = "/nonexistent/program", .argv = argv};
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_spawn(&spec, &pid, &pidfd, ERR));
    ASSERT_CONTAINS(err_message(), "/nonexistent/program: No such file");
    spec.path = "no-such-program-anywhere";
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_spawn(&spec, &pid, &pidfd, ERR));
    spec.path = "/etc/passwd";
    ASSERT_FAILS(BOXLITE_E_DENIED, bx_spawn(&spec, &pid, &pidfd, ERR));
    spec.path = tmpdir();
    ASSERT_FAILS(BOXLITE_E_DENIED, bx_spawn(&spec, &pid, &pidfd, ERR));
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "bad",
                            "\x7f"
                            "ELFnonsense",
                            12, 0700),
              0);
    _cleanup_free_ char *bad = bx_path_join(tmpdir(), "bad");
    spec.path = bad;
    ASSERT_FAILS(BOXLITE_E_IO, bx_spawn(&spec, &pid, &pidfd, ERR));
    ASSERT_CONTAINS(err_message(), "Exec format error");
    ASSERT_EQ(pidfd, -1);
    ASSERT_EQ(pid, -1);
}

TEST(wrong_orders_are_refused)
{
    int pidfd = -1;
    const char *none[] = {NULL}, *argv[] = {"true", NULL};
    struct bx_spawn_fd bad = {.from = -1, .to = 3}, many[40] = {{0}};
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_spawn(&(struct bx_spawn){.path = "true"}, NULL, &pidfd, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_spawn(&(struct bx_spawn){.path = "true", .argv = none}, NULL, &pidfd, ERR));
    struct bx_spawn spec = {.path = "true", .argv = argv, .fds = &bad, .nfds = 1};
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_spawn(&spec, NULL, &pidfd, ERR));
    spec.fds = many;
    spec.nfds = 40;
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_spawn(&spec, NULL, &pidfd, ERR));
    int status;
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_run(&spec, NULL, NULL, BX_NEVER, &status, ERR));
    spec.nfds = 1; /* a descriptor that is not open */
    many[0].from = 1000;
    ASSERT_FAILS(BOXLITE_E_IO, bx_spawn(&spec, NULL, &pidfd, ERR));
    ASSERT_CONTAINS(err_message(), "descriptors: Bad file descriptor");
}

TEST(the_child_has_just_the_descriptors_it_is_given)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1000);
    int leak = open("/dev/zero", O_RDONLY); /* not close-on-exec, like a host program's */
    ASSERT_GE(leak, 0);
    ASSERT_EQ(sh("cd /proc/self/fd; for f in *; do readlink $f; done | sort -u", &out), 0);
    ASSERT_NULL(strstr(bx_buf_str(&out), "/dev/zero"));
    ASSERT_CONTAINS(bx_buf_str(&out), "/dev/null"); /* 0 and 2 */
    bx_close(&leak);
}

/* A map that exchanges, chains and repeats descriptors. */
TEST(no_order_of_the_map_overwrites_a_source)
{
    int fd[4];
    for (int i = 0; i < 4; i++) {
        char name[2] = {(char)('a' + i), 0};
        ASSERT_EQ(bx_write_file(tmpdir_fd(), name, name, 1, 0600), 0);
        fd[i] = openat(tmpdir_fd(), name, O_RDONLY | O_CLOEXEC);
        ASSERT_GE(fd[i], 3);
    }
    struct bx_spawn_fd map[] = {
        {fd[0], fd[1]}, {fd[1], fd[0]}, {fd[2], fd[3]}, {fd[3], 0}, {fd[0], 9}, {fd[2], fd[2]},
    };
    char script[200];
    snprintf(script, sizeof(script),
             "for n in %d %d %d 0 9 %d; do readlink /proc/self/fd/$n | sed 's/.*\\///'; done",
             fd[0], fd[1], fd[3], fd[2]);
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1000);
    ASSERT_EQ(sh_with((struct bx_spawn){.fds = map, .nfds = BX_ARRAY_SIZE(map)}, script, &out), 0);
    ASSERT_STREQ(bx_buf_str(&out), "b\na\nc\nd\na\nc\n");
    for (int i = 0; i < 4; i++) {
        bx_close(&fd[i]);
    }
}

TEST(environment_and_session_are_as_asked)
{
    const char *env[] = {"A=1", "B=two words", NULL};
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1000);
    ASSERT_EQ(sh_with((struct bx_spawn){.envp = env}, "echo \"$A$B$HOME\"", &out), 0);
    ASSERT_STREQ(bx_buf_str(&out), "1two words\n");
    bx_buf_clear(&out);
    ASSERT_EQ(setenv("BX_TEST_INHERITED", "yes", 1), 0);
    ASSERT_EQ(sh("echo $BX_TEST_INHERITED", &out), 0);
    ASSERT_STREQ(bx_buf_str(&out), "yes\n");
    const char *is_leader = "set -- $(cat /proc/$$/stat); [ $6 = $$ ]";
    ASSERT_EQ(sh_with((struct bx_spawn){.new_session = true}, is_leader, NULL), 0);
    ASSERT_EQ(sh(is_leader, NULL), 1);
}

TEST(signals_are_as_in_a_fresh_program)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    ASSERT_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    unsigned long ignore[16] = {1}; /* SIG_IGN; 32 is one of libc's own, met ignored on a CI machine */
    ASSERT_EQ(syscall(SYS_rt_sigaction, 32, ignore, NULL, (size_t)8), 0);
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1000);
    ASSERT_EQ(sh("grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2", &out), 0);
    ASSERT_STREQ(bx_buf_str(&out), "0000000000000000\n0000000000000000\n");
    ASSERT_EQ(sigprocmask(SIG_BLOCK, NULL, &before), 0);
    ASSERT(sigismember(&before, SIGUSR1));
    ASSERT(!sigismember(&before, SIGUSR2));
}

TEST(limits_and_privileges)
{
    struct bx_spawn_limit limit = {.resource = RLIMIT_NOFILE, .limit = {20, 20}};
    struct bx_spawn spec = {.limits = &limit, .nlimits = 1, .no_new_privs = true};
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1000);
    ASSERT_EQ(sh_with(spec, "ulimit -n; grep NoNewPrivs /proc/self/status | cut -f2", &out), 0);
    ASSERT_STREQ(bx_buf_str(&out), "20\n1\n");
    limit.limit.rlim_cur = 30; /* over its hard limit */
    int pidfd = -1;
    const char *argv[] = {"true", NULL};
    spec.path = "true";
    spec.argv = argv;
    ASSERT_FAILS(BOXLITE_E_IO, bx_spawn(&spec, NULL, &pidfd, ERR));
    ASSERT_CONTAINS(err_message(), "starting true: limits");
}

static int hook_ok(void *data)
{
    return prctl(PR_SET_NAME, (unsigned long)"ignored") < 0 || chdir(data) < 0 ? -errno : 0;
}

static int hook_fails(void *data)
{
    return -EXDEV;
}

TEST(the_hook_runs_in_the_child_and_may_refuse)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(1000);
    char root[] = "/";
    ASSERT_EQ(sh_with((struct bx_spawn){.child = hook_ok, .child_data = root}, "pwd", &out), 0);
    ASSERT_STREQ(bx_buf_str(&out), "/\n");
    int pidfd = -1;
    const char *argv[] = {"true", NULL};
    struct bx_spawn spec = {.path = "true", .argv = argv, .child = hook_fails};
    ASSERT_FAILS(BOXLITE_E_IO, bx_spawn(&spec, NULL, &pidfd, ERR));
    ASSERT_CONTAINS(err_message(), "starting true: set-up: ");
}

TEST(a_child_dies_with_its_parent_if_asked)
{
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    pid_t parent = fork();
    if (parent == 0) {
        const char *argv[] = {"sh", "-c", "echo; exec sleep 1000", NULL};
        struct bx_spawn_fd map = {.from = p[1], .to = 1};
        struct bx_spawn spec = {
            .path = "sh", .argv = argv, .fds = &map, .nfds = 1, .death_signal = SIGKILL};
        int pidfd = -1;
        _exit(bx_spawn(&spec, NULL, &pidfd, NULL) < 0); /* leaving the child alone */
    }
    bx_close(&p[1]);
    int status;
    ASSERT_EQ(waitpid(parent, &status, 0), parent);
    ASSERT_EQ(status, 0);
    char buf[8];
    ASSERT_GE(bx_read_full(p[0], buf, sizeof(buf)), 0); /* end of file: nobody holds it any more */
    bx_close(&p[0]);
    reap_orphans();
}

static void *spawn_often(void *data)
{
    for (int i = 0; i < 20; i++) {
        int status = -1;
        const char *argv[] = {"true", NULL};
        struct bx_spawn spec = {.path = "true", .argv = argv};
        if (bx_run(&spec, NULL, NULL, BX_NEVER, &status, NULL) != 0 || status != 0) {
            return data;
        }
    }
    return NULL;
}

static atomic_bool stop_allocating;

static void *allocate_always(void *data)
{
    while (!atomic_load(&stop_allocating)) {
        free(malloc(1000));
    }
    return NULL;
}

TEST_FOR(threads_may_spawn_at_the_same_time, 60)
{
    pthread_t noisy, t[3];
    ASSERT_EQ(pthread_create(&noisy, NULL, allocate_always, NULL), 0);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(pthread_create(&t[i], NULL, spawn_often, &noisy), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *failed = NULL;
        ASSERT_EQ(pthread_join(t[i], &failed), 0);
        ASSERT_NULL(failed);
    }
    atomic_store(&stop_allocating, true);
    ASSERT_EQ(pthread_join(noisy, NULL), 0);
}

TEST(programs_are_found_in_system_folders_too)
{
    ASSERT_EQ(setenv("PATH", "", 1), 0);
    _cleanup_free_ char *a = bx_find_program("sh");
    ASSERT_NOT_NULL(a);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "sh", "#!/bin/sh\n", 10, 0700), 0);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "env", "not executable", 14, 0600), 0);
    ASSERT_EQ(setenv("PATH", tmpdir(), 1), 0);
    _cleanup_free_ char *b = bx_find_program("sh"), *mine = bx_path_join(tmpdir(), "sh");
    ASSERT_STREQ(b, mine);
    _cleanup_free_ char *c = bx_find_program("env");
    ASSERT(c && !bx_startswith(c, tmpdir()));
    ASSERT_EQ(chdir(tmpdir()), 0);
    ASSERT_EQ(setenv("PATH", ".", 1),
              0); /* where the user happens to stand is no folder of programs */
    _cleanup_free_ char *d = bx_find_program("sh");
    ASSERT(d && d[0] == '/');
    ASSERT_EQ(unsetenv("PATH"), 0);
    _cleanup_free_ char *e = bx_find_program("sh");
    ASSERT_NOT_NULL(e);
    ASSERT_NULL(bx_find_program("no-such-program-anywhere"));
    ASSERT_NULL(bx_find_program(""));
    ASSERT_EQ(chdir("/"), 0);
}

TEST(every_allocation_may_fail)
{
    const char *argv[] = {"true", NULL};
    TORTURE
    {
        struct bx_spawn spec = {.path = "true", .argv = argv};
        boxlite_error *err = NULL;
        int status = -1;
        int r = bx_run(&spec, NULL, NULL, BX_NEVER, &status, &err);
        ASSERT((r == 0 && status == 0) || allocation_failed());
        ASSERT_EQ(r < 0, err != NULL);
        boxlite_error_free(err);
    }
}
