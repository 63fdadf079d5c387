/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One shared folder and a guest's kernel that lies: nothing outside is reached, nothing read-only is
 * changed, nothing grows without a bound.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuse_client.h"
#include "share/jail.h"
#include "share/server.h"

static struct fuse_client fc;

static void tree(void)
{
    ASSERT_EQ(mkdirat(tmpdir_fd(), "t", 0755), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "t/a", 0755), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "t/a/b", 0755), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "t/z", 0755), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "outside", 0755), 0);
    ASSERT_OK(bx_write_file(tmpdir_fd(), "t/a/b/file", "inside", 6, 0644));
    ASSERT_OK(bx_write_file(tmpdir_fd(), "outside/file", "secret", 6, 0644));
}

static void outside_is_as_it_was(void)
{
    struct stat st;
    ASSERT_EQ(fstatat(tmpdir_fd(), "outside/file", &st, 0), 0);
    ASSERT_EQ(st.st_size, 6);
    ASSERT_EQ(st.st_mode, (mode_t)(S_IFREG | 0644));
    ASSERT_EQ(st.st_nlink, 1);
    _cleanup_closedir_ DIR *d =
        fdopendir(openat(tmpdir_fd(), "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    unsigned n = 0;
    while (d && readdir(d)) {
        n++;
    }
    ASSERT_EQ(n, 3);
}

TEST(names_are_single_components)
{
    static const char *const bad[] = {"",           ".",    "..", "/",      "a/b",
                                      "../outside", "/etc", "a/", "b/../.."};
    char longest[300];
    tree();
    fc_start(&fc, "t");
    memset(longest, 'x', sizeof(longest));
    longest[256] = '\0';
    ASSERT_EQ(fc_lookup(&fc, ROOT, longest), -ENAMETOOLONG);
    uint64_t a = fc_node(&fc, "a"), file = fc_node(&fc, "a/b/file");
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT_EQ(fc_lookup(&fc, ROOT, bad[i]), -EINVAL);
        ASSERT_EQ(fc_create(&fc, ROOT, bad[i], O_RDWR, 0644), -EINVAL);
        ASSERT_EQ(fc_mkdir(&fc, ROOT, bad[i]), -EINVAL);
        ASSERT_EQ(fc_mknod(&fc, ROOT, bad[i], S_IFREG), -EINVAL);
        ASSERT_EQ(fc_symlink(&fc, ROOT, bad[i], "x"), -EINVAL);
        ASSERT_EQ(fc_link(&fc, file, ROOT, bad[i]), -EINVAL);
        ASSERT_EQ(fc_name(&fc, FUSE_UNLINK, ROOT, bad[i]), -EINVAL);
        ASSERT_EQ(fc_name(&fc, FUSE_RMDIR, ROOT, bad[i]), -EINVAL);
        ASSERT_EQ(fc_rename(&fc, ROOT, "a", ROOT, bad[i], 0), -EINVAL);
        ASSERT_EQ(fc_rename(&fc, ROOT, bad[i], a, "x", 0), -EINVAL);
    }
    outside_is_as_it_was();
    fc_stop(&fc);
}

static void links_lead_nowhere(bool no_openat2)
{
    uint64_t fh;
    tree();
    ASSERT_EQ(symlinkat("../outside", tmpdir_fd(), "t/out"), 0);
    ASSERT_EQ(symlinkat("../outside/file", tmpdir_fd(), "t/outfile"), 0);
    fc_start_with(&fc, "t", &(struct bx_export_options){.max_fds = 1});
    fc.t.nodes.no_openat2 |= no_openat2;
    uint64_t out = fc_node(&fc, "out"), outfile = fc_node(&fc, "outfile");
    ASSERT_EQ(fc_lookup(&fc, out, "file"), -ENOTDIR);
    ASSERT_EQ(fc_create(&fc, out, "new", O_RDWR, 0644), -ENOTDIR);
    ASSERT_EQ(fc_mkdir(&fc, out, "new"), -ENOTDIR);
    ASSERT_EQ(fc_opendir(&fc, out, &fh), -ENOTDIR);
    ASSERT_EQ(fc_open(&fc, outfile, O_RDONLY, &fh), -ELOOP);
    ASSERT_EQ(fc_create(&fc, ROOT, "outfile", O_RDWR | O_TRUNC, 0644), -ELOOP);
    ASSERT_EQ(fc_setattr(&fc, outfile, (struct fuse_setattr_in){.valid = FATTR_MODE, .mode = 0}),
              -EOPNOTSUPP);
    ASSERT_NE(fc_setattr(&fc, outfile, (struct fuse_setattr_in){.valid = FATTR_SIZE}), 0);

    /* Known folders are swapped for links behind the server's back. */
    uint64_t b = fc_node(&fc, "a/b"), file = fc_node(&fc, "a/b/file");
    ASSERT_EQ(renameat(tmpdir_fd(), "t/a/b", tmpdir_fd(), "t/a/was"), 0);
    ASSERT_EQ(symlinkat("../../outside", tmpdir_fd(), "t/a/b"), 0);
    (void)fc_node(&fc, "z/x"); /* takes the one descriptor of the cache */
    ASSERT_EQ(fc_getattr(&fc, file), -ESTALE);
    ASSERT_EQ(fc_open(&fc, file, O_RDWR | O_TRUNC, &fh), -ESTALE);
    ASSERT_EQ(fc_create(&fc, b, "new", O_RDWR, 0644), -ESTALE);
    ASSERT_EQ(fc_name(&fc, FUSE_UNLINK, b, "file"), -ESTALE);
    ASSERT_EQ(fc_rename(&fc, b, "file", ROOT, "mine", 0), -ESTALE);
    ASSERT_EQ(fc_setattr(&fc, file, (struct fuse_setattr_in){.valid = FATTR_MODE, .mode = 0}),
              -ESTALE);
    outside_is_as_it_was();
    fc_stop(&fc);
}

TEST(links_lead_nowhere_with_openat2)
{
    links_lead_nowhere(false);
}

TEST(links_lead_nowhere_without_openat2)
{
    links_lead_nowhere(true);
}

TEST(a_folder_that_was_moved_out_is_lost)
{
    tree();
    fc_start_with(&fc, "t", &(struct bx_export_options){.max_fds = 1});
    uint64_t b = fc_node(&fc, "a/b");
    (void)fc_node(&fc, "a");
    ASSERT_EQ(renameat(tmpdir_fd(), "t/a/b", tmpdir_fd(), "moved"), 0);
    (void)fc_node(&fc, "z/x");
    ASSERT_EQ(fc_lookup(&fc, b, ".."), -EINVAL);
    ASSERT_EQ(fc_create(&fc, b, "new", O_RDWR, 0644), -ESTALE);
    fc_stop(&fc);
}

TEST(a_read_only_folder_is_not_changed)
{
    uint64_t fh;
    tree();
    fc_start_with(&fc, "t", &(struct bx_export_options){.read_only = true});
    uint64_t a = fc_node(&fc, "a"), file = fc_node(&fc, "a/b/file");
    ASSERT_EQ(fc_open(&fc, file, O_RDWR, &fh), -EROFS);
    ASSERT_EQ(fc_open(&fc, file, O_WRONLY, &fh), -EROFS);
    ASSERT_EQ(fc_open(&fc, file, O_RDONLY | O_TRUNC, &fh), -EROFS);
    ASSERT_EQ(fc_create(&fc, a, "new", O_RDONLY, 0644), -EROFS);
    ASSERT_EQ(fc_mkdir(&fc, a, "new"), -EROFS);
    ASSERT_EQ(fc_mknod(&fc, a, "new", S_IFREG), -EROFS);
    ASSERT_EQ(fc_symlink(&fc, a, "new", "x"), -EROFS);
    ASSERT_EQ(fc_link(&fc, file, a, "new"), -EROFS);
    ASSERT_EQ(fc_name(&fc, FUSE_UNLINK, a, "b"), -EROFS);
    ASSERT_EQ(fc_name(&fc, FUSE_RMDIR, a, "b"), -EROFS);
    ASSERT_EQ(fc_rename(&fc, ROOT, "a", ROOT, "c", 0), -EROFS);
    ASSERT_EQ(fc_setxattr(&fc, file, "user.a", "x"), -EROFS);
    ASSERT_EQ(fc_name(&fc, FUSE_REMOVEXATTR, file, "user.a"), -EROFS);
    for (uint32_t bit = 1; bit <= FATTR_KILL_SUIDGID; bit <<= 1) {
        ASSERT_EQ(fc_setattr(&fc, file, (struct fuse_setattr_in){.valid = bit}), -EROFS);
    }
    ASSERT_EQ(fc_open(&fc, file, O_RDONLY, &fh), 0);
    ASSERT_EQ(fc_write(&fc, file, fh, 0, "x", 1), -EBADF);
    const struct fuse_fallocate_in in = {.fh = fh, .length = 100};
    ASSERT_EQ(fc_ask(&fc, FUSE_FALLOCATE, file, ARG(in), NULL, NULL, NULL, 0), -EROFS);
    const struct fuse_copy_file_range_in copy = {.fh_in = fh, .fh_out = fh, .len = 1};
    ASSERT_EQ(fc_ask(&fc, FUSE_COPY_FILE_RANGE, file, ARG(copy), NULL, NULL, NULL, 0), -EROFS);
    const struct fuse_access_in access = {.mask = W_OK};
    ASSERT_EQ(fc_ask(&fc, FUSE_ACCESS, file, ARG(access), NULL, NULL, NULL, 0), -EROFS);
    fc_stop(&fc);
}

TEST(special_files_are_neither_opened_nor_made)
{
    uint64_t fh;
    tree();
    (void)umask(0); /* as the server has it */
    ASSERT_EQ(mkfifoat(tmpdir_fd(), "t/fifo", 0666), 0);
    fc_start(&fc, "t");
    uint64_t fifo = fc_node(&fc, "fifo");
    ASSERT_EQ(fc_open(&fc, fifo, O_RDONLY, &fh),
              -EACCES); /* at once: it does not wait for a writer */
    ASSERT_EQ(fc_create(&fc, ROOT, "fifo", O_WRONLY, 0644), -EACCES);
    ASSERT_EQ(fc_mknod(&fc, ROOT, "dev", S_IFCHR | 0666), -EPERM);
    ASSERT_EQ(fc_mknod(&fc, ROOT, "dev", S_IFBLK | 0666), -EPERM);
    ASSERT_EQ(fc_mknod(&fc, ROOT, "dev", 0666), -EPERM);
    ASSERT_EQ(fc_mknod(&fc, ROOT, "own", S_IFIFO | 06666), 0);
    ASSERT_EQ(fc.entry.attr.mode, S_IFIFO | 0666);
    fc_stop(&fc);
}

TEST(doors_to_the_kernel_and_the_home_are_not_entered)
{
    struct stat hidden;
    tree();
    ASSERT_EQ(fstatat(tmpdir_fd(), "t/a/b", &hidden, 0), 0);
    fc_start_with(&fc, "t", &(struct bx_export_options){.hidden = hidden});
    uint64_t a = fc_node(&fc, "a");
    ASSERT_EQ(fc_lookup(&fc, a, "b"), -EACCES);
    fc_stop(&fc);
    fc_start_with(&fc, "/", &(struct bx_export_options){.read_only = true});
    ASSERT_EQ(fc_lookup(&fc, ROOT, "proc"), -EACCES);
    ASSERT_EQ(fc_lookup(&fc, ROOT, "etc"), 0);
    fc_stop(&fc);
}

TEST(numbers_that_were_not_given_mean_nothing)
{
    uint64_t fh, dirfh;
    tree();
    fc_start(&fc, "t");
    static const uint64_t ids[] = {0, 2, 3, 1ull << 32, (1ull << 32) + 1, UINT64_MAX, UINT32_MAX};
    for (size_t i = 0; i < BX_ARRAY_SIZE(ids); i++) {
        ASSERT_EQ(fc_getattr(&fc, ids[i]), -ESTALE);
        ASSERT_EQ(fc_read(&fc, ROOT, ids[i], 0, 10), -EBADF);
        ASSERT_EQ(fc_release(&fc, ROOT, ids[i]), -EBADF);
        ASSERT_EQ(fc_link(&fc, ids[i], ROOT, "x"), -ESTALE);
        ASSERT_EQ(fc_rename(&fc, ROOT, "a", ids[i], "x", 0), -ESTALE);
        ASSERT_EQ(fc_forget(&fc, ids[i], 1), 1);
    }
    uint64_t file = fc_node(&fc, "a/b/file"), a = fc_node(&fc, "a");
    ASSERT_EQ(fc_open(&fc, file, O_RDWR, &fh), 0);
    ASSERT_EQ(fc_opendir(&fc, a, &dirfh), 0);
    ASSERT_EQ(fc_read(&fc, a, dirfh, 0, 10), -EBADF); /* one kind for the other */
    const struct fuse_read_in in = {.fh = fh, .size = 100};
    ASSERT_EQ(fc_ask(&fc, FUSE_READDIR, file, ARG(in), NULL, NULL, NULL, 0), -EBADF);
    const struct fuse_read_in other = {.fh = dirfh, .size = 100};
    ASSERT_EQ(fc_ask(&fc, FUSE_READDIR, ROOT, ARG(other), NULL, NULL, NULL, 0), -EBADF);
    ASSERT_EQ(fc_read(&fc, file, fh, UINT64_MAX, 10), -EINVAL);
    ASSERT_EQ(fc_write(&fc, file, fh, UINT64_MAX, "x", 1), -EINVAL);
    ASSERT_EQ(fc_forget(&fc, file, UINT64_MAX), 1); /* more than it owed */
    ASSERT_EQ(fc_getattr(&fc, file), -ESTALE);
    ASSERT_EQ(fc_read(&fc, file, fh, 0, 10), -ESTALE);
    ASSERT_EQ(fc_forget(&fc, ROOT, UINT64_MAX), 1);
    ASSERT_EQ(fc_getattr(&fc, ROOT), 0);
    fc_stop(&fc);
}

TEST(a_node_that_is_forgotten_and_used_again_is_another)
{
    tree();
    fc_start(&fc, "t");
    uint64_t a = fc_node(&fc, "a");
    ASSERT_EQ(fc_forget(&fc, a, 1), 1);
    for (unsigned i = 0; i < 200; i++) { /* round all slots */
        uint64_t n = fc_node(&fc, "a");
        ASSERT_NE(n, a);
        ASSERT_EQ(fc_forget(&fc, n, 1), 1);
    }
    ASSERT_EQ(fc_getattr(&fc, a), -ESTALE);
    ASSERT_EQ(fc.t.nodes.used, 1);
    fc_stop(&fc);
}

TEST(folders_that_the_host_turns_inside_out)
{
    tree();
    fc_start_with(&fc, "t", &(struct bx_export_options){.max_fds = 1});
    uint64_t file = fc_node(&fc, "a/b/file"), fh;
    ASSERT_EQ(renameat(tmpdir_fd(), "t/a/b", tmpdir_fd(), "t/b"), 0);
    ASSERT_EQ(renameat(tmpdir_fd(), "t/a", tmpdir_fd(), "t/b/a"), 0);
    uint64_t b = fc_node(&fc, "b"), a = fc_node(&fc, "b/a");
    ASSERT_EQ(fc_open(&fc, file, O_RDONLY, &fh), 0);
    ASSERT_EQ(fc_getattr(&fc, a), 0);
    for (unsigned i = 0; i < 20; i++) { /* again and again */
        ASSERT_EQ(renameat(tmpdir_fd(), "t/b/a", tmpdir_fd(), "t/a"), 0);
        ASSERT_EQ(renameat(tmpdir_fd(), "t/b", tmpdir_fd(), "t/a/b"), 0);
        ASSERT_EQ(fc_node(&fc, "a"), a);
        ASSERT_EQ(fc_lookup(&fc, a, "b"), 0);
        ASSERT_EQ(renameat(tmpdir_fd(), "t/a/b", tmpdir_fd(), "t/b"), 0);
        ASSERT_EQ(renameat(tmpdir_fd(), "t/a", tmpdir_fd(), "t/b/a"), 0);
        ASSERT_EQ(fc_node(&fc, "b"), b);
        ASSERT_EQ(fc_lookup(&fc, b, "a"), 0);
    }
    ASSERT_EQ(fc_forget(&fc, a, 1000), 1);
    ASSERT_EQ(fc_forget(&fc, b, 1000), 1);
    ASSERT_EQ(fc_forget(&fc, file, 1000), 1);
    fc_stop(&fc);
}

TEST(open_files_have_a_bound)
{
    uint64_t fh;
    tree();
    fc_start_with(&fc, "t", &(struct bx_export_options){.max_handles = 10});
    uint64_t file = fc_node(&fc, "a/b/file");
    for (unsigned i = 0; i < 10; i++) {
        ASSERT_EQ(fc_open(&fc, file, O_RDONLY, &fh), 0);
    }
    ASSERT_EQ(fc_open(&fc, file, O_RDONLY, &fh), -ENFILE);
    ASSERT_EQ(fc_create(&fc, ROOT, "x", O_RDWR, 0644), -ENFILE);
    fc_stop(&fc);
}

TEST(requests_that_are_cut_or_longer_than_they_say)
{
    tree();
    fc_start(&fc, "t");
    uint64_t a = fc_node(&fc, "a");
    const struct fuse_write_in write = {.size = 100};
    for (uint32_t op = 0; op < 70; op++) {
        if (op != FUSE_DESTROY && op != FUSE_FORGET && op != FUSE_INTERRUPT &&
            op != FUSE_BATCH_FORGET) {
            uint8_t byte = 'x';
            int r = fc_ask(&fc, op, a, NULL, 0, NULL, NULL, NULL, 0);
            ASSERT(r < 0 || op == FUSE_READLINK || op == FUSE_STATFS);
            r = fc_ask(&fc, op, a, &byte, 1, NULL, NULL, NULL, 0); /* a name without its end */
            ASSERT(r < 0 || op == FUSE_READLINK || op == FUSE_STATFS);
        }
    }
    ASSERT_EQ(fc_ask(&fc, FUSE_WRITE, a, ARG(write), NULL, NULL, "short", 5), -EINVAL);
    const struct fuse_batch_forget_in forget = {.count = UINT32_MAX};
    ASSERT_EQ(
        fc_ask(&fc, FUSE_BATCH_FORGET, 0, ARG(forget), NULL, NULL, "12345678901234567890", 20), 1);
    struct fuse_out_header head;
    struct fuse_in_header in = {.len = 4000, .opcode = FUSE_GETATTR, .nodeid = 1};
    ASSERT(!bx_export_serve(&fc.t, &in, sizeof(in), &head, fc.out));
    ASSERT(!bx_export_serve(&fc.t, &in, 3, &head, fc.out));
    fc_stop(&fc);
}

/* ---- the stream */

static int serve_child(int fd, const char *dir)
{
    const char *missing;
    struct bx_export_options opt = {
        .root_fd = openat(tmpdir_fd(), dir, O_PATH | O_CLOEXEC),
        .proc_fd = open("/proc/self/fd", O_PATH | O_CLOEXEC),
        .max_fds = 16,
        .max_handles = 16,
    };
    if (bx_share_jail(&opt, 1, &missing) < 0) {
        _exit(100);
    }
    int r = bx_share_serve(fd, &opt, 1, NULL);
    (void)close(opt.root_fd);
    (void)close(opt.proc_fd);
    return r < 0 ? -r : 0;
}

/* What the server's process ends with when it hears this and then nothing. */
static int hear(const void *data, size_t len, size_t step, uint8_t *answer, size_t *got)
{
    int pair[2], status;
    ASSERT_EQ(bx_socketpair(SOCK_STREAM, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        _exit(serve_child(pair[1], "t"));
    }
    (void)close(pair[1]);
    for (size_t at = 0; at < len; at += step) {
        size_t n = len - at < step ? len - at : step;
        if (send(pair[0], (const uint8_t *)data + at, n, MSG_NOSIGNAL) < 0) {
            break; /* it has heard enough */
        }
    }
    ASSERT_EQ(shutdown(pair[0], SHUT_WR), 0);
    ssize_t n = bx_read_full(pair[0], answer, 4096);
    *got = n < 0 ? 0 : (size_t)n;
    (void)close(pair[0]);
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(the_stream_carries_requests_in_any_pieces)
{
    struct {
        uint32_t tree;
        struct fuse_in_header head;
        struct fuse_init_in init;
        uint32_t tree2;
        struct fuse_in_header head2;
    } __attribute__((packed)) in = {
        .head = {.len = sizeof(in.head) + sizeof(in.init), .opcode = FUSE_INIT, .unique = 1},
        .init = {.major = 7, .minor = 36},
        .head2 = {.len = sizeof(in.head2), .opcode = FUSE_STATFS, .unique = 2, .nodeid = 1},
    };
    static const size_t steps[] = {1, 7, sizeof(in)};
    uint8_t answer[4096];
    size_t got;
    tree();
    for (size_t i = 0; i < BX_ARRAY_SIZE(steps); i++) {
        ASSERT_EQ(hear(&in, sizeof(in), steps[i], answer, &got), 0);
        ASSERT_EQ(got, 2 * 4 + 2 * sizeof(struct fuse_out_header) + sizeof(struct fuse_init_out) +
                           sizeof(struct fuse_statfs_out));
    }
}

TEST(a_stream_that_makes_no_sense_ends)
{
    struct {
        uint32_t tree;
        struct fuse_in_header head;
    } __attribute__((packed))
    in = {.head = {.len = sizeof(in.head), .opcode = FUSE_STATFS, .nodeid = 1}};
    uint8_t answer[4096];
    size_t got;
    tree();
    in.tree = 1; /* there is one */
    ASSERT_EQ(hear(&in, sizeof(in), 100, answer, &got), EPROTO);
    in.tree = BX_SHARE_CONTROL;
    ASSERT_EQ(hear(&in, sizeof(in), 100, answer, &got), EPROTO);
    in.tree = 0;
    static const uint32_t lengths[] = {0, 3, 39, BX_FUSE_REQUEST_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < BX_ARRAY_SIZE(lengths); i++) {
        in.head.len = lengths[i];
        ASSERT_EQ(hear(&in, sizeof(in), 100, answer, &got), EPROTO);
        ASSERT_EQ(got, 0);
    }
    ASSERT_EQ(hear(&in, 5, 100, answer, &got), 0); /* cut: the guest is gone */
}

TEST(the_jail_denies_what_is_outside)
{
    int status;
    tree();
    pid_t pid = fork();
    if (pid == 0) {
        const char *missing;
        struct bx_export_options opt = {.root_fd = openat(tmpdir_fd(), "t", O_PATH | O_CLOEXEC)};
        if (bx_share_jail(&opt, 1, &missing) < 0) {
            _exit(1);
        }
        bool landlock = bx_share_landlock_version() >= 2;
        /* What Landlock denies, where this kernel has it; what the filter of system calls denies. */
        if (landlock && openat(tmpdir_fd(), "outside/file", O_RDONLY | O_CLOEXEC) >= 0) {
            _exit(2);
        }
        if (openat(tmpdir_fd(), "t/a/b/file", O_RDWR | O_CLOEXEC) < 0) {
            _exit(3);
        }
#if !defined(__SANITIZE_ADDRESS__)
        if (socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 || fork() >= 0) {
            _exit(4);
        }
#endif
        _exit(0);
    }
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
}

/* Every kind of operation once; 0 or the number of the first that the jail denies. */
static int each_operation(void)
{
    uint64_t fh, dirfh;
    fc_start(&fc, "t");
    uint64_t file = fc_node(&fc, "a/b/file"), a = fc_node(&fc, "a");
    (void)fc_open(&fc, file, O_RDWR | O_TRUNC, &fh);
    (void)fc_opendir(&fc, a, &dirfh);
    (void)fc_symlink(&fc, ROOT, "l", "x");
    uint64_t link = fc.entry.nodeid;
    const struct fuse_access_in access = {.mask = R_OK | W_OK};
    const struct fuse_fsync_in sync = {.fh = fh}, dirsync = {.fh = dirfh};
    const struct fuse_fallocate_in room = {.fh = fh, .length = 100};
    const struct fuse_lseek_in seek = {.fh = fh, .whence = SEEK_DATA};
    const struct fuse_copy_file_range_in copy = {
        .fh_in = fh, .fh_out = fh, .off_out = 50, .len = 5};
    const struct fuse_read_in dir = {.fh = dirfh, .size = 4096};
    const int results[] = {
        fc_write(&fc, file, fh, 0, "0123456789", 10),
        fc_read(&fc, file, fh, 0, 10),
        fc_getattr(&fc, file),
        fc_setattr(&fc, file,
                   (struct fuse_setattr_in){.valid = FATTR_MODE | FATTR_SIZE | FATTR_MTIME_NOW,
                                            .mode = 0600,
                                            .size = 9}),
        fc_setattr(&fc, link, (struct fuse_setattr_in){.valid = FATTR_MTIME_NOW}),
        fc_ask(&fc, FUSE_ACCESS, file, ARG(access), NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_FSYNC, file, ARG(sync), NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_FSYNCDIR, a, ARG(dirsync), NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_FALLOCATE, file, ARG(room), NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_LSEEK, file, ARG(seek), NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_COPY_FILE_RANGE, file, ARG(copy), NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_READDIR, a, ARG(dir), NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_READDIRPLUS, a, ARG(dir), NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_READLINK, link, NULL, 0, NULL, NULL, NULL, 0),
        fc_ask(&fc, FUSE_STATFS, ROOT, NULL, 0, NULL, NULL, NULL, 0),
        fc_create(&fc, ROOT, "new", O_RDWR, 0644),
        fc_mkdir(&fc, ROOT, "d"),
        fc_mknod(&fc, ROOT, "p", S_IFIFO),
        fc_link(&fc, file, ROOT, "hard"),
        fc_rename(&fc, ROOT, "hard", a, "moved", 0),
        fc_name(&fc, FUSE_UNLINK, a, "moved"),
        fc_name(&fc, FUSE_RMDIR, ROOT, "d"),
        fc_setxattr(&fc, file, "user.a", "x"),
        fc_getxattr(&fc, file, "user.a", 9),
        fc_getxattr(&fc, file, NULL, 99),
        fc_name(&fc, FUSE_REMOVEXATTR, file, "user.a"),
        fc_release(&fc, file, fh),
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(results); i++) {
        bool xattr = results[i] == -EOPNOTSUPP || results[i] == -ENODATA;
        if (results[i] != 0 && !xattr) {
            return (int)i + 1;
        }
    }
    return 0;
}

TEST(the_jail_allows_each_operation)
{
    int status;
    tree();
    pid_t pid = fork();
    if (pid == 0) {
        const char *missing;
        struct bx_export_options opt = {.root_fd = openat(tmpdir_fd(), "t", O_PATH | O_CLOEXEC)};
        _exit(bx_share_jail(&opt, 1, &missing) < 0 ? 100 : each_operation());
    }
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 0);
}
