/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_disk.c: writable disks, and root images as such (what layers make of them: test_oci_layer.c).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "disk/rootfs.h"
#include "disk/upper.h"
#include "harness.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct bx_home *open_home(void)
{
    _cleanup_free_ char *path = bx_path_join(tmpdir(), "home");
    struct bx_home *home = NULL;

    ASSERT_OK(bx_home_open(path, &home, ERR));
    return home;
}

static int run(const char *const *argv)
{
    struct bx_spawn spec = {.path = argv[0], .argv = argv};
    int status = -1;

    ASSERT_OK(bx_run(&spec, NULL, NULL, bx_deadline_ms(60000), &status, ERR));
    return status;
}

TEST(a_disk_is_a_sound_file_system_and_costs_little)
{
    static const uint64_t sizes[] = {64 * MIB, 10 * GIB, 10 * GIB, 200 * GIB};
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_free_ char *fsck = bx_find_program("e2fsck");

    if (!fsck) {
        SKIP("e2fsck is missing");
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(sizes); i++) {
        char name[16];
        struct stat st;
        snprintf(name, sizeof(name), "disk%zu", i);
        ASSERT_OK(bx_upper_create(home, sizes[i], home->fd, name, ERR));
        _cleanup_free_ char *path = bx_path_join(home->path, name);
        ASSERT_EQ(stat(path, &st), 0);
        ASSERT_EQ(st.st_size, sizes[i]);
        ASSERT_EQ(st.st_mode & 0777, 0600);
        ASSERT_LT((uint64_t)st.st_blocks * 512, MIB);
        ASSERT_EQ(run((const char *const[]){fsck, "-fn", path, NULL}), 0);
    }
}

TEST(a_disk_has_a_journal_and_nothing_left_to_initialise)
{
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_free_ char *dump = bx_find_program("dumpe2fs"), *path = NULL;
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(4u << 20);
    int status = -1, zeroed = 0, groups = 0;

    if (!dump) {
        SKIP("dumpe2fs is missing");
    }
    ASSERT_OK(bx_upper_create(home, GIB, home->fd, "d", ERR));
    path = bx_path_join(home->path, "d");
    const char *const argv[] = {dump, path, NULL};
    struct bx_spawn spec = {.path = dump, .argv = argv};
    ASSERT_OK(bx_run(&spec, &out, NULL, bx_deadline_ms(60000), &status, ERR));
    ASSERT_CONTAINS(bx_buf_str(&out), "has_journal");
    ASSERT_CONTAINS(bx_buf_str(&out), "Reserved block count:     0\n");
    for (const char *p = bx_buf_str(&out); (p = strstr(p, ": (Blocks ")); p++) {
        groups++;
    }
    for (const char *p = bx_buf_str(&out); (p = strstr(p, "ITABLE_ZEROED")); p++) {
        zeroed++;
    }
    ASSERT_EQ(groups, 8);
    ASSERT_EQ(zeroed, groups);
}

TEST(sizes_are_rounded_and_limited)
{
    _cleanup_home_ struct bx_home *home = open_home();
    struct stat st;

    ASSERT_OK(bx_upper_create(home, 100 * MIB + 1, home->fd, "d", ERR));
    ASSERT_EQ(fstatat(home->fd, "d", &st, 0), 0);
    ASSERT_EQ(st.st_size, 101 * MIB);
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_upper_create(home, MIB, home->fd, "e", ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_upper_create(home, UINT64_MAX, home->fd, "e", ERR));
    ASSERT_FAILS(BOXLITE_E_EXISTS, bx_upper_create(home, 100 * MIB, home->fd, "d", ERR));
    ASSERT_EQ(fstatat(home->fd, "e", &st, 0), -1);
}

