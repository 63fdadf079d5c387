/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_io.c: whole reads and writes, atomic files, sparse copies, streams.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "harness.h"

struct writer {
    int fd;
    size_t size;
    int result;
};

/* Writes a pattern in one call of bx_write_full, then ends the stream. */
static void *write_pattern(void *data)
{
    struct writer *w = data;
    uint8_t *p = malloc(w->size);
    for (size_t i = 0; i < w->size; i++) {
        p[i] = (uint8_t)(i % 253);
    }
    w->result = bx_write_full(w->fd, p, w->size);
    free(p);
    bx_close(&w->fd);
    return NULL;
}

TEST(more_than_a_pipe_holds_goes_through_whole)
{
    enum { SIZE = 1000000 };
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    struct writer w = {.fd = p[1], .size = SIZE};
    pthread_t t;
    ASSERT_EQ(pthread_create(&t, NULL, write_pattern, &w), 0);
    _cleanup_free_ uint8_t *got = malloc(SIZE + 10);
    ASSERT_EQ(bx_read_full(p[0], got, SIZE + 10), SIZE); /* short only at the end */
    for (size_t i = 0; i < SIZE; i++) {
        ASSERT_EQ(got[i], i % 253);
    }
    pthread_join(t, NULL);
    ASSERT_EQ(w.result, 0);
    bx_close(&p[0]);
}

TEST(failures_of_plain_calls_are_told)
{
    char c;
    ASSERT_EQ(bx_read_full(-1, &c, 1), -EBADF);
    ASSERT_EQ(bx_write_full(-1, "x", 1), -EBADF);
    ASSERT_EQ(bx_pwrite_full(-1, "x", 1, 0), -EBADF);
    ASSERT_EQ(bx_write_full(-1, "", 0), 0);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(bx_write_full(full, "x", 1), -ENOSPC);
    bx_close(&full);
}

static int read_back(const char *name, struct bx_buf *b)
{
    return bx_read_file(tmpdir_fd(), name, b);
}

TEST(a_file_is_written_and_read_back)
{
    umask(077);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "f", "hello", 5, 0644), 0);
    struct stat st;
    ASSERT_EQ(fstatat(tmpdir_fd(), "f", &st, 0), 0);
    ASSERT_EQ(st.st_mode & 07777, 0644);
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(100);
    ASSERT_EQ(bx_buf_appends(&b, ">"), 0);
    ASSERT_EQ(read_back("f", &b), 0);
    ASSERT_STREQ(bx_buf_str(&b), ">hello");
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "f", "", 0, 0600), 0);
    bx_buf_clear(&b);
    ASSERT_EQ(read_back("f", &b), 0);
    ASSERT_EQ(b.len, 0);
}

static int count_entries(void)
{
    DIR *d = fdopendir(openat(tmpdir_fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int n = 0;
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n - 2;
}

TEST(a_failed_write_leaves_the_old_file_and_nothing_else)
{
    ASSERT_EQ(mkdirat(tmpdir_fd(), "taken", 0700), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "taken/x", 0700), 0);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "taken", "x", 1, 0600), -EISDIR);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "none/f", "x", 1, 0600), -ENOENT);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "taken/", "x", 1, 0600), -EINVAL);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "", "x", 1, 0600), -EINVAL);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "taken/..", "x", 1, 0600), -EINVAL);
    ASSERT_EQ(count_entries(), 1);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "taken/y", "x", 1, 0600), 0);
}

TEST(a_symlink_is_replaced_not_followed)
{
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "target", "old", 3, 0600), 0);
    ASSERT_EQ(symlinkat("target", tmpdir_fd(), "link"), 0);
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "link", "new", 3, 0600), 0);
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(100);
    ASSERT_EQ(read_back("target", &b), 0);
    ASSERT_STREQ(bx_buf_str(&b), "old");
}

