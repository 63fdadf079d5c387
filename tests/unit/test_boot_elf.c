/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_boot_elf.c: bzImage headers, kernels, modules, and the initramfs writer, on files made here.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "boot/bzimage.h"
#include "boot/cpio.h"
#include "boot/elf.h"
#include "boot_files.h"
#include "harness.h"

/* ---- bzImage */

TEST(payload_is_found_without_its_size_field)
{
    uint8_t p[4096];
    struct bx_bzimage z;
    make_bzimage(p, sizeof(p), 100, 64, "\x02\x21\x4c\x18\0\0");
    uint32_t unpacked = 123456;
    memcpy(p + 1536 + 100 + 60, &unpacked, 4);
    ASSERT_OK(bx_bzimage_parse(p, sizeof(p), &z));
    ASSERT_EQ(z.payload_off, 1636);
    ASSERT_EQ(z.payload_len, 60);
    ASSERT_EQ(z.vmlinux_size, 123456);
    ASSERT_STREQ(z.compression, "lz4");
    ASSERT(z.readable);
}

TEST(gzip_keeps_its_own_size_field)
{
    uint8_t p[4096];
    struct bx_bzimage z;
    make_bzimage(p, sizeof(p), 0, 64, "\x1f\x8b\x08\0\0\0");
    ASSERT_OK(bx_bzimage_parse(p, sizeof(p), &z));
    ASSERT_STREQ(z.compression, "gzip");
    ASSERT_EQ(z.payload_len, 64);
}

TEST(compressions_are_told_apart)
{
    static const struct {
        const char *magic, *name;
        bool readable;
    } cases[] = {
        {"\xfd"
         "7zXZ\0",
         "xz", true},
        {"\x28\xb5\x2f\xfd\0\0", "zstd", true},
        {"\x5d\0\0\0\0\0", "lzma", true},
        {"BZh91A", "bzip2", true},
        {"\x89LZO\0\0", "lzo", false},
        {"abcdef", "unknown", false},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        uint8_t p[4096];
        struct bx_bzimage z;
        make_bzimage(p, sizeof(p), 0, 64, cases[i].magic);
        ASSERT_OK(bx_bzimage_parse(p, sizeof(p), &z));
        ASSERT_STREQ(z.compression, cases[i].name);
        ASSERT_EQ(z.readable, cases[i].readable);
    }
}

TEST(payload_outside_the_file_is_refused)
{
    uint8_t p[4096];
    struct bx_bzimage z = {.payload_len = 77};
    static const uint32_t bad[][2] = {{4096, 64},      {100, 4000}, {UINT32_MAX, 64},
                                      {0, UINT32_MAX}, {0, 0},      {0, 15}};
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        make_bzimage(p, sizeof(p), bad[i][0], bad[i][1], "\x1f\x8b\x08\0\0\0");
        ASSERT_EQ(bx_bzimage_parse(p, sizeof(p), &z), -EBADMSG);
    }
    ASSERT_EQ(z.payload_len, 77); /* untouched on failure */
}

TEST(other_files_are_no_bzimage)
{
    uint8_t p[4096];
    struct bx_bzimage z;
    make_bzimage(p, sizeof(p), 0, 64, "\x1f\x8b\x08\0\0\0");
    ASSERT_EQ(bx_bzimage_parse(p, 0x24f, &z), -EINVAL);
    ASSERT_EQ(bx_bzimage_parse(p, 0, &z), -EINVAL);
    p[0x202] = 'X';
    ASSERT_EQ(bx_bzimage_parse(p, sizeof(p), &z), -EINVAL);
    p[0x202] = 'H';
    p[0x206] = 7;
    ASSERT_EQ(bx_bzimage_parse(p, sizeof(p), &z), -ENOTSUP);
}

/* ---- Kernels */

TEST(kernel_tells_release_and_pvh)
{
    struct kernel_file f = make_kernel();
    struct bx_elf_kernel k;
    ASSERT_OK(bx_elf_kernel(&f, sizeof(f), &k));
    ASSERT_STREQ(k.release, "6.1.0-9-test");
    ASSERT(k.pvh);
}

TEST(kernel_without_the_pvh_note)
{
    struct kernel_file f = make_kernel();
    struct bx_elf_kernel k;
    f.note.n_type = 17;
    ASSERT_OK(bx_elf_kernel(&f, sizeof(f), &k));
    ASSERT(!k.pvh);
    f.note.n_type = 18;
    f.owner[0] = 'Y';
    ASSERT_OK(bx_elf_kernel(&f, sizeof(f), &k));
    ASSERT(!k.pvh);
}

TEST(release_at_the_end_of_the_file)
{
    struct kernel_file f = make_kernel();
    struct bx_elf_kernel k;
    memset(f.text, 'x', sizeof(f.text));
    memcpy(f.text + sizeof(f.text) - 18, "Linux version 6.12", 18);
    ASSERT_OK(bx_elf_kernel(&f, sizeof(f), &k));
    ASSERT_STREQ(k.release, "6.12");
    memcpy(f.text + sizeof(f.text) - 18, "xxxxLinux version ", 18);
    ASSERT_OK(bx_elf_kernel(&f, sizeof(f), &k));
    ASSERT_STREQ(k.release, "");
}

