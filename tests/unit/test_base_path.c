/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_path.c: names, folders, removal of trees.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "harness.h"

TEST(joining_gives_one_slash)
{
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"},          {"a//", "//b", "a/b"}, {"/", "b", "/b"},
        {"", "b", "/b"},   {"/a/b", "c/d", "/a/b/c/d"}, {"a", "", "a/"},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        _cleanup_free_ char *p = bx_path_join(cases[i][0], cases[i][1]);
        ASSERT_STREQ(p, cases[i][2]);
    }
}

TEST(absolute_paths)
{
    _cleanup_free_ char *a = bx_path_absolute("/x/../y");
    ASSERT_STREQ(a, "/x/../y");
    ASSERT_EQ(chdir(tmpdir()), 0);
    _cleanup_free_ char *cwd = getcwd(NULL, 0), *want = bx_path_join(cwd, "f");
    _cleanup_free_ char *b = bx_path_absolute("f");
    ASSERT_STREQ(b, want);
    ASSERT_EQ(chdir("/"), 0);
    TORTURE
    {
        _cleanup_free_ char *t = bx_path_absolute("f");
        ASSERT_EQ(t == NULL, allocation_failed());
    }
}

TEST(file_names)
{
    static const char *const good[] = {"a", "...", ".hidden", "a b", "-", "\xc3\xbc"};
    static const char *const bad[] = {"", ".", "..", "/", "a/b", "a/", "/a"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(good); i++) {
        ASSERT(bx_is_filename(good[i]));
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT(!bx_is_filename(bad[i]));
    }
    char name[257];
    memset(name, 'x', 256);
    name[256] = '\0';
    ASSERT(!bx_is_filename(name));
    name[255] = '\0';
    ASSERT(bx_is_filename(name));
}

TEST(folders_are_made_with_their_parents)
{
    _cleanup_free_ char *deep = bx_path_join(tmpdir(), "a/b//c/");
    ASSERT_EQ(bx_mkdir_p(deep, 0700), 0);
    ASSERT_EQ(bx_mkdir_p(deep, 0700), 0);
    struct stat st;
    ASSERT_EQ(fstatat(tmpdir_fd(), "a/b/c", &st, 0), 0);
    ASSERT(S_ISDIR(st.st_mode));
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "file", "", 0, 0600), 0);
    _cleanup_free_ char *below = bx_path_join(tmpdir(), "file/x");
    _cleanup_free_ char *same = bx_path_join(tmpdir(), "file");
    ASSERT_EQ(bx_mkdir_p(below, 0700), -ENOTDIR);
    ASSERT_EQ(bx_mkdir_p(same, 0700), -ENOTDIR);
    ASSERT_EQ(bx_mkdir_p("", 0700), -ENOENT);
    ASSERT_EQ(bx_mkdir_p("/", 0700), 0);
    ASSERT_EQ(bx_mkdir_p("/proc/self/none/x", 0700), -ENOENT);
}

TEST(a_folder_is_opened_but_not_through_a_link)
{
    ASSERT_EQ(bx_open_dir(tmpdir_fd(), "d", 0), -ENOENT);
    int d = bx_open_dir(tmpdir_fd(), "d", 0700);
    ASSERT_GE(d, 0);
    bx_close(&d);
    d = bx_open_dir(tmpdir_fd(), "d", 0);
    ASSERT_GE(d, 0);
    bx_close(&d);
    ASSERT_EQ(symlinkat("d", tmpdir_fd(), "link"), 0);
    ASSERT_LT(bx_open_dir(tmpdir_fd(), "link", 0700), 0);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "file", "", 0, 0600), 0);
    ASSERT_EQ(bx_open_dir(tmpdir_fd(), "file", 0700), -ENOTDIR);
}

static bool exists(const char *name)
{
    struct stat st;
    return fstatat(tmpdir_fd(), name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(a_tree_goes_and_what_its_links_name_stays)
{
    _cleanup_free_ char *p = bx_path_join(tmpdir(), "t/a/b");
    ASSERT_EQ(bx_mkdir_p(p, 0700), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "outside", 0700), 0);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "outside/keep", "x", 1, 0600), 0);
    ASSERT_EQ(symlinkat("../outside", tmpdir_fd(), "t/link"), 0);
    ASSERT_EQ(symlinkat("/nowhere", tmpdir_fd(), "t/a/dangling"), 0);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "t/a/f", "x", 1, 0400), 0);
    ASSERT_EQ(mkfifoat(tmpdir_fd(), "t/a/b/fifo", 0600), 0);
    ASSERT_EQ(bx_rm_rf(tmpdir_fd(), "t"), 0);
    ASSERT(!exists("t"));
    ASSERT(exists("outside/keep"));
    ASSERT_EQ(bx_rm_rf(tmpdir_fd(), "t"), 0); /* absent is fine */
    ASSERT_EQ(symlinkat("outside", tmpdir_fd(), "link"), 0);
    ASSERT_EQ(bx_rm_rf(tmpdir_fd(), "link"), 0);
    ASSERT(!exists("link"));
    ASSERT(exists("outside/keep"));
    ASSERT_EQ(bx_rm_rf(tmpdir_fd(), "outside/keep"), 0);
    ASSERT(!exists("outside/keep"));
}

