/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot.c: Linux' 64-bit boot protocol (Documentation/x86/boot.rst, "64-bit Boot Protocol").
 *
 * vCPU 0 starts at the kernel's entry in 64-bit mode, with the first GiB mapped as it is, flat
 * segments from a table with the selectors 0x10 and 0x18, interrupts off, and RSI at the struct
 * boot_params. There is no firmware; what one would have done is these few stores. The other vCPUs
 * wait for the kernel to wake them (INIT, SIPI), which KVM does by itself.
 */
#include <asm/bootparam.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/random.h"
#include "vmm/kvm/x86_64/arch.h"

#define PTE_P_W 0x3u
#define PTE_LARGE 0x80u
#define LARGE_PAGE (2u << 20)
#define CR0_PE_ET_NE_WP_PG 0x80010031u
#define CR4_PAE 0x20u
#define EFER_LME_LMA 0x500u
#define SELECTOR_CODE 0x10
#define SELECTOR_DATA 0x18
#define SEED_SIZE 32
#define SETUP_RNG_SEED_TYPE 9 /* SETUP_RNG_SEED, Linux 6.0 and later; others skip it */
#define E820_USABLE 1
#define E820_ACPI_TABLES 3

#define MSR_MISC_ENABLE 0x1a0u
#define MSR_MTRR_DEF_TYPE 0x2ffu
#define MISC_ENABLE_FAST_STRING 1u
#define MTRR_ENABLED_WRITE_BACK 0x806u

int bx_arch_vm_init(int vm_fd, boxlite_error **err)
{
    uint64_t identity = BX_IDENTITY_ADDR;

    if (ioctl(vm_fd, KVM_SET_TSS_ADDR, (unsigned long)BX_TSS_ADDR) < 0 ||
        ioctl(vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity) < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: the TSS address");
    }
    if (ioctl(vm_fd, KVM_CREATE_IRQCHIP, 0) < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: making the interrupt controller");
    }
    return 0;
}

/* ---- memory -------------------------------------------------------------------------------------- */

static void write_page_tables(const struct bx_gmem *mem)
{
    uint64_t *pml4 = bx_gmem_at(mem, BX_TABLES_ADDR, 3 * BX_PAGE);
    uint64_t *pdpt = pml4 + 512, *pd = pdpt + 512;

    pml4[0] = (BX_TABLES_ADDR + BX_PAGE) | PTE_P_W;
    pdpt[0] = (BX_TABLES_ADDR + 2 * BX_PAGE) | PTE_P_W;
    for (uint64_t i = 0; i < 512; i++) {
        pd[i] = i * LARGE_PAGE | PTE_P_W | PTE_LARGE;
    }
}

static void write_gdt(const struct bx_gmem *mem)
{
    static const uint64_t gdt[] = {0, 0, 0x00af9b000000ffff, 0x00cf93000000ffff};

    memcpy(bx_gmem_at(mem, BX_GDT_ADDR, sizeof(gdt)), gdt, sizeof(gdt));
}

static void add_e820(struct boot_params *p, uint64_t start, uint64_t end, uint32_t type)
{
    if (start < end) {
        p->e820_table[p->e820_entries++] =
            (struct boot_e820_entry){.addr = start, .size = end - start, .type = type};
    }
}

static void write_memory_map(const struct bx_gmem *mem, struct boot_params *p)
{
    add_e820(p, 0, BX_LOW_END, E820_USABLE);
    add_e820(p, BX_ACPI_ADDR, BX_ACPI_END, E820_ACPI_TABLES);
    add_e820(p, BX_KERNEL_MIN, mem->region[0].size, E820_USABLE);
    if (mem->n > 1) {
        add_e820(p, mem->region[1].gpa, mem->region[1].gpa + mem->region[1].size, E820_USABLE);
    }
}

/* Fresh random bytes from the host: the guest's pool is full from its first instruction on. */
static void write_seed(const struct bx_gmem *mem, struct boot_params *p)
{
    struct setup_data *data = bx_gmem_at(mem, BX_SEED_ADDR, sizeof(*data) + SEED_SIZE);

    *data = (struct setup_data){.type = SETUP_RNG_SEED_TYPE, .len = SEED_SIZE};
    bx_random((uint8_t *)data + sizeof(*data), SEED_SIZE);
    p->hdr.setup_data = BX_SEED_ADDR;
}

