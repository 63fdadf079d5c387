/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_box_changes.c: an overlay's upper folder as a layer, by the agent's own built-in; the folder is one of
 * this host. And boxes that are started quietly for the library's own work.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "box/changes.h"
#include "box/quiet.h"
#include "box_fixture.h"

static boxlite_runtime *rt;
static boxlite_box *box;
static char upper[700], merged[700];

static void enter(void)
{
    rt = bf_runtime();
    box = bf_box(rt, "changes", NULL, BF_START);
    (void)snprintf(upper, sizeof(upper), "%s/upper", tmpdir());
    (void)snprintf(merged, sizeof(merged), "%s/merged", tmpdir());
    ASSERT_OK(mkdir(upper, 0755));
    ASSERT_OK(mkdir(merged, 0755));
}

static void leave(void)
{
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
}

static const char *in(const char *dir, const char *name)
{
    static char paths[4][1500];
    static unsigned next;
    char *p = paths[next++ % 4];
    (void)snprintf(p, sizeof(paths[0]), "%s/%s", dir, name);
    return p;
}

static void put(const char *path, const char *text)
{
    ASSERT_OK(bx_write_file(AT_FDCWD, path, text, strlen(text), 0644));
}

/* The layer's bytes. */
static int stream(struct bx_buf *ret, const char *joined, boxlite_error **err)
{
    _cleanup_(bx_copy_done) struct bx_copy c = {0};
    char piece[65536];
    ssize_t n;
    int r = bx_changes_start(box, upper, joined, &c, err);
    while (r == 0 && (n = bx_copy_read(&c, piece, sizeof(piece), err)) != 0) {
        r = n < 0 ? (int)n : bx_buf_append(ret, piece, (size_t)n);
    }
    return r < 0 ? r : bx_copy_finish(&c, err);
}

/* "NAME type …" lines, in the archive's order. */
static char *list(const char *joined)
{
    static struct bx_buf tar, text;
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    tar = (struct bx_buf)BX_BUF_INIT(64u << 20);
    text = (struct bx_buf)BX_BUF_INIT(1u << 20);
    ASSERT_OK(stream(&tar, joined, ERR));
    ASSERT_EQ(archive_read_support_format_tar(a), ARCHIVE_OK);
    ASSERT_EQ(archive_read_open_memory(a, bx_buf_data(&tar), tar.len), ARCHIVE_OK);
    while (archive_read_next_header(a, &e) == ARCHIVE_OK) {
        const char *link = archive_entry_hardlink(e);
        char kind = link                                   ? 'h'
                    : archive_entry_filetype(e) == S_IFDIR ? 'd'
                    : archive_entry_filetype(e) == S_IFLNK ? 'l'
                    : archive_entry_filetype(e) == S_IFIFO ? 'p'
                                                           : 'f';
        link = kind == 'l' ? archive_entry_symlink(e) : link;
        ASSERT_OK(bx_buf_appendf(&text, "%s %c%s%s", archive_entry_pathname(e), kind,
                                 link ? " " : "", link ? link : ""));
        char data[64] = "";
        if (kind == 'f' && archive_entry_size(e) < 64) {
            ASSERT_EQ(archive_read_data(a, data, sizeof(data)), archive_entry_size(e));
            ASSERT_OK(bx_buf_appendf(&text, " %s", data));
        }
        ASSERT_OK(bx_buf_appends(&text, "\n"));
    }
    (void)archive_read_free(a);
    bx_buf_done(&tar);
    return bx_buf_steal(&text, NULL);
}

static void expect(const char *joined, const char *want)
{
    char *got = list(joined);
    ASSERT_STREQ(got, want);
    free(got);
}

TEST(files_folders_links_and_whiteouts)
{
    enter();
    ASSERT_OK(mkdir(in(upper, "dir"), 0755));
    put(in(upper, "dir/b"), "bee");
    put(in(upper, "dir/a"), "ay");
    ASSERT_OK(link(in(upper, "dir/b"), in(upper, "z")));
    ASSERT_OK(symlink("/etc/passwd", in(upper, "link")));
    ASSERT_OK(mkfifo(in(upper, "pipe"), 0600));
    put(in(upper, ".wh.trick"), "x");
    if (mknod(in(upper, "gone"), S_IFCHR, makedev(0, 0)) < 0) {
        SKIP("whiteouts cannot be made here");
    }
    expect("",
           "dir/ d\ndir/a f ay\ndir/b f bee\n.wh.gone f \nlink l /etc/passwd\npipe p\nz h dir/b\n");
    leave();
}

TEST(the_same_changes_are_the_same_bytes)
{
    _cleanup_buf_ struct bx_buf one = BX_BUF_INIT(1 << 24), two = BX_BUF_INIT(1 << 24);
    enter();
    for (int i = 0; i < 200; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "f%d", i * 7919 % 200);
        put(in(upper, name), name);
    }
    ASSERT_OK(stream(&one, "", ERR));
    ASSERT_OK(stream(&two, "", ERR));
    ASSERT_EQ(one.len, two.len);
    ASSERT(memcmp(bx_buf_data(&one), bx_buf_data(&two), one.len) == 0);
    leave();
}

