/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arch.h: what the machine-independent part asks of x86-64. Another architecture brings the same
 * functions in a folder of its own.
 */
#ifndef BX_VMM_KVM_X86_64_ARCH_H
#define BX_VMM_KVM_X86_64_ARCH_H

#include <boxlite.h>
#include <linux/kvm.h>

#include "vmm/kvm/mem.h"
#include "vmm/kvm/x86_64/layout.h"

struct bx_boot_image {
    int kernel_fd;
    int initramfs_fd; /* -1: none */
    const char *cmdline;
    unsigned cpus, devices;
};

/* Before the first vCPU: irqchip, and what KVM wants to know of the address space. */
int bx_arch_vm_init(int vm_fd, boxlite_error **err);
/* Puts kernel, initramfs, tables and parameters into fresh memory. *ret_entry: where vCPU 0 starts. */
int bx_arch_load(struct bx_gmem *mem, const struct bx_boot_image *image, uint64_t *ret_entry,
                 boxlite_error **err);
/* The processor that a guest sees, for all vCPUs: allocated, caller frees. */
int bx_cpuid_get(int kvm_fd, int vm_fd, struct kvm_cpuid2 **ret, boxlite_error **err);
/* Sets it for one vCPU; changes the entries that name the vCPU. */
int bx_cpuid_set(int vcpu_fd, struct kvm_cpuid2 *cpuid, unsigned id, unsigned cpus,
                 boxlite_error **err);
/* Registers of a vCPU before its first instruction; entry only counts for vCPU 0. */
int bx_arch_vcpu_init(int vcpu_fd, unsigned id, uint64_t entry, boxlite_error **err);

/* Parts of bx_arch_load(), apart so that they can be tested. */
int bx_kernel_load(struct bx_gmem *mem, int fd, uint64_t *ret_entry, uint64_t *ret_end,
                   boxlite_error **err);
int bx_initramfs_load(struct bx_gmem *mem, int fd, uint64_t kernel_end, uint64_t *ret_gpa,
                      uint64_t *ret_size, boxlite_error **err);
/* Writes the tables at BX_ACPI_ADDR: the address of the root pointer, or 0 if they do not fit. */
uint64_t bx_acpi_write(const struct bx_gmem *mem, unsigned cpus, unsigned devices);

#endif
