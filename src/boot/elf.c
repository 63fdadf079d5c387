/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf.c: program headers, notes, sections and .modinfo of 64-bit little-endian ELF files.
 *
 * Structures are copied out before they are looked at (the file need not be aligned). slice() is the
 * only way from an offset and a length to a pointer; it gives NULL for anything outside the file.
 */
#include "boot/elf.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#define PVH_NOTE 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
#define SIGNATURE_MAGIC "~Module signature appended~\n"

struct file {
    const uint8_t *p;
    size_t len;
};

static const uint8_t *slice(const struct file *f, uint64_t off, uint64_t n)
{
    return off <= f->len && n <= f->len - off ? f->p + off : NULL;
}

bool bx_elf_is(const void *data, size_t len)
{
    return len >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0;
}

static int read_header(const struct file *f, Elf64_Ehdr *ret)
{
    const uint8_t *p = slice(f, 0, sizeof(*ret));
    if (!p || !bx_elf_is(f->p, f->len)) {
        return -ENOEXEC;
    }
    memcpy(ret, p, sizeof(*ret));
    if (ret->e_ident[EI_CLASS] != ELFCLASS64 || ret->e_ident[EI_DATA] != ELFDATA2LSB ||
        ret->e_machine != EM_X86_64) {
        return -ENOEXEC;
    }
    return 0;
}

static bool notes_have_pvh(const struct file *f, uint64_t off, uint64_t n)
{
    const uint8_t *p = slice(f, off, n);
    if (!p) {
        return false;
    }
    struct file notes = {p, (size_t)n};
    uint64_t at = 0;
    Elf64_Nhdr h;
    while ((p = slice(&notes, at, sizeof(h)))) {
        memcpy(&h, p, sizeof(h));
        uint64_t name = at + sizeof(h);
        uint64_t desc = name + (((uint64_t)h.n_namesz + 3) & ~3ull);
        const uint8_t *owner = slice(&notes, name, h.n_namesz);
        if (!owner || !slice(&notes, desc, h.n_descsz)) {
            return false;
        }
        if (h.n_type == PVH_NOTE && h.n_namesz == 4 && memcmp(owner, "Xen", 4) == 0) {
            return true;
        }
        at = desc + (((uint64_t)h.n_descsz + 3) & ~3ull);
    }
    return false;
}

/* The release is the word behind the banner that the kernel prints first. */
static void find_release(const struct file *f, char *ret, size_t size)
{
    static const char banner[] = "Linux version ";
    const uint8_t *p = f->p;
    size_t left = f->len;
    ret[0] = '\0';
    while ((p = memmem(p, left, banner, sizeof(banner) - 1))) {
        p += sizeof(banner) - 1;
        left = f->len - (size_t)(p - f->p);
        size_t n = 0;
        while (n < left && n < size - 1 && p[n] > ' ' && p[n] < 0x7f && p[n] != '/') {
            ret[n] = (char)p[n];
            n++;
        }
        ret[n] = '\0';
        if (n > 0 && ret[0] >= '0' && ret[0] <= '9') {
            return;
        }
        ret[0] = '\0';
    }
}

int bx_elf_kernel(const void *data, size_t len, struct bx_elf_kernel *ret)
{
    struct file f = {data, len};
    Elf64_Ehdr eh;
    int r = read_header(&f, &eh);
    if (r < 0) {
        return r;
    }
    if (eh.e_type != ET_EXEC && eh.e_type != ET_DYN) {
        return -ENOEXEC;
    }
    const uint8_t *headers = slice(&f, eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(Elf64_Phdr));
    if (!headers || eh.e_phnum == 0 || eh.e_phentsize != sizeof(Elf64_Phdr)) {
        return -EBADMSG;
    }
    struct bx_elf_kernel out = {0};
    bool loads = false;
    for (unsigned i = 0; i < eh.e_phnum; i++) {
        Elf64_Phdr ph;
        memcpy(&ph, headers + i * sizeof(ph), sizeof(ph));
        if (ph.p_type != PT_LOAD && ph.p_type != PT_NOTE) {
            continue;
        }
        if (!slice(&f, ph.p_offset, ph.p_filesz) || ph.p_memsz < ph.p_filesz) {
            return -EBADMSG;
        }
        loads |= ph.p_type == PT_LOAD;
        out.pvh |= ph.p_type == PT_NOTE && notes_have_pvh(&f, ph.p_offset, ph.p_filesz);
    }
    if (!loads) {
        return -EBADMSG;
    }
    find_release(&f, out.release, sizeof(out.release));
    *ret = out;
    return 0;
}

static bool section_header(const struct file *f, const Elf64_Ehdr *eh, unsigned i, Elf64_Shdr *ret)
{
    const uint8_t *p = slice(f, eh->e_shoff, (uint64_t)(i + 1) * sizeof(*ret));
    if (!p || i >= eh->e_shnum || eh->e_shentsize != sizeof(*ret)) {
        return false;
    }
    memcpy(ret, p + (size_t)i * sizeof(*ret), sizeof(*ret));
    return true;
}

/* The bytes of the section of that name: false if there is none inside the file. */
static bool section(const struct file *f, const char *name, struct file *ret)
{
    Elf64_Ehdr eh;
    Elf64_Shdr names, sh;
    if (read_header(f, &eh) < 0 || !section_header(f, &eh, eh.e_shstrndx, &names)) {
        return false;
    }
    const uint8_t *table = slice(f, names.sh_offset, names.sh_size);
    size_t n = strlen(name) + 1;
    for (unsigned i = 0; table && section_header(f, &eh, i, &sh); i++) {
        struct file text = {table, names.sh_size};
        const uint8_t *title = slice(&text, sh.sh_name, n);
        if (title && sh.sh_type != SHT_NOBITS && memcmp(title, name, n) == 0) {
            ret->p = slice(f, sh.sh_offset, sh.sh_size);
            ret->len = sh.sh_size;
            return ret->p != NULL;
        }
    }
    return false;
}

const char *bx_elf_modinfo(const void *data, size_t len, const char *key, size_t n)
{
    struct file f = {data, len};
    struct file info;
    if (!section(&f, ".modinfo", &info)) {
        return NULL;
    }
    size_t key_len = strlen(key);
    const uint8_t *end;
    for (const uint8_t *p = info.p; info.len > 0; p = end + 1) {
        end = memchr(p, '\0', info.len);
        if (!end) {
            return NULL;
        }
        info.len -= (size_t)(end + 1 - p);
        if ((size_t)(end - p) > key_len && memcmp(p, key, key_len) == 0 && p[key_len] == '=' &&
            n-- == 0) {
            return (const char *)p + key_len + 1;
        }
    }
    return NULL;
}

size_t bx_elf_unsigned_len(const void *data, size_t len)
{
    /* Behind the module: signature, struct module_signature (12 bytes, its length big-endian at the
     * end), the magic line (include/linux/module_signature.h). */
    const size_t magic = sizeof(SIGNATURE_MAGIC) - 1;
    const uint8_t *p = data;
    if (len < magic + 12 || memcmp(p + len - magic, SIGNATURE_MAGIC, magic) != 0) {
        return len;
    }
    size_t rest = len - magic - 12;
    uint32_t n;
    memcpy(&n, p + rest + 8, sizeof(n));
    n = be32toh(n);
    return n <= rest ? rest - n : len;
}