/* Cuts the only template that is there. */
static void cut_template(const struct bx_home *home)
{
    _cleanup_close_ int dir = openat(home->fd, "templates", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                        fd = -1;
    _cleanup_closedir_ DIR *d = fdopendir(dup(dir));

    for (struct dirent *e; (e = readdir(d));) {
        if (bx_is_filename(e->d_name)) {
            fd = openat(dir, e->d_name, O_RDWR | O_CLOEXEC);
        }
    }
    ASSERT_EQ(ftruncate(fd, 1000), 0);
}

TEST(a_damaged_template_is_made_anew)
{
    _cleanup_home_ struct bx_home *home = open_home();
    struct stat st;

    ASSERT_OK(bx_upper_create(home, 64 * MIB, home->fd, "d", ERR));
    cut_template(home);
    ASSERT_OK(bx_upper_create(home, 64 * MIB, home->fd, "e", ERR));
    ASSERT_EQ(fstatat(home->fd, "e", &st, 0), 0);
    ASSERT_EQ(st.st_size, 64 * MIB);
}

TEST(a_missing_mke2fs_is_told)
{
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_free_ char *found = NULL;

    ASSERT_EQ(setenv("PATH", "/nonexistent", 1), 0);
    found = bx_find_program("mke2fs");
    if (found) {
        SKIP("mke2fs is found in %s whatever PATH says", found);
    }
    ASSERT_FAILS(BOXLITE_E_ENGINE, bx_upper_create(home, 64 * MIB, home->fd, "d", ERR));
    ASSERT_CONTAINS(err_hint(), "e2fsprogs");
}

/* ---- root images */

static const struct bx_rootfs_entry file = {.mode = S_IFREG | 0644},
                                    folder = {.mode = S_IFDIR | 0755};

static int make_root(uint64_t *ret_size)
{
    int fd = memfd_create("root", MFD_CLOEXEC);
    struct bx_rootfs *r = NULL;
    char data[10000];

    memset(data, 'd', sizeof(data));
    ASSERT_OK(bx_rootfs_new(fd, GIB, &r, ERR));
    ASSERT_OK(bx_rootfs_add(r, "d", &folder, ERR));
    ASSERT_OK(bx_rootfs_add(r, "d/f", &file, ERR));
    ASSERT_OK(bx_rootfs_write(r, data, sizeof(data), ERR));
    ASSERT_OK(bx_rootfs_finish(r, ret_size, ERR));
    bx_rootfs_free(r);
    return fd;
}

TEST(damaged_roots_are_seen)
{
    uint64_t size = 0;
    int fd = make_root(&size);
    uint8_t *good = malloc(size);

    ASSERT_EQ(pread(fd, good, size, 0), size);
    ASSERT_OK(bx_rootfs_check(fd, "it", ERR));
    ASSERT_EQ(ftruncate(fd, (off_t)size - 4096), 0);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_rootfs_check(fd, "the root", ERR));
    ASSERT_CONTAINS(err_message(), "the root is damaged");
    ASSERT_CONTAINS(err_hint(), "built again");
    ASSERT_EQ(ftruncate(fd, 0), 0);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_rootfs_check(fd, "it", ERR));
    ASSERT_EQ(bx_pwrite_full(fd, good, size, 0), 0);
    ASSERT_EQ(bx_pwrite_full(fd, "XXXX", 4, 0), 0);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_rootfs_check(fd, "it", ERR));
    ASSERT_EQ(bx_pwrite_full(fd, good, size, 0), 0);
    ASSERT_EQ(bx_pwrite_full(fd, "\1", 1, 20), 0); /* another compressor */
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_rootfs_check(fd, "it", ERR));
    free(good);
    close(fd);
}