int bx_arch_load(struct bx_gmem *mem, const struct bx_boot_image *image, uint64_t *ret_entry,
                 boxlite_error **err)
{
    struct boot_params *p = bx_gmem_at(mem, BX_PARAMS_ADDR, sizeof(*p));
    size_t cmdline_len = strlen(image->cmdline);
    uint64_t kernel_end = 0, initramfs = 0, initramfs_size = 0;

    if (!p || cmdline_len >= BX_CMDLINE_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "the kernel command line is over %u bytes",
                       BX_CMDLINE_MAX - 1);
    }
    int r = bx_kernel_load(mem, image->kernel_fd, ret_entry, &kernel_end, err);
    if (r == 0 && image->initramfs_fd >= 0) {
        r = bx_initramfs_load(mem, image->initramfs_fd, kernel_end, &initramfs, &initramfs_size,
                              err);
    }
    if (r < 0) {
        return r;
    }
    write_page_tables(mem);
    write_gdt(mem);
    memcpy(bx_gmem_at(mem, BX_CMDLINE_ADDR, BX_CMDLINE_MAX), image->cmdline, cmdline_len + 1);
    p->hdr.boot_flag = 0xaa55;
    p->hdr.header = 0x53726448; /* "HdrS" */
    p->hdr.type_of_loader = 0xff;
    p->hdr.kernel_alignment = 0x1000000;
    p->hdr.cmd_line_ptr = BX_CMDLINE_ADDR;
    p->hdr.cmdline_size = (uint32_t)cmdline_len;
    p->hdr.ramdisk_image = (uint32_t)initramfs;
    p->hdr.ramdisk_size = (uint32_t)initramfs_size;
    p->acpi_rsdp_addr = bx_acpi_write(mem, image->cpus, image->devices);
    write_memory_map(mem, p);
    write_seed(mem, p);
    return p->acpi_rsdp_addr ? 0 : bx_fail(err, BOXLITE_E_ENGINE, "the ACPI tables do not fit");
}

/* ---- registers ----------------------------------------------------------------------------------- */

static int set_special(int vcpu_fd)
{
    const struct kvm_segment code = {.limit = 0xffffffff,
                                     .selector = SELECTOR_CODE,
                                     .type = 11,
                                     .present = 1,
                                     .s = 1,
                                     .l = 1,
                                     .g = 1};
    const struct kvm_segment data = {.limit = 0xffffffff,
                                     .selector = SELECTOR_DATA,
                                     .type = 3,
                                     .present = 1,
                                     .s = 1,
                                     .db = 1,
                                     .g = 1};
    struct kvm_sregs s;

    if (ioctl(vcpu_fd, KVM_GET_SREGS, &s) < 0) {
        return -errno;
    }
    s.cs = code;
    s.ds = s.es = s.fs = s.gs = s.ss = data;
    s.gdt = (struct kvm_dtable){.base = BX_GDT_ADDR, .limit = 31};
    s.cr0 = CR0_PE_ET_NE_WP_PG;
    s.cr3 = BX_TABLES_ADDR;
    s.cr4 = CR4_PAE;
    s.efer = EFER_LME_LMA;
    return ioctl(vcpu_fd, KVM_SET_SREGS, &s) < 0 ? -errno : 0;
}

/* What a firmware would have set: memory is cached, string instructions are fast. A processor without
 * one of these registers is none the worse. */
static void set_msrs(int vcpu_fd)
{
    static const struct kvm_msr_entry entries[] = {
        {.index = MSR_MTRR_DEF_TYPE, .data = MTRR_ENABLED_WRITE_BACK},
        {.index = MSR_MISC_ENABLE, .data = MISC_ENABLE_FAST_STRING},
    };
    union { /* room for the one entry behind the head */
        struct kvm_msrs msrs;
        uint8_t room[sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)];
    } one = {.msrs = {.nmsrs = 1}};

    for (size_t i = 0; i < BX_ARRAY_SIZE(entries); i++) {
        memcpy(one.room + sizeof(struct kvm_msrs), &entries[i], sizeof(entries[i]));
        (void)ioctl(vcpu_fd, KVM_SET_MSRS, &one.msrs);
    }
}

int bx_arch_vcpu_init(int vcpu_fd, unsigned id, uint64_t entry, boxlite_error **err)
{
    const struct kvm_regs regs = {.rip = entry, .rsi = BX_PARAMS_ADDR, .rflags = 2};
    int r = 0;

    set_msrs(vcpu_fd);
    if (id == 0) {
        r = set_special(vcpu_fd);
        if (r == 0 && ioctl(vcpu_fd, KVM_SET_REGS, &regs) < 0) {
            r = -errno;
        }
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_ENGINE, r, "KVM: setting registers") : 0;
}
