/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_boot_kernel.c: kernels from their file to kernels/NAME, with packages made here.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "boot/kernel.h"
#include "boot_files.h"
#include "harness.h"

static const char *const required[] = {"virtio_mmio", "virtio_console", "virtio_blk",
                                       "squashfs",    "ext4",           "overlay"};

/* ---- Making files */

static char *path(const char *name)
{
    static char *paths[16];
    static size_t n;
    char **p = &paths[n++ % 16];
    free(*p);
    *p = bx_path_join(tmpdir(), name);
    return *p;
}

static void put(const char *name, const void *data, size_t len)
{
    ASSERT_OK(bx_write_file(tmpdir_fd(), name, data, len, 0644));
}

static void append_file(struct archive *a, const char *name, const void *data, size_t len)
{
    struct archive_entry *e = archive_entry_new();
    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, (la_int64_t)len);
    ASSERT_EQ(archive_write_header(a, e), ARCHIVE_OK);
    ASSERT_EQ(archive_write_data(a, data, len), (la_ssize_t)len);
    archive_entry_free(e);
}

/* Compresses, as a kernel's build does: a raw stream, the unpacked size behind all but gzip. */
static size_t pack(const void *data, size_t len, int (*filter)(struct archive *), bool size_behind,
                   uint8_t *out, size_t max)
{
    struct archive *a = archive_write_new();
    size_t used = 0;
    ASSERT_EQ(archive_write_set_format_raw(a), ARCHIVE_OK);
    ASSERT_EQ(filter(a), ARCHIVE_OK);
    archive_write_set_bytes_per_block(a, 0);
    ASSERT_EQ(archive_write_open_memory(a, out, max, &used), ARCHIVE_OK);
    append_file(a, "x", data, len);
    archive_write_close(a);
    archive_write_free(a);
    uint32_t n = (uint32_t)len;
    if (size_behind) {
        memcpy(out + used, &n, 4);
        used += 4;
    }
    return used;
}

/* A vmlinuz of the small kernel, in *out (8192 bytes). */
static size_t make_vmlinuz(uint8_t *out, int (*filter)(struct archive *), bool size_behind)
{
    struct kernel_file k = make_kernel();
    uint8_t payload[4096];
    size_t n = pack(&k, sizeof(k), filter, size_behind, payload, sizeof(payload) - 4);
    make_bzimage(out, 8192, 0, (uint32_t)n, NULL);
    memcpy(out + 1536, payload, n);
    return 1536 + n;
}

static void module_at(struct archive *a, const char *name, const char *depends)
{
    uint8_t m[MODULE_SIZE];
    char file[256];
    make_module(m, depends);
    snprintf(file, sizeof(file), "./lib/modules/6.1/kernel/some/%s.ko", name);
    append_file(a, file, m, sizeof(m));
}

/* A package whose wanted modules depend on "base-a", which depends on base_b; ext4 is built in. */
static void make_deb(const char *name, bool leave_out_overlay, const char *base_b_depends)
{
    static uint8_t tar[1 << 20];
    size_t tar_len = 0;
    uint8_t z[8192];
    size_t z_len = make_vmlinuz(z, archive_write_add_filter_xz, true);
    struct archive *a = archive_write_new();
    archive_write_set_format_gnutar(a);
    archive_write_add_filter_xz(a);
    ASSERT_EQ(archive_write_open_memory(a, tar, sizeof(tar), &tar_len), ARCHIVE_OK);
    append_file(a, "./boot/vmlinuz-6.1", z, z_len);
    for (size_t i = 0; i < BX_ARRAY_SIZE(required); i++) {
        bool left_out = leave_out_overlay && bx_streq(required[i], "overlay");
        if (!left_out && !bx_streq(required[i], "ext4")) {
            module_at(a, required[i], "base-a");
        }
    }
    module_at(a, "base_a", "base_b");
    module_at(a, "base-b", base_b_depends);
    module_at(a, "unwanted", "");
    static const char builtin[] = "kernel/fs/ext4/ext4.ko\nkernel/x.ko\n";
    append_file(a, "./lib/modules/6.1/modules.builtin", builtin, sizeof(builtin) - 1);
    archive_write_close(a);
    archive_write_free(a);

    a = archive_write_new();
    archive_write_set_format_ar_svr4(a);
    ASSERT_EQ(archive_write_open_filename(a, path(name)), ARCHIVE_OK);
    append_file(a, "debian-binary", "2.0\n", 4);
    append_file(a, "data.tar.xz", tar, tar_len);
    archive_write_close(a);
    archive_write_free(a);
}

/* ---- A home and an agent */

static struct bx_home *home;

static void set_up(void)
{
    static const char agent[] = "\177ELF agent one";
    put("agent", agent, sizeof(agent));
    ASSERT_OK(bx_home_open(path("home"), &home, ERR));
}

static void tear_down(void)
{
    bx_home_free(home);
}

static void initramfs_of(const char *name, struct bx_buf *ret)
{
    struct bx_kernel *k = NULL;
    ASSERT_OK(bx_kernel_open(home->fd, name, path("agent"), &k, ERR));
    ASSERT_OK(bx_read_file(AT_FDCWD, k->initramfs, ret));
    bx_kernel_free(k);
}

