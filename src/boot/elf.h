/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf.h: what must be known of two kinds of ELF file, a kernel and a module. Both come from a file
 * that is not trusted: every offset is checked before it is followed, and nothing is modified.
 */
#ifndef BX_BOOT_ELF_H
#define BX_BOOT_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bx_elf_kernel {
    bool pvh;          /* has the PVH entry point that engines start at */
    char release[128]; /* from its "Linux version" banner; "" if there is none */
};

/* -ENOEXEC: not an x86-64 ELF program; -EBADMSG: cut off or damaged. */
int bx_elf_kernel(const void *data, size_t len, struct bx_elf_kernel *ret);
bool bx_elf_is(const void *data, size_t len);
/* The value of the n-th KEY=VALUE in a module's .modinfo (borrowed, NUL-terminated), or NULL. */
const char *bx_elf_modinfo(const void *data, size_t len, const char *key, size_t n);
/* Length of a module without the signature that is appended to it. */
size_t bx_elf_unsigned_len(const void *data, size_t len);

#endif
