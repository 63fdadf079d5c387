/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h: where things are in the guest's address space, and which line is whose.
 *
 *     0x00000500  descriptor table            0x000a0000  hole, as on every PC
 *     0x00007000  boot_params                 0x000e0000  ACPI tables
 *     0x00008000  random seed for the kernel  0x00100000  memory: kernel, at its top the initramfs
 *     0x00009000  page tables, 6 pages        0xc0000000  end of the lower memory at most
 *     0x00020000  command line                0xd0000000  virtio devices, a page each
 *                                             0xfec00000  IOAPIC  0xfee00000  local APIC (both KVM's)
 *                                             0x100000000 upper memory
 */
#ifndef BX_VMM_KVM_X86_64_LAYOUT_H
#define BX_VMM_KVM_X86_64_LAYOUT_H

#define BX_GDT_ADDR 0x500u
#define BX_PARAMS_ADDR 0x7000u
#define BX_SEED_ADDR 0x8000u
#define BX_TABLES_ADDR 0x9000u
#define BX_CMDLINE_ADDR 0x20000u
#define BX_CMDLINE_MAX 2048u
#define BX_LOW_END 0xa0000u
#define BX_ACPI_ADDR 0xe0000u
#define BX_ACPI_END 0x100000u
#define BX_KERNEL_MIN 0x100000u
#define BX_TSS_ADDR 0xfffbd000u      /* three pages that KVM needs on Intel */
#define BX_IDENTITY_ADDR 0xfffbc000u /* one more */

#define BX_MMIO_BASE 0xd0000000u /* device i at BASE + i pages, interrupt line IRQ_BASE + i */
#define BX_IRQ_BASE 5u
#define BX_DEVICES_MAX 10u

#define BX_POWER_PORT 0x600u /* ACPI: sleep control, sleep status, reset */
#define BX_POWER_SLEEP 0x600u
#define BX_POWER_STATUS 0x601u
#define BX_POWER_RESET 0x602u
#define BX_SLEEP_OFF (5u << 2 | 1u << 5) /* SLP_TYP of \_S5, SLP_EN */
#define BX_RESET_VALUE 1u

#endif
