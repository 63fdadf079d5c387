/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spools: absolute offsets, a bound on disk, a hole where old bytes were.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/io.h"
#include "box/spool.h"
#include "harness.h"

#define MAX (1u << 20)

static uint8_t block[65536];

static void make(struct bx_spool *sp)
{
    bx_spool_init(sp, MAX);
    ASSERT_OK(bx_spool_create(sp, tmpdir_fd(), "s"));
}

static void append_block(struct bx_spool *sp, uint8_t value)
{
    memset(block, value, sizeof(block));
    ASSERT_OK(bx_spool_append(sp, block, sizeof(block)));
}

TEST(bytes_are_found_at_their_offsets)
{
    struct bx_spool sp;
    char buf[16] = "";
    make(&sp);
    ASSERT_OK(bx_spool_append(&sp, "hello ", 6));
    ASSERT_OK(bx_spool_append(&sp, "world", 5));
    ASSERT_EQ(bx_spool_read(&sp, 3, buf, sizeof(buf)), 8);
    ASSERT_MEM(buf, "lo world", 8);
    ASSERT_EQ(bx_spool_read(&sp, 11, buf, sizeof(buf)), 0);
    ASSERT_EQ(bx_spool_read(&sp, 12, buf, sizeof(buf)), -ERANGE);
    bx_spool_done(&sp);
}

TEST(old_bytes_become_a_hole_when_no_one_needs_them)
{
    struct bx_spool sp, again = BX_SPOOL_INIT;
    struct stat st;
    make(&sp);
    for (int i = 0; i < 64; i++) { /* 4 MiB */
        append_block(&sp, (uint8_t)i);
        ASSERT_OK(bx_spool_trim(&sp, UINT64_MAX, sp.max));
        ASSERT(!bx_spool_full(&sp));
    }
    ASSERT_EQ(sp.head, 3u << 20);
    ASSERT_EQ(bx_spool_read(&sp, sp.head - 1, block, 1), -ERANGE);
    ASSERT_EQ(bx_spool_read(&sp, sp.head, block, 1), 1);
    ASSERT_EQ(block[0], 48);
    ASSERT_OK(fstat(sp.fd, &st));
    ASSERT_EQ(st.st_size, 4 << 20);
    ASSERT_LE(st.st_blocks * 512, (1 << 20) + (128 << 10));
    ASSERT_OK(bx_spool_open(&again, tmpdir_fd(), "s"));
    ASSERT_EQ(again.head, sp.head);
    ASSERT_EQ(again.tail, sp.tail);
    bx_spool_done(&again);
    bx_spool_done(&sp);
}

TEST(what_a_reader_needs_stays)
{
    struct bx_spool sp;
    make(&sp);
    for (int i = 0; i < 64; i++) {
        append_block(&sp, 1);
        ASSERT_OK(bx_spool_trim(&sp, 100000, sp.max));
    }
    ASSERT_LE(sp.head, 100000);
    ASSERT(bx_spool_full(&sp));
    ASSERT_OK(bx_spool_trim(&sp, 3u << 20, sp.max));
    ASSERT_EQ(sp.head, 3u << 20);
    ASSERT(!bx_spool_full(&sp));
    bx_spool_done(&sp);
}

TEST(a_write_that_fails_leaves_the_spool_as_it_was)
{
    struct bx_spool sp;
    struct stat st;
    const struct rlimit small = {100000, 100000};
    make(&sp);
    append_block(&sp, 1);
    (void)signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    ASSERT_EQ(bx_spool_append(&sp, block, sizeof(block)), -EFBIG);
    ASSERT_EQ(sp.tail, sizeof(block));
    ASSERT_OK(fstat(sp.fd, &st));
    ASSERT_EQ(st.st_size, sizeof(block));
    bx_spool_done(&sp);
}

TEST(a_spool_that_cannot_have_holes_is_bounded_all_the_same)
{
    struct bx_spool sp;
    make(&sp);
    sp.no_holes = true;
    int r = 0;
    for (int i = 0; i < 1000 && r == 0; i++) {
        r = bx_spool_append(&sp, block, sizeof(block));
        ASSERT_OK(bx_spool_trim(&sp, UINT64_MAX, sp.max));
    }
    ASSERT_EQ(r, -ENOSPC);
    ASSERT_EQ(sp.tail, 16 * MAX);
    bx_spool_done(&sp);
}

TEST(what_is_no_spool_is_not_opened)
{
    struct bx_spool sp = BX_SPOOL_INIT;
    ASSERT_EQ(bx_spool_open(&sp, tmpdir_fd(), "none"), -ENOENT);
    ASSERT_OK(mkfifoat(tmpdir_fd(), "fifo", 0600));
    ASSERT_EQ(bx_spool_open(&sp, tmpdir_fd(), "fifo"), -EINVAL);
    ASSERT_OK(symlinkat("/etc/passwd", tmpdir_fd(), "link"));
    ASSERT_EQ(bx_spool_open(&sp, tmpdir_fd(), "link"), -ELOOP);
    ASSERT_OK(bx_write_file(tmpdir_fd(), "empty", "", 0, 0600));
    ASSERT_OK(bx_spool_open(&sp, tmpdir_fd(), "empty"));
    ASSERT_EQ(sp.head, 0);
    ASSERT_EQ(sp.tail, 0);
    bx_spool_done(&sp);
    ASSERT_EQ(bx_spool_create(&sp, tmpdir_fd(), "empty"), -EEXIST);
}
