/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be shared with a box, and where it may appear.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "box/mounts.h"
#include "harness.h"

static struct bx_rec_list list;

static int add(const char *host, const char *guest)
{
    return bx_mount_add(&list, BX_MOUNT_SHARE, host, guest, false, ERR);
}

static const struct bx_box_mount *last(void)
{
    return (const struct bx_box_mount *)list.v + list.n - 1;
}

TEST(host_paths_are_resolved_when_they_are_given)
{
    char *real = realpath(tmpdir(), NULL), *link = bx_asprintf("%s/link", tmpdir());
    ASSERT_EQ(symlink(tmpdir(), link), 0);
    ASSERT_OK(add(link, "/a"));
    ASSERT_STREQ(last()->host, real);
    ASSERT_EQ(chdir(tmpdir()), 0);
    ASSERT_OK(add(".", "/b"));
    ASSERT_STREQ(last()->host, real);
    ASSERT_OK(bx_mount_add(&list, BX_MOUNT_WORKSPACE, ".", NULL, false, ERR));
    ASSERT_STREQ(last()->guest, real);
    ASSERT_STREQ(last()->kind, BX_MOUNT_WORKSPACE);
    free(real);
    free(link);
    bx_box_mounts_done(&list);
}

TEST(what_is_missing_is_named_with_advice)
{
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, add("/there/is/none", "/a"));
    ASSERT_CONTAINS(err_message(), "/there/is/none");
    ASSERT_CONTAINS(err_hint(), "create");
    ASSERT_FAILS(BOXLITE_E_INVALID, add("", "/a"));
    ASSERT_EQ(list.n, 0);
}

TEST(only_folders_and_plain_files_are_shared)
{
    ASSERT_OK(bx_write_file(tmpdir_fd(), "file", "x", 1, 0600));
    ASSERT_EQ(mkfifoat(tmpdir_fd(), "fifo", 0600), 0);
    char *file = bx_asprintf("%s/file", tmpdir()), *fifo = bx_asprintf("%s/fifo", tmpdir());
    ASSERT_OK(add(file, "/f"));
    ASSERT_FAILS(BOXLITE_E_INVALID, add(fifo, "/g"));
    ASSERT_FAILS(BOXLITE_E_INVALID, add("/dev/null", "/g"));
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_mount_add(&list, BX_MOUNT_WORKSPACE, file, "/g", false, ERR));
    ASSERT_CONTAINS(err_message(), "folder");
    free(file);
    free(fifo);
    bx_box_mounts_done(&list);
}

TEST(guest_paths_are_normal_and_not_the_boxs_own)
{
    static const char *const bad[] = {"",      "a",       "/",     "//.//",       "/a/../b",
                                      "/proc", "/proc/1", "/sys/", "//dev/./shm", "/.boxlite/ws"};
    static const char *const good[][2] = {
        {"/a//b/./c/", "/a/b/c"}, {"/..a/...", "/..a/..."}, {"/process", "/process"}};
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT_FAILS(BOXLITE_E_INVALID, add("/", bad[i]));
        ASSERT_CONTAINS(err_message(), "volume");
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(good); i++) {
        ASSERT_OK(add("/", good[i][0]));
        ASSERT_STREQ(last()->guest, good[i][1]);
    }
    ASSERT_FAILS(BOXLITE_E_INVALID, add("/", "/process/"));
    ASSERT_CONTAINS(err_message(), "taken");
    bx_box_mounts_done(&list);
}

TEST(their_number_is_bounded)
{
    char guest[32];
    for (unsigned i = 0; i < BX_BOX_MOUNTS_MAX; i++) {
        (void)snprintf(guest, sizeof(guest), "/m/%u", i);
        ASSERT_OK(add("/", guest));
    }
    ASSERT_FAILS(BOXLITE_E_INVALID, add("/", "/one/more"));
    bx_box_mounts_done(&list);
}

TEST(the_home_directory_is_not_shared)
{
    ASSERT_EQ(mkdirat(tmpdir_fd(), "home", 0700), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "home/boxes", 0700), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "home2", 0700), 0);
    char *home = bx_asprintf("%s/home", tmpdir()), *inside = bx_asprintf("%s/home/boxes", tmpdir());
    char *beside = bx_asprintf("%s/home2", tmpdir());
    ASSERT_OK(add(beside, "/a"));
    ASSERT_OK(bx_mounts_check(&list, home, ERR));
    ASSERT_OK(add(inside, "/b"));
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_mounts_check(&list, home, ERR));
    ASSERT_CONTAINS(err_message(), "home");
    free(home);
    free(inside);
    free(beside);
    bx_box_mounts_done(&list);
}
