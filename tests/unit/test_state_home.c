/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_state_home.c: the home directory: whose it is, what is refused, temporary files.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "harness.h"
#include "state/home.h"

static char *in_tmpdir(const char *name)
{
    char *path = bx_path_join(tmpdir(), name);

    ASSERT_NOT_NULL(path);
    return path;
}

TEST(a_new_home_is_private)
{
    _cleanup_free_ char *path = in_tmpdir("a/b/home"), *sub = NULL;
    _cleanup_home_ struct bx_home *home = NULL;
    _cleanup_close_ int dir = -1;
    struct stat st;

    ASSERT_OK(bx_home_open(path, &home, ERR));
    ASSERT_STREQ(home->path, path);
    ASSERT_EQ(stat(path, &st), 0);
    ASSERT_EQ(st.st_mode & 07777, 0700);
    ASSERT_OK(bx_home_dir(home, "boxes", &dir, ERR));
    sub = bx_home_path(home, "boxes", "x");
    ASSERT_CONTAINS(sub, "/home/boxes/x");
}

TEST(the_environment_names_the_home)
{
    _cleanup_free_ char *one = in_tmpdir("one"), *two = in_tmpdir("two");
    struct bx_home *home = NULL;

    ASSERT_EQ(setenv("BOXLITE_HOME", one, 1), 0);
    ASSERT_EQ(setenv("HOME", two, 1), 0);
    ASSERT_OK(bx_home_open(NULL, &home, ERR));
    ASSERT_STREQ(home->path, one);
    bx_home_free(home);
    ASSERT_EQ(unsetenv("BOXLITE_HOME"), 0);
    ASSERT_OK(bx_home_open(NULL, &home, ERR));
    ASSERT_STREQ(home->path + strlen(two), "/.boxlite");
    bx_home_free(home);
}

TEST(a_file_as_home_is_refused)
{
    _cleanup_free_ char *path = in_tmpdir("file"), *below = in_tmpdir("file/home");
    struct bx_home *home = NULL;

    ASSERT_EQ(bx_write_file(tmpdir_fd(), "file", "x", 1, 0600), 0);
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_home_open(path, &home, ERR));
    ASSERT_CONTAINS(err_message(), path);
    ASSERT_CONTAINS(err_hint(), "BOXLITE_HOME");
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_home_open(below, &home, ERR));
    ASSERT_NULL(home);
}

TEST(a_home_of_another_user_is_refused)
{
    _cleanup_free_ char *path = in_tmpdir("home");
    struct bx_home *home = NULL;

    if (geteuid() != 0) {
        SKIP("only root can make a folder of another user");
    }
    ASSERT_EQ(mkdir(path, 0700), 0);
    ASSERT_EQ(chown(path, 12345, 12345), 0);
    ASSERT_FAILS(BOXLITE_E_DENIED, bx_home_open(path, &home, ERR));
    ASSERT_CONTAINS(err_message(), "belongs to another user (uid 12345");
}

TEST(a_home_that_all_can_write_is_refused)
{
    _cleanup_free_ char *path = in_tmpdir("home");
    struct bx_home *home = NULL;

    ASSERT_EQ(mkdir(path, 0700), 0);
    ASSERT_EQ(chmod(path, 0777), 0);
    ASSERT_FAILS(BOXLITE_E_DENIED, bx_home_open(path, &home, ERR));
    ASSERT_CONTAINS(err_hint(), "chmod 700");
}

/* As an ordinary user in a child, because root passes mode bits. The exit status is the error's. */
static void open_as_nobody(const char *path, mode_t mode, int want)
{
    int status;
    pid_t pid;

    ASSERT_EQ(chmod(tmpdir(), 0755), 0);
    ASSERT_EQ(mkdir(path, 0700), 0);
    ASSERT_EQ(chown(path, 65534, 65534), 0);
    ASSERT_EQ(chmod(path, mode), 0);
    pid = fork();
    if (pid == 0) {
        struct bx_home *home = NULL;
        boxlite_error *err = NULL;
        int r = setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0
                    ? 1
                    : bx_home_open(path, &home, &err);
        if (r == 0) {
            bx_home_free(home);
        }
        _exit(r == want && (r == 0 ||
                            (strstr(boxlite_error_message(err), path) && boxlite_error_hint(err)))
                  ? 0
                  : 1);
    }
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
}