TEST(a_tree_of_any_depth_goes)
{
    int fd = bx_open_dir(tmpdir_fd(), "deep", 0700);
    for (int i = 0; i < 3000; i++) {
        ASSERT_GE(fd, 0);
        ASSERT_EQ(bx_write_file(fd, "f", "", 0, 0600), 0);
        int next = bx_open_dir(fd, "a-folder-name-that-makes-the-path-long", 0700);
        bx_close(&fd);
        fd = next;
        i += 9; /* a file in each tenth is enough */
        for (int k = 0; k < 9; k++) {
            next = bx_open_dir(fd, "d", 0700);
            bx_close(&fd);
            fd = next;
        }
    }
    bx_close(&fd);
    uint64_t sum = 7;
    ASSERT_EQ(bx_disk_usage(tmpdir_fd(), "deep", &sum), -ELOOP);
    ASSERT_EQ(sum, 7);
    ASSERT_EQ(bx_rm_rf(tmpdir_fd(), "deep"), 0);
    ASSERT(!exists("deep"));
}

/* As an ordinary user: root is refused nothing. */
static int remove_locked_tree(void)
{
    if (setgid(65534) < 0 || setuid(65534) < 0) {
        return 1;
    }
    if (mkdirat(tmpdir_fd(), "t", 0700) < 0 || mkdirat(tmpdir_fd(), "t/locked", 0700) < 0 ||
        mkdirat(tmpdir_fd(), "t/locked/x", 0700) < 0 || mkdirat(tmpdir_fd(), "t/none", 0) < 0 ||
        fchmodat(tmpdir_fd(), "t/locked", 0500, 0) < 0 || fchmodat(tmpdir_fd(), "t", 0500, 0) < 0) {
        return 2;
    }
    return bx_rm_rf(tmpdir_fd(), "t") == 0 && !exists("t") ? 0 : 3;
}

TEST(modes_do_not_protect_a_tree_of_ones_own)
{
    ASSERT_EQ(fchmod(tmpdir_fd(), 0777), 0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(geteuid() == 0 ? remove_locked_tree() : 0);
    }
    int status;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
}

/* What cannot be removed is told, the rest is removed. */
static int remove_foreign_part(void)
{
    if (setgid(65534) < 0 || setuid(65534) < 0) {
        return 1;
    }
    int r = bx_rm_rf(tmpdir_fd(), "t");
    return r == -EACCES && exists("t/foreign/x") && !exists("t/own") ? 0 : 2;
}

TEST(removal_goes_on_after_a_failure)
{
    if (geteuid() != 0) {
        SKIP("needs root to make files of two owners");
    }
    ASSERT_EQ(fchmod(tmpdir_fd(), 0777), 0);
    _cleanup_free_ char *p = bx_path_join(tmpdir(), "t/foreign/x");
    ASSERT_EQ(bx_mkdir_p(p, 0755), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "t/own", 0755), 0);
    ASSERT_EQ(fchownat(tmpdir_fd(), "t", 65534, 65534, 0), 0);
    ASSERT_EQ(fchownat(tmpdir_fd(), "t/own", 65534, 65534, 0), 0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(remove_foreign_part());
    }
    int status;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
}

TEST(usage_counts_blocks_not_sizes)
{
    ASSERT_EQ(mkdirat(tmpdir_fd(), "u", 0700), 0);
    int f = openat(tmpdir_fd(), "u/sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(ftruncate(f, 1 << 30), 0);
    static const char block[65536] = {1};
    ASSERT_EQ(bx_pwrite_full(f, block, sizeof(block), 0), 0);
    ASSERT_EQ(fsync(f), 0);
    bx_close(&f);
    uint64_t sum = 0;
    ASSERT_EQ(bx_disk_usage(tmpdir_fd(), "u", &sum), 0);
    ASSERT_GE(sum, 65536);
    ASSERT_LT(sum, 1 << 20);
    ASSERT_EQ(bx_disk_usage(tmpdir_fd(), "absent", &sum), -ENOENT);
}

TEST(temporary_names_are_new)
{
    char a[64], b[64];
    ASSERT_EQ(bx_mkdtempat(tmpdir_fd(), "box", a, sizeof(a)), 0);
    ASSERT_EQ(bx_mkdtempat(tmpdir_fd(), "box", b, sizeof(b)), 0);
    ASSERT(bx_startswith(a, "box."));
    ASSERT_EQ(strlen(a), 12);
    ASSERT(!bx_streq(a, b));
    struct stat st;
    ASSERT_EQ(fstatat(tmpdir_fd(), a, &st, 0), 0);
    ASSERT_EQ(st.st_mode, S_IFDIR | 0700);
    int fd = bx_mkstempat(tmpdir_fd(), ".tmp", a, sizeof(a));
    ASSERT_GE(fd, 0);
    ASSERT_EQ(fstatat(tmpdir_fd(), a, &st, 0), 0);
    ASSERT_EQ(st.st_mode, S_IFREG | 0600);
    bx_close(&fd);
    char small[8] = "as-is";
    ASSERT_EQ(bx_mkdtempat(tmpdir_fd(), "prefix", small, sizeof(small)), -ENAMETOOLONG);
    ASSERT_STREQ(small, "as-is");
    ASSERT_EQ(bx_mkstempat(-1, "x", a, sizeof(a)), -EBADF);
}