TEST(misuse_of_a_root_is_told)
{
    struct bx_rootfs *r = NULL;

    bx_rootfs_free(NULL);
    ASSERT_OK(bx_rootfs_new(-1, 100, &r, ERR));
    ASSERT_FAILS(BOXLITE_E_INTERNAL, bx_rootfs_write(r, "x", 1, ERR));
    ASSERT_OK(bx_rootfs_add(r, "d", &folder, ERR));
    ASSERT_FAILS(BOXLITE_E_INTERNAL, bx_rootfs_write(r, "x", 1, ERR));
    ASSERT_OK(bx_rootfs_add(r, "f", &file, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_rootfs_write(r, "x", 101, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_rootfs_link(r, "l", "missing", ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_rootfs_link(r, "l", "d", ERR));
    ASSERT_OK(bx_rootfs_remove(r, "missing/x", ERR));
    ASSERT_OK(bx_rootfs_opaque(r, "missing", 1, ERR));
    bx_rootfs_free(r);
}

TEST(an_unfinished_root_leaves_nothing_behind)
{
    int fd = memfd_create("root", MFD_CLOEXEC);
    struct bx_rootfs *r = NULL;
    _cleanup_free_ char *data = calloc(1, 4 * MIB);

    for (size_t i = 0; i < 4 * MIB; i++) {
        data[i] = (char)(i * i >> 7);
    }
    ASSERT_OK(bx_rootfs_new(fd, GIB, &r, ERR));
    ASSERT_OK(bx_rootfs_add(r, "f", &file, ERR));
    ASSERT_OK(bx_rootfs_write(r, data, 4 * MIB, ERR));
    bx_rootfs_free(r);
    close(fd);
}

TEST(a_full_disk_is_told)
{
    int fd = open("/dev/full", O_RDWR | O_CLOEXEC);
    struct bx_rootfs *r = NULL;

    if (fd < 0) {
        SKIP("no /dev/full");
    }
    ASSERT_FAILS(BOXLITE_E_NO_SPACE, bx_rootfs_new(fd, GIB, &r, ERR));
    ASSERT_CONTAINS(err_hint(), "free some space");
    close(fd);
}

TEST_FOR(a_folder_of_many_entries, 60)
{
    enum { N = 70000 };
    int fd = memfd_create("root", MFD_CLOEXEC);
    struct bx_rootfs *r = NULL;
    uint64_t size = 0;

    ASSERT_OK(bx_rootfs_new(fd, GIB, &r, ERR));
    for (unsigned i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof(name), "d/%08x", i * 2654435761u);
        ASSERT_OK(bx_rootfs_add(r, name, &file, ERR));
    }
    ASSERT_OK(bx_rootfs_finish(r, &size, ERR));
    bx_rootfs_free(r);
    ASSERT_OK(bx_rootfs_check(fd, "it", ERR));
    close(fd);
}

#if !defined(__SANITIZE_ADDRESS__) /* which has an allocator of its own, without these figures */
/* What an image of many entries may cost is a promise: docs/decisions/0005. */
TEST_FOR(an_entry_takes_little_memory, 60)
{
    enum { N = 70000, BYTES_EACH = 110 };
    int fd = memfd_create("root", MFD_CLOEXEC);
    struct bx_rootfs *r = NULL;
    size_t before = mallinfo2().uordblks, used;
    uint64_t size = 0;

    /* The blocks under way, more where there are more processors, are then counted apart. */
    ASSERT_EQ(mallopt(M_MMAP_THRESHOLD, 128 << 10), 1);
    ASSERT_OK(bx_rootfs_new(fd, GIB, &r, ERR));
    for (unsigned i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof(name), "d%u/%08x", i / 1000, i);
        ASSERT_OK(bx_rootfs_add(r, name, &file, ERR));
        ASSERT_OK(bx_rootfs_write(r, "same", 4, ERR));
    }
    used = mallinfo2().uordblks - before;
    ASSERT_LT(used, (size_t)N * BYTES_EACH);
    ASSERT_OK(bx_rootfs_finish(r, &size, ERR));
    bx_rootfs_free(r);
    ASSERT_OK(bx_rootfs_check(fd, "it", ERR));
    close(fd);
}
#endif