TEST(an_unreadable_or_read_only_home_is_named)
{
    _cleanup_free_ char *a = in_tmpdir("good"), *b = in_tmpdir("unreadable"),
                        *c = in_tmpdir("readonly");

    if (geteuid() != 0) {
        SKIP("needs root to become another user");
    }
    open_as_nobody(a, 0700, 0);
    open_as_nobody(b, 0000, BOXLITE_E_DENIED);
    open_as_nobody(c, 0500, BOXLITE_E_DENIED);
}

TEST(formats_are_checked)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"2\n", BOXLITE_E_UNSUPPORTED}, {"x\n", BOXLITE_E_INTEGRITY},  {"", BOXLITE_E_INTEGRITY},
        {"0\n", BOXLITE_E_INTEGRITY},   {"-1\n", BOXLITE_E_INTEGRITY},
    };
    _cleanup_free_ char *path = in_tmpdir("home");
    struct bx_home *home = NULL;

    ASSERT_OK(bx_home_open(path, &home, ERR));
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_home *again = NULL;
        ASSERT_EQ(bx_write_file(home->fd, "version", cases[i].text, strlen(cases[i].text), 0600),
                  0);
        ASSERT_FAILS(cases[i].code, bx_home_open(path, &again, ERR));
    }
    bx_home_free(home);
}

TEST(space_is_compared)
{
    _cleanup_free_ char *path = in_tmpdir("home");
    _cleanup_home_ struct bx_home *home = NULL;

    ASSERT_OK(bx_home_open(path, &home, ERR));
    ASSERT_OK(bx_home_need_space(home, 1, "it", ERR));
    ASSERT_FAILS(BOXLITE_E_NO_SPACE, bx_home_need_space(home, UINT64_MAX, "the thing", ERR));
    ASSERT_CONTAINS(err_message(), "the thing needs");
    ASSERT_CONTAINS(err_hint(), "free some space");
}

TEST(a_full_disk_is_told)
{
    _cleanup_free_ char *path = in_tmpdir("full"), *below = in_tmpdir("full/home");
    _cleanup_home_ struct bx_home *home = NULL;
    _cleanup_close_ int fd = -1;
    static char block[65536];

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mkdir(path, 0700) < 0 || mount("none", path, "tmpfs", 0, "size=64k") < 0) {
        SKIP("no right to mount a small file system: %s", strerror(errno));
    }
    fd = openat(tmpdir_fd(), "full/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    while (write(fd, block, sizeof(block)) > 0 || write(fd, block, 1) > 0) {
    }
    ASSERT_EQ(errno, ENOSPC);
    ASSERT_FAILS(BOXLITE_E_NO_SPACE, bx_home_open(below, &home, ERR));
    ASSERT_CONTAINS(err_hint(), "free some space");
    ASSERT_EQ(close(fd), 0);
    fd = -1;
    ASSERT_EQ(umount(path), 0);
}