TEST(damaged_kernels_are_refused)
{
    struct bx_elf_kernel k = {.pvh = true};
    for (size_t len = 0; len < offsetof(struct kernel_file, text) + 64; len++) {
        struct kernel_file f = make_kernel();
        ASSERT_LT(bx_elf_kernel(&f, len, &k), 0);
    }
    struct kernel_file f = make_kernel();
    f.eh.e_phoff = UINT64_MAX - 8;
    ASSERT_EQ(bx_elf_kernel(&f, sizeof(f), &k), -EBADMSG);
    f = make_kernel();
    f.ph[0].p_offset = UINT64_MAX;
    ASSERT_EQ(bx_elf_kernel(&f, sizeof(f), &k), -EBADMSG);
    f = make_kernel();
    f.ph[0].p_memsz = 63;
    ASSERT_EQ(bx_elf_kernel(&f, sizeof(f), &k), -EBADMSG);
    f = make_kernel();
    f.ph[0].p_type = PT_NULL;
    ASSERT_EQ(bx_elf_kernel(&f, sizeof(f), &k), -EBADMSG);
    ASSERT(k.pvh);
}

TEST(other_programs_are_no_kernel)
{
    struct bx_elf_kernel k;
    struct kernel_file f = make_kernel();
    f.eh.e_machine = EM_AARCH64;
    ASSERT_EQ(bx_elf_kernel(&f, sizeof(f), &k), -ENOEXEC);
    f = make_kernel();
    f.eh.e_type = ET_REL;
    ASSERT_EQ(bx_elf_kernel(&f, sizeof(f), &k), -ENOEXEC);
    f = make_kernel();
    f.eh.e_ident[EI_CLASS] = ELFCLASS32;
    ASSERT_EQ(bx_elf_kernel(&f, sizeof(f), &k), -ENOEXEC);
}

TEST(note_of_a_huge_size_ends_the_search)
{
    struct kernel_file f = make_kernel();
    struct bx_elf_kernel k;
    f.note.n_namesz = UINT32_MAX;
    ASSERT_OK(bx_elf_kernel(&f, sizeof(f), &k));
    ASSERT(!k.pvh);
    f = make_kernel();
    f.note.n_descsz = UINT32_MAX;
    ASSERT_OK(bx_elf_kernel(&f, sizeof(f), &k));
    ASSERT(!k.pvh);
}

/* ---- Modules: signature */

TEST(signature_is_cut_off)
{
    uint8_t p[200];
    memset(p, 'm', sizeof(p));
    static const char magic[] = "~Module signature appended~\n";
    memcpy(p + 200 - 28, magic, 28);
    static const uint8_t info[12] = {0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 60};
    memcpy(p + 200 - 40, info, 12);
    ASSERT_EQ(bx_elf_unsigned_len(p, 200), 100);
    ASSERT_EQ(bx_elf_unsigned_len(p, 199), 199); /* no signature */
    p[200 - 40 + 11] = 161;                      /* longer than the file */
    ASSERT_EQ(bx_elf_unsigned_len(p, 200), 200);
    ASSERT_EQ(bx_elf_unsigned_len(p, 0), 0);
}

/* ---- cpio */

TEST(archive_has_the_bytes_that_linux_reads)
{
    struct bx_buf b = BX_BUF_INIT(4096);
    ASSERT_OK(bx_cpio_file(&b, "init", 0755, "abcde", 5));
    static const char want[] = "070701"
                               "00000000" /* ino */
                               "000081ed" /* mode */
                               "00000000"
                               "00000000" /* uid, gid */
                               "00000001" /* nlink */
                               "00000000" /* mtime */
                               "00000005" /* size */
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000000" /* devices */
                               "00000005" /* name with NUL */
                               "00000000" /* check */
                               "init\0\0"
                               "abcde\0\0";
    ASSERT_EQ(b.len, 6 + 13 * 8 + 6 + 8);
    ASSERT_MEM(bx_buf_data(&b), want, b.len);
    bx_buf_done(&b);
}

TEST(archive_device_numbers_and_end)
{
    struct bx_buf b = BX_BUF_INIT(4096);
    ASSERT_OK(bx_cpio_char_device(&b, "dev/console", 0600, 5, 1));
    ASSERT_MEM(bx_buf_data(&b) + 14, "00002180", 8);
    ASSERT_MEM(bx_buf_data(&b) + 6 + 9 * 8, "0000000500000001", 16);
    ASSERT_EQ(b.len % 4, 0);
    size_t before = b.len;
    ASSERT_OK(bx_cpio_end(&b));
    ASSERT_EQ(b.len - before, 124);
    ASSERT_MEM(bx_buf_data(&b) + before + 110, "TRAILER!!!", 11);
    bx_buf_done(&b);
}

TEST(archive_over_its_maximum_is_refused)
{
    struct bx_buf b = BX_BUF_INIT(64);
    ASSERT_EQ(bx_cpio_dir(&b, "dev"), -ENOBUFS);
    bx_buf_done(&b);
}