TEST(reading_is_bounded_and_takes_regular_files_only)
{
    ASSERT_EQ(bx_write_file(tmpdir_fd(), "f", "12345678", 8, 0600), 0);
    _cleanup_buf_ struct bx_buf exact = BX_BUF_INIT(8);
    ASSERT_EQ(read_back("f", &exact), 0);
    ASSERT_EQ(exact.len, 8);
    _cleanup_buf_ struct bx_buf small = BX_BUF_INIT(8);
    ASSERT_EQ(bx_buf_appends(&small, "a"), 0);
    ASSERT_EQ(read_back("f", &small), -EFBIG);
    ASSERT_STREQ(bx_buf_str(&small), "a");
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(100);
    ASSERT_EQ(read_back("absent", &b), -ENOENT);
    ASSERT_EQ(read_back(".", &b), -EISDIR);
    ASSERT_EQ(mkfifoat(tmpdir_fd(), "fifo", 0600), 0);
    ASSERT_EQ(read_back("fifo", &b), -EINVAL); /* and does not hang */
    ASSERT_EQ(bx_read_file(AT_FDCWD, "/dev/zero", &b), -EINVAL);
    ASSERT_EQ(bx_read_file(AT_FDCWD, "/proc/self/comm", &b), 0);
    ASSERT_GT(b.len, 0);
}

TEST(a_copy_keeps_bytes_and_holes)
{
    enum { SIZE = 8 << 20 };
    int src = openat(tmpdir_fd(), "src", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int dst = openat(tmpdir_fd(), "dst", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(bx_write_full(dst, "old content that must go", 24), 0);
    ASSERT_EQ(bx_pwrite_full(src, "start", 5, 0), 0);
    ASSERT_EQ(bx_pwrite_full(src, "middle", 6, 4 << 20), 0);
    ASSERT_EQ(ftruncate(src, SIZE), 0);
    ASSERT_EQ(bx_copy_sparse(src, dst), 0);
    struct stat a, b;
    ASSERT_EQ(fstat(src, &a), 0);
    ASSERT_EQ(fstat(dst, &b), 0);
    ASSERT_EQ(b.st_size, SIZE);
    ASSERT_LE(b.st_blocks, a.st_blocks + 16);
    _cleanup_free_ char *x = malloc(SIZE), *y = malloc(SIZE);
    ASSERT_EQ(pread(src, x, SIZE, 0), SIZE);
    ASSERT_EQ(pread(dst, y, SIZE, 0), SIZE);
    ASSERT_MEM(x, y, SIZE);
    /* An empty file, and one that is all hole. */
    ASSERT_EQ(ftruncate(src, 0), 0);
    ASSERT_EQ(bx_copy_sparse(src, dst), 0);
    ASSERT_EQ(lseek(dst, 0, SEEK_END), 0);
    ASSERT_EQ(ftruncate(src, 12345), 0);
    ASSERT_EQ(bx_copy_sparse(src, dst), 0);
    ASSERT_EQ(lseek(dst, 0, SEEK_END), 12345);
    bx_close(&src);
    bx_close(&dst);
}

TEST(a_copy_refuses_what_is_no_pair_of_files)
{
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    int f = openat(tmpdir_fd(), "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(bx_write_full(f, "keep", 4), 0);
    ASSERT_EQ(bx_copy_sparse(p[0], f), -EINVAL);
    ASSERT_EQ(bx_copy_sparse(f, p[1]), -EINVAL);
    ASSERT_EQ(bx_copy_sparse(f, f), -EINVAL);
    ASSERT_EQ(bx_copy_sparse(-1, f), -EBADF);
    ASSERT_EQ(lseek(f, 0, SEEK_END), 4);
    bx_close(&f);
    bx_close(&p[0]);
    bx_close(&p[1]);
}

TEST(a_stream_is_copied_up_to_its_maximum)
{
    enum { SIZE = 300000 };
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    struct writer w = {.fd = p[1], .size = SIZE};
    pthread_t t;
    ASSERT_EQ(pthread_create(&t, NULL, write_pattern, &w), 0);
    int f = openat(tmpdir_fd(), "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(bx_copy_stream(p[0], f, SIZE), SIZE);
    pthread_join(t, NULL);
    ASSERT_EQ(lseek(f, 0, SEEK_SET), 0);
    int g = openat(tmpdir_fd(), "g", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(bx_copy_stream(f, g, SIZE - 1), -EFBIG);
    ASSERT_LT(lseek(g, 0, SEEK_END), SIZE);
    ASSERT_EQ(lseek(f, 0, SEEK_SET), 0);
    ASSERT_EQ(bx_copy_stream(f, g, UINT64_MAX), SIZE);
    bx_close(&f);
    bx_close(&g);
    bx_close(&p[0]);
}