static size_t place_of(const struct bx_buf *b, const char *text)
{
    const uint8_t *p = memmem(bx_buf_data(b), b->len, text, strlen(text));
    return p ? (size_t)(p - bx_buf_data(b)) : 0;
}

/* ---- Tests */

TEST(package_becomes_a_kernel)
{
    set_up();
    make_deb("k.deb", false, "");
    ASSERT_OK(bx_kernel_import(home, path("k.deb"), NULL, path("agent"), NULL, ERR));
    struct bx_kernel *k = NULL;
    ASSERT_OK(bx_kernel_open(home->fd, NULL, path("agent"), &k, ERR));
    ASSERT_STREQ(k->name, "default");
    ASSERT_STREQ(k->release, "6.1.0-9-test");
    struct kernel_file want = make_kernel();
    struct bx_buf vmlinux = BX_BUF_INIT(65536);
    ASSERT_OK(bx_read_file(AT_FDCWD, k->vmlinux, &vmlinux));
    ASSERT_EQ(vmlinux.len, sizeof(want));
    ASSERT_MEM(bx_buf_data(&vmlinux), &want, sizeof(want));
    bx_buf_done(&vmlinux);
    bx_kernel_free(k);
    tear_down();
}

TEST(modules_come_after_what_they_need)
{
    set_up();
    make_deb("k.deb", false, "");
    ASSERT_OK(bx_kernel_import(home, path("k.deb"), NULL, path("agent"), NULL, ERR));
    struct bx_buf b = BX_BUF_INIT(1 << 20);
    initramfs_of(NULL, &b);
    ASSERT_LT(0, place_of(&b, "modules/001-base_b.ko"));
    ASSERT_LT(place_of(&b, "modules/001-base_b.ko"), place_of(&b, "modules/002-base_a.ko"));
    ASSERT_LT(place_of(&b, "modules/002-base_a.ko"), place_of(&b, "modules/003-virtio_mmio.ko"));
    ASSERT_EQ(place_of(&b, "ext4.ko"), 0); /* built in */
    ASSERT_EQ(place_of(&b, "unwanted"), 0);
    ASSERT_LT(place_of(&b, "007-overlay.ko"), place_of(&b, "ELF agent one"));
    ASSERT_EQ(b.len - place_of(&b, "TRAILER!!!"), 14);
    bx_buf_done(&b);
    tear_down();
}

TEST(modules_that_need_one_another_are_refused)
{
    set_up();
    make_deb("k.deb", false, "base_a");
    ASSERT_FAILS(BOXLITE_E_INTEGRITY,
                 bx_kernel_import(home, path("k.deb"), NULL, path("agent"), NULL, ERR));
    ASSERT_CONTAINS(err_message(), "depends on itself");
    tear_down();
}

TEST(missing_modules_are_named)
{
    set_up();
    make_deb("k.deb", true, "");
    ASSERT_FAILS(BOXLITE_E_UNSUPPORTED,
                 bx_kernel_import(home, path("k.deb"), NULL, path("agent"), NULL, ERR));
    ASSERT_CONTAINS(err_message(), "has no overlay");
    make_deb("k.deb", false, "nowhere");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 bx_kernel_import(home, path("k.deb"), NULL, path("agent"), NULL, ERR));
    ASSERT_CONTAINS(err_message(), "base_b needs nowhere");
    tear_down();
}

TEST(cut_package_leaves_nothing)
{
    set_up();
    make_deb("k.deb", false, "");
    struct bx_buf b = BX_BUF_INIT(1 << 20);
    ASSERT_OK(bx_read_file(tmpdir_fd(), "k.deb", &b));
    put("cut.deb", bx_buf_data(&b), b.len / 2);
    bx_buf_done(&b);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY,
                 bx_kernel_import(home, path("cut.deb"), NULL, path("agent"), NULL, ERR));
    ASSERT_CONTAINS(err_hint(), "fetch it again");
    struct bx_kernel **list = NULL;
    size_t n = 7;
    ASSERT_OK(bx_kernel_list(home->fd, &list, &n, ERR));
    ASSERT_EQ(n, 0);
    bx_kernel_list_free(list);
    tear_down();
}

TEST(every_compression_is_unpacked)
{
    static const struct {
        int (*filter)(struct archive *);
        bool size_behind;
    } cases[] = {
        {archive_write_add_filter_gzip, false}, {archive_write_add_filter_xz, true},
        {archive_write_add_filter_zstd, true},  {archive_write_add_filter_bzip2, true},
        {archive_write_add_filter_lzma, true},
    };
    set_up();
    ASSERT_EQ(mkdir(path("mods"), 0755), 0);
    static const char builtin[] = "a/virtio_mmio.ko\na/virtio_console.ko\na/virtio_blk.ko\n"
                                  "b/squashfs.ko\nb/ext4.ko\nb/overlay.ko";
    put("mods/modules.builtin", builtin, sizeof(builtin) - 1);
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        uint8_t z[8192];
        size_t n = make_vmlinuz(z, cases[i].filter, cases[i].size_behind);
        put("vmlinuz", z, n);
        ASSERT_OK(bx_kernel_import(home, path("vmlinuz"), path("mods"), path("agent"), "z", ERR));
        put("vmlinuz", z, n - 1);
        ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_kernel_import(home, path("vmlinuz"), path("mods"),
                                                           path("agent"), "z", ERR));
    }
    tear_down();
}