TEST(holes_stay_holes)
{
    _cleanup_buf_ struct bx_buf tar = BX_BUF_INIT(1 << 24);
    enter();
    int fd = open(in(upper, "sparse"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_OK(fd);
    ASSERT_OK(bx_pwrite_full(fd, "head", 4, 0));
    ASSERT_OK(bx_pwrite_full(fd, "middle", 6, 40 << 20));
    ASSERT_OK(ftruncate(fd, 100 << 20));
    (void)close(fd);
    ASSERT_OK(stream(&tar, "", ERR));
    ASSERT_LT(tar.len, 1u << 20);
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    ASSERT_EQ(archive_read_support_format_tar(a), ARCHIVE_OK);
    ASSERT_EQ(archive_read_open_memory(a, bx_buf_data(&tar), tar.len), ARCHIVE_OK);
    ASSERT_EQ(archive_read_next_header(a, &e), ARCHIVE_OK);
    ASSERT_STREQ(archive_entry_pathname(e), "sparse");
    ASSERT_EQ(archive_entry_size(e), 100 << 20);
    const void *block;
    size_t len;
    int64_t off;
    bool middle = false;
    while (archive_read_data_block(a, &block, &len, &off) == ARCHIVE_OK) {
        const int64_t at = (40 << 20) - off;
        middle = middle || (at >= 0 && (size_t)at + 6 <= len &&
                            memcmp((const char *)block + at, "middle", 6) == 0);
    }
    ASSERT(middle);
    (void)archive_read_free(a);
    leave();
}

static bool trusted(const char *path, const char *name, const char *value)
{
    return setxattr(path, name, value, strlen(value), 0) == 0;
}

TEST(marks_of_the_overlay)
{
    enter();
    ASSERT_OK(mkdir(in(upper, "new"), 0755));
    put(in(upper, "new/file"), "n");
    ASSERT_OK(mkdir(in(upper, "moved"), 0755));
    put(in(upper, "moved/own"), "o");
    ASSERT_OK(mkdir(in(merged, "moved"), 0755));
    ASSERT_OK(mkdir(in(merged, "moved/sub"), 0755));
    put(in(merged, "moved/own"), "o");
    put(in(merged, "moved/sub/old"), "from the image");
    if (!trusted(in(upper, "new"), "trusted.overlay.opaque", "y")) {
        SKIP("trusted attributes need root");
    }
    ASSERT(trusted(in(upper, "moved"), "trusted.overlay.redirect", "/before"));
    ASSERT(trusted(in(upper, "new/file"), "trusted.overlay.origin", "x"));
    expect(merged, "moved/ d\nmoved/.wh..wh..opq f \nmoved/own f o\nmoved/sub/ d\n"
                   "moved/sub/old f from the image\n"
                   "new/ d\nnew/.wh..wh..opq f \nnew/file f n\n");
    /* Without the joined view it must not pretend. */
    _cleanup_buf_ struct bx_buf tar = BX_BUF_INIT(1 << 20);
    ASSERT_FAILS(BOXLITE_E_IO, stream(&tar, "", ERR));
    ASSERT_CONTAINS(err_message(), "no joined view");
    leave();
}

TEST(what_is_not_there_is_told)
{
    _cleanup_buf_ struct bx_buf tar = BX_BUF_INIT(1 << 20);
    enter();
    ASSERT_OK(rmdir(upper));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, stream(&tar, "", ERR));
    leave();
}

TEST(a_stopped_box_is_up_for_the_work_only)
{
    struct bx_quiet q = {0}, second = {0};
    char mark[800], script[900];
    rt = bf_runtime();
    (void)snprintf(mark, sizeof(mark), "%s/ran", tmpdir());
    (void)snprintf(script, sizeof(script), "echo main; echo x >> %s", mark);
    box = bf_box(rt, "quiet", script, BF_START);
    ASSERT_OK(boxlite_box_wait(box, 20000, ERR));
    ASSERT_EQ(access(mark, F_OK), 0);
    ASSERT_OK(unlink(mark));
    ASSERT_OK(bx_quiet_begin(box, &q, ERR));
    bf_expect(box, "echo work", "work\n");
    /* One that runs is used as it is. */
    ASSERT_OK(bx_quiet_begin(box, &second, ERR));
    ASSERT_NULL(second.box);
    ASSERT_OK(bx_quiet_end(&second, ERR));
    bf_expect(box, "echo more", "more\n");
    ASSERT_OK(bx_quiet_end(&q, ERR));
    ASSERT_OK(bx_quiet_end(&q, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_STOPPED);
    ASSERT_EQ(access(mark, F_OK), -1);
    ASSERT(!bf_exists(boxlite_box_id(box), "execs.quiet"));
    ASSERT(!bf_exists(boxlite_box_id(box), "started"));
    boxlite_exec *main = NULL;
    ASSERT_OK(boxlite_box_output(box, 0, &main, ERR)); /* of its own run, still */
    char *text = bf_read_all(main, BOXLITE_STDOUT, NULL);
    ASSERT_STREQ(text, "main\n");
    free(text);
    boxlite_exec_free(main);
    leave();
}

TEST(a_box_that_was_never_started_stays_so)
{
    struct bx_quiet q = {0};
    rt = bf_runtime();
    box = bf_box(rt, "fresh", "exit 3", BF_DETACHED);
    ASSERT_OK(bx_quiet_begin(box, &q, ERR));
    ASSERT_OK(bx_quiet_end(&q, ERR));
    ASSERT_EQ(boxlite_box_state(box, ERR), BOXLITE_BOX_CREATED);
    leave();
}
