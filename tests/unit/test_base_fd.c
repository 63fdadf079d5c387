/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_fd.c: descriptors, locks, unix sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "harness.h"

static bool is_cloexec(int fd)
{
    return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

TEST(descriptors_are_close_on_exec)
{
    int p[2], s[2];
    ASSERT_EQ(bx_pipe(p), 0);
    ASSERT_EQ(bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, s), 0);
    ASSERT(is_cloexec(p[0]) && is_cloexec(p[1]) && is_cloexec(s[0]) && is_cloexec(s[1]));
    ASSERT(fcntl(s[0], F_GETFL) & O_NONBLOCK);
    ASSERT_EQ(bx_set_cloexec(p[0], false), 0);
    ASSERT(!is_cloexec(p[0]));
    ASSERT_EQ(bx_set_nonblock(p[0], true), 0);
    ASSERT(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    ASSERT_EQ(bx_set_nonblock(p[0], false), 0);
    ASSERT(!(fcntl(p[0], F_GETFL) & O_NONBLOCK));
    for (int i = 0; i < 2; i++) {
        bx_close(&p[i]);
        bx_close(&s[i]);
    }
    ASSERT_EQ(p[0], -1);
    bx_close(&p[0]);
    ASSERT_EQ(bx_set_nonblock(-1, true), -EBADF);
    ASSERT_EQ(bx_set_cloexec(-1, true), -EBADF);
}

/* Runs fn in a fork: its return value, 0 to 255. */
static int in_fork(int (*fn)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(fn());
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int close_some_stdio(void)
{
    close(0);
    close(2);
    int r = bx_fix_stdio();
    char c;
    return !(r == 0 && read(0, &c, 1) == 0 && write(2, "x", 1) == 1 && !is_cloexec(0) &&
             !is_cloexec(2));
}

TEST(missing_standard_streams_become_dev_null)
{
    ASSERT_EQ(in_fork(close_some_stdio), 0);
}

static int close_all_but_two(void)
{
    int fds[40], keep[2];
    for (int i = 0; i < 40; i++) {
        fds[i] = fcntl(0, F_DUPFD_CLOEXEC, 10);
    }
    keep[0] = fds[30];
    keep[1] = fds[7];
    if (bx_close_all(10, keep, 2) != 0) {
        return 1;
    }
    for (int i = 0; i < 40; i++) {
        if ((fcntl(fds[i], F_GETFD) >= 0) != (i == 30 || i == 7)) {
            return 2 + i;
        }
    }
    return fcntl(0, F_GETFD) >= 0 ? 0 : 99;
}

TEST(all_but_the_kept_are_closed)
{
    ASSERT_EQ(in_fork(close_all_but_two), 0);
}

/* A kernel before 5.9, or a sandbox that does not know the call. */
static int close_all_without_close_range(void)
{
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    if (!f || seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(close_range), 0) < 0 ||
        seccomp_load(f) < 0) {
        return 98;
    }
    seccomp_release(f);
    return close_all_but_two();
}

TEST(all_but_the_kept_are_closed_on_an_old_kernel_too)
{
    ASSERT_EQ(in_fork(close_all_without_close_range), 0);
}

/* Some tools hide descriptors of their own: listed, but not there for close(2). */
static int close_all_but_a_hidden_one(void)
{
    int hidden = fcntl(0, F_DUPFD_CLOEXEC, 100), plain = fcntl(0, F_DUPFD_CLOEXEC, 100);
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    if (!f || seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(close_range), 0) < 0 ||
        seccomp_rule_add(f, SCMP_ACT_ERRNO(EBADF), SCMP_SYS(close), 1,
                         SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)hidden)) < 0 ||
        seccomp_load(f) < 0) {
        return 98;
    }
    seccomp_release(f);
    return bx_close_all(100, NULL, 0) == 0 && fcntl(plain, F_GETFD) < 0 ? 0 : 1;
}

TEST(closing_all_ends_though_one_cannot_be_closed)
{
    ASSERT_EQ(in_fork(close_all_but_a_hidden_one), 0);
}

TEST(a_pidfd_signals_and_tells_what_is_gone)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            pause();
        }
    }
    int pidfd = bx_pidfd_open(pid);
    ASSERT_GE(pidfd, 0);
    ASSERT(is_cloexec(pidfd));
    ASSERT_EQ(bx_pidfd_signal(pidfd, 0), 0);
    ASSERT_EQ(bx_pidfd_signal(pidfd, SIGKILL), 0);
    int status;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(WTERMSIG(status), SIGKILL);
    ASSERT_EQ(bx_pidfd_signal(pidfd, SIGKILL), -ESRCH);
    bx_close(&pidfd);
    ASSERT_LT(bx_pidfd_open(-1), 0);
}