TEST(size_that_is_not_the_kernels_is_damage)
{
    set_up();
    uint8_t z[8192];
    size_t n = make_vmlinuz(z, archive_write_add_filter_xz, true);
    z[n - 4]++;
    put("vmlinuz", z, n);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY,
                 bx_kernel_import(home, path("vmlinuz"), NULL, path("agent"), NULL, ERR));
    z[n - 1] = 0x7f; /* claims 2 GiB */
    put("vmlinuz", z, n);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY,
                 bx_kernel_import(home, path("vmlinuz"), NULL, path("agent"), NULL, ERR));
    ASSERT_CONTAINS(err_message(), "claims");
    tear_down();
}

TEST(kernel_without_modules_must_have_its_drivers)
{
    set_up();
    struct kernel_file k = make_kernel();
    put("vmlinux", &k, sizeof(k));
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_kernel_import(home, path("vmlinux"), NULL, path("agent"), NULL, ERR));
    ASSERT_CONTAINS(err_hint(), "--modules /lib/modules/6.1.0-9-test");
    memcpy(k.text + 50, "virtio-mmio", 12);
    put("vmlinux", &k, sizeof(k));
    ASSERT_OK(bx_kernel_import(home, path("vmlinux"), NULL, path("agent"), NULL, ERR));
    tear_down();
}

TEST(other_files_are_refused_with_a_hint)
{
    set_up();
    put("text", "hello", 5);
    put("empty", "", 0);
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_kernel_import(home, path("text"), NULL, path("agent"), NULL, ERR));
    ASSERT_CONTAINS(err_hint(), ".deb");
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_kernel_import(home, path("empty"), NULL, path("agent"), NULL, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_kernel_import(home, tmpdir(), NULL, path("agent"), NULL, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 bx_kernel_import(home, path("none"), NULL, path("agent"), NULL, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_kernel_import(home, path("text"), NULL, path("agent"), "../x", ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_kernel_import(home, path("text"), NULL, path("agent"), "", ERR));
    tear_down();
}

static void import_small(const char *name)
{
    struct kernel_file k = make_kernel();
    memcpy(k.text + 50, "virtio-mmio", 12);
    put("vmlinux", &k, sizeof(k));
    ASSERT_OK(bx_kernel_import(home, path("vmlinux"), NULL, path("agent"), name, ERR));
}

TEST(new_agent_is_put_into_the_initramfs)
{
    set_up();
    import_small(NULL);
    static const char newer[] = "\177ELF agent two";
    put("agent", newer, sizeof(newer));
    struct bx_buf b = BX_BUF_INIT(1 << 20);
    initramfs_of(NULL, &b);
    ASSERT_LT(0, place_of(&b, "agent two"));
    ASSERT_EQ(place_of(&b, "agent one"), 0);
    bx_buf_done(&b);
    tear_down();
}

TEST(kernels_are_listed_and_removed)
{
    set_up();
    import_small("b");
    import_small("a");
    import_small("b"); /* replaces */
    struct bx_kernel **list = NULL;
    size_t n = 0;
    ASSERT_OK(bx_kernel_list(home->fd, &list, &n, ERR));
    ASSERT_EQ(n, 2);
    ASSERT_STREQ(list[0]->name, "a");
    ASSERT_STREQ(list[1]->name, "b");
    ASSERT_LT(0, list[0]->size);
    bx_kernel_list_free(list);
    ASSERT_OK(bx_kernel_remove(home->fd, "a", ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_kernel_remove(home->fd, "a", ERR));
    struct bx_kernel *k = NULL;
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_kernel_open(home->fd, "a", path("agent"), &k, ERR));
    ASSERT_CONTAINS(err_hint(), "kernel import");
    tear_down();
}

TEST(damaged_kernel_folder_is_an_error_with_a_hint)
{
    set_up();
    import_small(NULL);
    ASSERT_EQ(truncate(path("home/kernels/default/kernel.json"), 3), 0);
    struct bx_kernel *k = NULL;
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_kernel_open(home->fd, NULL, path("agent"), &k, ERR));
    ASSERT_CONTAINS(err_hint(), "import it again");
    ASSERT_EQ(unlink(path("home/kernels/default/modules.cpio")), 0);
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_kernel_open(home->fd, NULL, path("agent"), &k, ERR));
    ASSERT_NULL(k);
    tear_down();
}

TEST(agent_that_is_missing_is_told)
{
    set_up();
    struct kernel_file k = make_kernel();
    memcpy(k.text + 50, "virtio-mmio", 12);
    put("vmlinux", &k, sizeof(k));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 bx_kernel_import(home, path("vmlinux"), NULL, path("no-agent"), NULL, ERR));
    ASSERT_CONTAINS(err_hint(), "boxlite-agent");
    tear_down();
}
