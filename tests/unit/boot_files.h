/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot_files.h: small kernels, vmlinuz headers and modules for the tests of src/boot.
 */
#ifndef BX_TESTS_BOOT_FILES_H
#define BX_TESTS_BOOT_FILES_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct kernel_file {
    Elf64_Ehdr eh;
    Elf64_Phdr ph[2];
    Elf64_Nhdr note;
    char owner[4];
    uint64_t entry;
    char text[64];
};

static inline struct kernel_file make_kernel(void)
{
    struct kernel_file f = {
        .eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
               .e_type = ET_EXEC,
               .e_machine = EM_X86_64,
               .e_phoff = offsetof(struct kernel_file, ph),
               .e_phentsize = sizeof(Elf64_Phdr),
               .e_phnum = 2},
        .ph = {{.p_type = PT_LOAD,
                .p_offset = offsetof(struct kernel_file, text),
                .p_filesz = 64,
                .p_memsz = 64},
               {.p_type = PT_NOTE,
                .p_offset = offsetof(struct kernel_file, note),
                .p_filesz = sizeof(Elf64_Nhdr) + 4 + 8,
                .p_memsz = sizeof(Elf64_Nhdr) + 4 + 8}},
        .note = {.n_namesz = 4, .n_descsz = 8, .n_type = 18},
        .owner = "Xen",
        .text = "Linux version %s Linux version 6.1.0-9-test (me@here) #1",
    };
    return f;
}

/* A vmlinuz of `len` bytes whose payload is at file offset 1536 + `off` and begins with the 6
 * bytes of magic, if any. */
static inline void make_bzimage(uint8_t *p, size_t len, uint32_t off, uint32_t n, const char *magic)
{
    memset(p, 0, len);
    p[0x1f1] = 2; /* setup sectors: the payload area begins at 3 * 512 */
    p[0x1fe] = 0x55;
    p[0x1ff] = 0xaa;
    memcpy(p + 0x202, "HdrS", 4);
    p[0x206] = 0x0f;
    p[0x207] = 0x02;
    memcpy(p + 0x248, &off, 4);
    memcpy(p + 0x24c, &n, 4);
    if (magic && (uint64_t)1536 + off + 6 <= len) {
        memcpy(p + 1536 + off, magic, 6);
    }
}

#define MODULE_SIZE 1024

/* A module of MODULE_SIZE bytes that depends on others ("a,b"). */
static inline void make_module(uint8_t *p, const char *depends)
{
    enum { INFO = 128, INFO_LEN = 400, NAMES = 600, SECTIONS = 704 };
    static const char names[] = "\0.modinfo\0.shstrtab";
    Elf64_Ehdr eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                     .e_type = ET_REL,
                     .e_machine = EM_X86_64,
                     .e_shoff = SECTIONS,
                     .e_shentsize = sizeof(Elf64_Shdr),
                     .e_shnum = 3,
                     .e_shstrndx = 2};
    Elf64_Shdr sh[3] = {
        {0},
        {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = INFO, .sh_size = INFO_LEN},
        {.sh_name = 10, .sh_type = SHT_STRTAB, .sh_offset = NAMES, .sh_size = sizeof(names)},
    };
    memset(p, 0, MODULE_SIZE);
    memcpy(p, &eh, sizeof(eh));
    memcpy(p + NAMES, names, sizeof(names));
    memcpy(p + SECTIONS, sh, sizeof(sh));
    int n = snprintf((char *)p + INFO, INFO_LEN, "license=GPL%cdepends=%s%cvermagic=6.1 SMP", 0,
                     depends, 0);
    (void)n;
}

#endif