TEST(temporary_things_are_swept_when_nobody_holds_them)
{
    _cleanup_free_ char *path = in_tmpdir("home");
    _cleanup_home_ struct bx_home *home = NULL;
    int dir[3], fd[3];
    char name[3][64];

    ASSERT_OK(bx_home_open(path, &home, ERR));
    ASSERT_OK(bx_home_sweep_tmp(home, ERR)); /* no tmp/ yet */
    ASSERT_OK(bx_home_tmp_file(home, "held", &dir[0], &fd[0], name[0], 64, ERR));
    ASSERT_OK(bx_home_tmp_file(home, "left", &dir[1], &fd[1], name[1], 64, ERR));
    ASSERT_OK(bx_home_tmp_dir(home, "folder", &dir[2], &fd[2], name[2], 64, ERR));
    ASSERT_EQ(bx_write_file(fd[2], "inside", "x", 1, 0600), 0);
    ASSERT_EQ(symlinkat("/etc", dir[0], "link"), 0);
    ASSERT_OK(bx_home_sweep_tmp(home, ERR));
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(faccessat(dir[i], name[i], F_OK, AT_SYMLINK_NOFOLLOW), 0);
    }
    ASSERT_EQ(faccessat(dir[0], "link", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    close(fd[1]);
    close(fd[2]);
    ASSERT_OK(bx_home_sweep_tmp(home, ERR));
    ASSERT_EQ(faccessat(dir[0], name[0], F_OK, 0), 0);
    ASSERT_EQ(faccessat(dir[1], name[1], F_OK, 0), -1);
    ASSERT_EQ(faccessat(dir[2], name[2], F_OK, 0), -1);
    ASSERT_EQ(access("/etc", F_OK), 0);
    close(fd[0]);
    for (int i = 0; i < 3; i++) {
        close(dir[i]);
    }
}

TEST(a_small_file_that_a_crash_left_unfinished_is_swept)
{
    _cleanup_free_ char *path = in_tmpdir("home");
    _cleanup_home_ struct bx_home *home = NULL;
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    static const char *const names[] = {".tmp.old", "images/.tmp.old",
                                        "images/blobs/sha256/.tmp.old", "kernels/default/.tmp.old",
                                        "kernels/other/.tmp.old"};

    ASSERT_OK(bx_home_open(path, &home, ERR));
    for (const char *const *dir =
             (const char *const[]){"images", "images/blobs", "images/blobs/sha256", "kernels",
                                   "kernels/default", "kernels/other", NULL};
         *dir; dir++) {
        ASSERT_EQ(mkdirat(home->fd, *dir, 0700), 0);
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(names); i++) {
        ASSERT_EQ(bx_write_file(home->fd, names[i], "x", 1, 0600), 0);
        ASSERT_EQ(utimensat(home->fd, names[i], old, 0), 0);
    }
    ASSERT_EQ(bx_write_file(home->fd, "images/.tmp.new", "x", 1, 0600), 0);
    ASSERT_EQ(bx_write_file(home->fd, "images/index.json", "x", 1, 0600), 0);
    ASSERT_EQ(utimensat(home->fd, "images/index.json", old, 0), 0);
    ASSERT_OK(bx_home_sweep_tmp(home, ERR));
    for (size_t i = 0; i < BX_ARRAY_SIZE(names); i++) {
        ASSERT_EQ(faccessat(home->fd, names[i], F_OK, 0), -1);
    }
    ASSERT_EQ(faccessat(home->fd, "images/.tmp.new", F_OK, 0), 0);
    ASSERT_EQ(faccessat(home->fd, "images/index.json", F_OK, 0), 0);
}

/* Makers and sweepers at once: what a maker was given stays. */
TEST(sweeping_while_others_make)
{
    _cleanup_free_ char *path = in_tmpdir("home");
    _cleanup_home_ struct bx_home *home = NULL;
    int status;
    pid_t pid;

    ASSERT_OK(bx_home_open(path, &home, ERR));
    pid = fork();
    if (pid == 0) {
        struct bx_home *other = NULL;
        if (bx_home_open(path, &other, NULL) < 0) {
            _exit(1);
        }
        for (int i = 0; i < 2000; i++) {
            if (bx_home_sweep_tmp(other, NULL) < 0) {
                _exit(1);
            }
        }
        _exit(0);
    }
    for (int i = 0; i < 500; i++) {
        int dir, fd;
        char name[64];
        ASSERT_OK((i % 2 ? bx_home_tmp_file : bx_home_tmp_dir)(home, "x", &dir, &fd, name,
                                                               sizeof(name), ERR));
        ASSERT_EQ(faccessat(dir, name, F_OK, 0), 0);
        ASSERT_EQ(bx_rm_rf(dir, name), 0);
        close(fd);
        close(dir);
    }
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
}
