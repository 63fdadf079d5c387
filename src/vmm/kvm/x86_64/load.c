/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c: kernel and initramfs into guest memory, without reading them.
 *
 * A vmlinux lies in its file as it lies in memory, page by page. So its pages are mapped privately
 * over guest memory: all machines of a host share one copy in the page cache, a page is copied only
 * when the guest writes to it, and a start does not depend on the kernel's size. What does not fit
 * (a segment at an odd offset, the end of the last page) is read. The initramfs is mapped the same
 * way, at the end of the lower memory.
 *
 * The kernel comes from the user, who may be wrong: every header is checked against the file and
 * against the guest's memory.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "vmm/kvm/x86_64/arch.h"

#define SEGMENTS_MAX 32
#define INITRAMFS_END 0x80000000u /* the kernel's initrd_addr_max, rounded */

static uint64_t page_up(uint64_t v)
{
    return (v + BX_PAGE - 1) & ~(uint64_t)(BX_PAGE - 1);
}

/* Fills [gpa, gpa + len) from the file: by mapping where the pages fall together, else by reading.
 * Memory is fresh, so what the mapping brings along behind the end is made zero again. */
static int place(struct bx_gmem *mem, int fd, uint64_t off, uint64_t gpa, uint64_t len)
{
    uint8_t *host = bx_gmem_at(mem, gpa, len);
    uint64_t whole = page_up(len);

    if (!host) {
        return -ENOSPC;
    }
    if (off % BX_PAGE == 0 && gpa % BX_PAGE == 0 && bx_gmem_at(mem, gpa, whole) &&
        mem->nmapped < BX_GMAPPED_MAX) {
        if (mmap(host, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
                 (off_t)off) == MAP_FAILED) {
            return -errno;
        }
        mem->mapped[mem->nmapped++] = (struct bx_gmapped){gpa, whole};
        if (whole > len) {
            memset(host + len, 0, whole - len);
        }
        return 0;
    }
    while (len > 0) {
        ssize_t n = pread(fd, host, len, (off_t)off);
        if (n <= 0) {
            return n < 0 ? -errno : -ENODATA;
        }
        host += n;
        off += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

static int bad_kernel(boxlite_error **err, const char *why)
{
    (void)bx_fail(err, BOXLITE_E_INVALID, "kernel: %s", why);
    bx_hint(err, "import the kernel with: boxlite kernel import FILE");
    return BOXLITE_E_INVALID;
}

static int read_headers(int fd, uint64_t file_size, Elf64_Ehdr *eh, Elf64_Phdr *ph,
                        boxlite_error **err)
{
    if (pread(fd, eh, sizeof(*eh), 0) != sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
        eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB ||
        eh->e_machine != EM_X86_64) {
        return bad_kernel(err, "not an x86-64 vmlinux (a compressed bzImage must be imported)");
    }
    if (eh->e_phentsize != sizeof(*ph) || eh->e_phnum == 0 || eh->e_phnum > SEGMENTS_MAX ||
        eh->e_phoff > file_size) {
        return bad_kernel(err, "damaged: bad program headers");
    }
    size_t len = eh->e_phnum * sizeof(*ph);
    if (pread(fd, ph, len, (off_t)eh->e_phoff) != (ssize_t)len) {
        return bad_kernel(err, "damaged: it is cut off");
    }
    return 0;
}

int bx_kernel_load(struct bx_gmem *mem, int fd, uint64_t *ret_entry, uint64_t *ret_end,
                   boxlite_error **err)
{
    Elf64_Phdr ph[SEGMENTS_MAX];
    Elf64_Ehdr eh;
    struct stat st;
    uint64_t end = 0;

    if (fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "kernel");
    }
    int r = read_headers(fd, (uint64_t)st.st_size, &eh, ph, err);
    for (unsigned i = 0; r == 0 && i < eh.e_phnum; i++) {
        const Elf64_Phdr *p = &ph[i];

        if (p->p_type != PT_LOAD || p->p_memsz == 0) {
            continue;
        }
        if (p->p_filesz > p->p_memsz || p->p_offset > (uint64_t)st.st_size ||
            p->p_filesz > (uint64_t)st.st_size - p->p_offset) {
            return bad_kernel(err, "damaged: a segment is cut off");
        }
        if (p->p_paddr < BX_KERNEL_MIN || !bx_gmem_at(mem, p->p_paddr, p->p_memsz)) {
            (void)bx_fail(err, BOXLITE_E_INVALID, "the kernel does not fit into %llu MiB of memory",
                          (unsigned long long)(mem->size >> 20));
            bx_hint(err, "give the box more memory");
            return BOXLITE_E_INVALID;
        }
        if (p->p_filesz > 0) {
            r = place(mem, fd, p->p_offset, p->p_paddr, p->p_filesz);
        }
        if (r < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, r, "loading the kernel");
        }
        end = p->p_paddr + p->p_memsz > end ? p->p_paddr + p->p_memsz : end;
    }
    if (r == 0 && !bx_gmem_at(mem, eh.e_entry, 1)) {
        return bad_kernel(err, "its entry point is outside of memory");
    }
    if (r == 0) {
        *ret_entry = eh.e_entry;
        *ret_end = end;
    }
    return r;
}

int bx_initramfs_load(struct bx_gmem *mem, int fd, uint64_t kernel_end, uint64_t *ret_gpa,
                      uint64_t *ret_size, boxlite_error **err)
{
    uint64_t top = mem->region[0].size < INITRAMFS_END ? mem->region[0].size : INITRAMFS_END;
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "initramfs");
    }
    uint64_t size = (uint64_t)st.st_size;
    if (size > top || ((top - size) & ~(uint64_t)(BX_PAGE - 1)) < page_up(kernel_end)) {
        (void)bx_fail(err, BOXLITE_E_INVALID, "kernel and initramfs do not fit into the memory");
        bx_hint(err, "give the box more memory");
        return BOXLITE_E_INVALID;
    }
    uint64_t gpa = (top - size) & ~(uint64_t)(BX_PAGE - 1);
    int r = size > 0 ? place(mem, fd, 0, gpa, size) : 0;
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "loading the initramfs");
    }
    *ret_gpa = gpa;
    *ret_size = size;
    return 0;
}