TEST(a_lock_is_of_the_open_file)
{
    int a = openat(tmpdir_fd(), "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int b = openat(tmpdir_fd(), "lock", O_RDWR | O_CLOEXEC);
    ASSERT(a >= 0 && b >= 0);
    ASSERT_EQ(bx_lock_held(b), 0);
    ASSERT_EQ(bx_lock(a, true, false), 0);
    ASSERT_EQ(bx_lock(b, true, false), -EAGAIN);
    ASSERT_EQ(bx_lock(b, false, false), -EAGAIN);
    ASSERT_EQ(bx_lock_held(b), 1);
    ASSERT_EQ(bx_lock_held(a), 0); /* one's own does not count */
    /* Unlike a POSIX lock it survives the closing of another descriptor of the file. */
    int c = openat(tmpdir_fd(), "lock", O_RDWR | O_CLOEXEC);
    bx_close(&c);
    ASSERT_EQ(bx_lock(b, true, false), -EAGAIN);
    ASSERT_EQ(bx_unlock(a), 0);
    ASSERT_EQ(bx_lock(b, false, false), 0);
    ASSERT_EQ(bx_lock(a, false, false), 0); /* shared with shared */
    ASSERT_EQ(bx_lock(a, true, false), -EAGAIN);
    bx_close(&b);
    ASSERT_EQ(bx_lock(a, true, false), 0);
    bx_close(&a);
    ASSERT_EQ(bx_lock(-1, true, false), -EBADF);
}

TEST(a_lock_goes_with_its_killed_owner)
{
    int fd = openat(tmpdir_fd(), "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int mine = openat(tmpdir_fd(), "lock", O_RDWR | O_CLOEXEC);
        char ok = bx_lock(mine, true, false) == 0;
        (void)!write(p[1], &ok, 1);
        for (;;) {
            pause();
        }
    }
    char ok = 0;
    ASSERT_EQ(read(p[0], &ok, 1), 1);
    ASSERT(ok);
    ASSERT_EQ(bx_lock_held(fd), 1);
    kill(pid, SIGKILL);
    ASSERT_EQ(bx_lock(fd, true, true), 0); /* waits for it */
    ASSERT_EQ(waitpid(pid, NULL, 0), pid);
    bx_close(&fd);
    bx_close(&p[0]);
    bx_close(&p[1]);
}

TEST(sockets_do_not_mind_a_long_path)
{
    char name[201];
    memset(name, 'd', 200);
    name[200] = '\0';
    int dir = bx_open_dir(tmpdir_fd(), name, 0700);
    ASSERT_GE(dir, 0);
    ASSERT_EQ(bx_unix_connect(dir, "control"), -ENOENT);
    int server = bx_unix_listen(dir, "control", 4);
    ASSERT_GE(server, 0);
    struct stat st;
    ASSERT_EQ(fstatat(dir, "control", &st, 0), 0);
    ASSERT(S_ISSOCK(st.st_mode));
    ASSERT_EQ(st.st_mode & 0777 & ~0600u, 0);
    ASSERT_EQ(bx_unix_listen(dir, "control", 4), -EADDRINUSE);
    int client = bx_unix_connect(dir, "control");
    ASSERT_GE(client, 0);
    int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    ASSERT_GE(peer, 0);
    uid_t uid = (uid_t)-1;
    ASSERT_EQ(bx_peer_uid(peer, &uid), 0);
    ASSERT_EQ(uid, geteuid());
    bx_close(&server);
    bx_close(&client);
    bx_close(&peer);
    ASSERT_EQ(bx_unix_connect(dir, "control"), -ECONNREFUSED); /* the file outlived its server */
    bx_close(&dir);
}

TEST(socket_names_are_checked)
{
    char longname[120];
    memset(longname, 'x', sizeof(longname) - 1);
    longname[sizeof(longname) - 1] = '\0';
    ASSERT_EQ(bx_unix_listen(tmpdir_fd(), longname, 1), -ENAMETOOLONG);
    ASSERT_EQ(bx_unix_connect(tmpdir_fd(), ""), -EINVAL);
    char buf[64];
    ASSERT_EQ(bx_fd_path(7, "a", buf, sizeof(buf)), 0);
    ASSERT_STREQ(buf, "/proc/self/fd/7/a");
    ASSERT_EQ(bx_fd_path(AT_FDCWD, "a/b", buf, sizeof(buf)), 0);
    ASSERT_STREQ(buf, "a/b");
    ASSERT_EQ(bx_fd_path(7, "a", buf, 17), -ENAMETOOLONG);
    int p[2];
    uid_t uid;
    ASSERT_EQ(bx_pipe(p), 0);
    ASSERT_EQ(bx_peer_uid(p[0], &uid), -ENOTSOCK);
    bx_close(&p[0]);
    bx_close(&p[1]);
}
