/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acpi.c: the tables by which a stock kernel finds processors, devices and the power switch.
 *
 * Distribution kernels have neither MP tables nor virtio_mmio.device= words built in, so the machine
 * is described by ACPI, in its hardware-reduced form: no PIC, no PIT, no PM timer, no SCI; sleep and
 * reset are registers. The tables: RSDP → XSDT → FADT (→ DSDT) and MADT. The DSDT is a flat list in
 * AML of the serial port and the virtio devices (LNRO0005: a memory window and an edge-triggered
 * line), and \_S5 for powering off. ACPI 6.4, sections 5.2 and 20.2.
 */
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "vmm/kvm/dev/serial.h"
#include "vmm/kvm/virtio.h"
#include "vmm/kvm/x86_64/arch.h"

#define TABLES_MAX (BX_ACPI_END - BX_ACPI_ADDR)
#define AML_MAX 8192
#define IOAPIC_ADDR 0xfec00000u
#define LAPIC_ADDR 0xfee00000u
#define FADT_REVISION 6

struct header {
    char signature[4];
    uint32_t length;
    uint8_t revision, checksum;
    char oem[6], table[8];
    uint32_t oem_revision;
    char creator[4];
    uint32_t creator_revision;
} __attribute__((packed));

struct gas { /* generic address structure */
    uint8_t space, width, offset, access;
    uint64_t address;
} __attribute__((packed));
#define GAS_PORT(p)                                                                                \
    {                                                                                              \
        .space = 1, .width = 8, .access = 1, .address = (p)                                        \
    }

struct fadt {
    struct header h;
    uint32_t facs, dsdt;
    uint8_t legacy1[65];
    uint16_t boot_arch;
    uint8_t reserved;
    uint32_t flags;
    struct gas reset;
    uint8_t reset_value;
    uint16_t arm_boot_arch;
    uint8_t minor;
    uint64_t x_facs, x_dsdt;
    uint8_t legacy2[96];
    struct gas sleep_control, sleep_status;
    uint64_t hypervisor;
} __attribute__((packed));
_Static_assert(sizeof(struct fadt) == 276, "FADT of revision 6");

#define FADT_NO_VGA_NO_RTC (1u << 2 | 1u << 5)
#define FADT_WBINVD 1u
#define FADT_RESET (1u << 10)
#define FADT_HW_REDUCED (1u << 20)

struct rsdp {
    char signature[8];
    uint8_t checksum;
    char oem[6];
    uint8_t revision;
    uint32_t rsdt, length;
    uint64_t xsdt;
    uint8_t checksum_all, reserved[3];
} __attribute__((packed));

/* ---- AML: a buffer that remembers a failure ------------------------------------------------------ */

struct aml {
    struct bx_buf buf;
    bool failed;
};

static void put(struct aml *a, const void *data, size_t len)
{
    a->failed |= bx_buf_append(&a->buf, data, len) < 0;
}

static void put8(struct aml *a, uint8_t v)
{
    put(a, &v, sizeof(v));
}

static void put32(struct aml *a, uint32_t v)
{
    put(a, &v, sizeof(v));
}

/* An object with a length in front: opcode, length, content. Two bytes of length, always. */
static size_t begin(struct aml *a, const void *op, size_t op_len)
{
    put(a, op, op_len);
    size_t at = a->buf.len;
    put(a, "\0\0", 2);
    return at;
}

static void end(struct aml *a, size_t at)
{
    size_t len = a->buf.len - at;

    if (!a->failed) {
        bx_buf_data(&a->buf)[at] = (uint8_t)(0x40 | (len & 0xf));
        bx_buf_data(&a->buf)[at + 1] = (uint8_t)(len >> 4);
    }
}

static void put_name(struct aml *a, const char *name)
{
    put8(a, 0x08);
    put(a, name, 4);
}

static void put_uid(struct aml *a, unsigned uid)
{
    put_name(a, "_UID");
    put8(a, 0x0a);
    put8(a, (uint8_t)uid);
}

/* _CRS: a buffer of resource descriptors behind its own length. */
static void put_resources(struct aml *a, const uint8_t *res, size_t len)
{
    put_name(a, "_CRS");
    size_t at = begin(a, "\x11", 1);
    put8(a, 0x0a);
    put8(a, (uint8_t)(len + 2));
    put(a, res, len);
    put(a, "\x79\0", 2); /* end tag, no checksum */
    end(a, at);
}

static void put_serial(struct aml *a)
{
    const uint8_t res[] = {
        0x47,
        1,
        BX_SERIAL_PORT & 0xff,
        BX_SERIAL_PORT >> 8,
        BX_SERIAL_PORT & 0xff,
        BX_SERIAL_PORT >> 8,
        1,
        BX_SERIAL_PORTS, /* I/O ports */
        0x22,
        1 << BX_SERIAL_IRQ,
        0, /* edge-triggered interrupt */
    };

    size_t at = begin(a, "\x5b\x82", 2);
    put(a, "COM1", 4);
    put_name(a, "_HID");
    put8(a, 0x0c);
    put32(a, 0x0105d041); /* PNP0501 */
    put_uid(a, 0);
    put_resources(a, res, sizeof(res));
    end(a, at);
}

static void put_virtio(struct aml *a, unsigned i)
{
    char name[5] = "VR00";
    uint32_t base = BX_MMIO_BASE + i * BX_VIRTIO_SPAN;
    uint32_t span = BX_VIRTIO_SPAN, irq = BX_IRQ_BASE + i;
    uint8_t res[12 + 9] = {0x86, 9, 0, 1}; /* 32-bit memory, writable */
    uint8_t line[] = {0x89, 6, 0, 3, 1};   /* interrupt: consumer, edge, active high */

    memcpy(res + 4, &base, 4);
    memcpy(res + 8, &span, 4);
    memcpy(res + 12, line, sizeof(line));
    memcpy(res + 17, &irq, 4);
    name[2] = (char)('0' + i / 10);
    name[3] = (char)('0' + i % 10);
    size_t at = begin(a, "\x5b\x82", 2);
    put(a, name, 4);
    put_name(a, "_HID");
    put(a, "\x0dLNRO0005", 10);
    put_uid(a, i);
    put_name(a, "_CCA"); /* cache-coherent */
    put8(a, 1);
    put_resources(a, res, sizeof(res));
    end(a, at);
}

static void put_dsdt(struct aml *a, unsigned devices)
{
    put_name(a, "_S5_");
    size_t at = begin(a, "\x12", 1);
    put(a, "\4\x0a\5\0\0\0", 6); /* four elements: 5, 0, 0, 0 */
    end(a, at);
    at = begin(a, "\x10", 1);
    put(a, "\\_SB_", 5);
    put_serial(a);
    for (unsigned i = 0; i < devices; i++) {
        put_virtio(a, i);
    }
    end(a, at);
}

/* ---- tables -------------------------------------------------------------------------------------- */

/* Where the next table goes. */
struct out {
    uint8_t *base;
    uint32_t used;
};

static uint8_t sum(const void *data, size_t len)
{
    const uint8_t *p = data;
    uint8_t s = 0;

    while (len-- > 0) {
        s = (uint8_t)(s + *p++);
    }
    return (uint8_t)-s;
}

/* Room for a table with its header; finish_table() once it is filled. NULL when it is full. */
static void *add_table(struct out *o, const char *signature, uint8_t revision, size_t len)
{
    uint32_t at = (o->used + 15) & ~15u;

    if (at + len > TABLES_MAX) {
        return NULL;
    }
    o->used = at + (uint32_t)len;
    struct header *h = (struct header *)(o->base + at);
    memset(h, 0, len);
    *h = (struct header){.length = (uint32_t)len,
                         .revision = revision,
                         .oem = "BOXLIT",
                         .table = "BOXLITE",
                         .creator = "BXLT"};
    memcpy(h->signature, signature, 4);
    return h;
}

static uint64_t finish_table(const struct out *o, struct header *h)
{
    h->checksum = sum(h, h->length);
    return BX_ACPI_ADDR + (uint64_t)((uint8_t *)h - o->base);
}

static uint64_t add_dsdt(struct out *o, unsigned devices)
{
    struct aml a = {.buf = BX_BUF_INIT(AML_MAX)};
    uint64_t addr = 0;

    put_dsdt(&a, devices);
    uint8_t *t = a.failed ? NULL : add_table(o, "DSDT", 2, sizeof(struct header) + a.buf.len);
    if (t) {
        memcpy(t + sizeof(struct header), bx_buf_data(&a.buf), a.buf.len);
        addr = finish_table(o, (struct header *)t);
    }
    bx_buf_done(&a.buf);
    return addr;
}

static uint64_t add_fadt(struct out *o, uint64_t dsdt)
{
    const struct gas control = GAS_PORT(BX_POWER_SLEEP), status = GAS_PORT(BX_POWER_STATUS),
                     reset = GAS_PORT(BX_POWER_RESET);
    struct fadt *f = dsdt ? add_table(o, "FACP", FADT_REVISION, sizeof(*f)) : NULL;

    if (!f) {
        return 0;
    }
    f->boot_arch = FADT_NO_VGA_NO_RTC;
    f->flags = FADT_WBINVD | FADT_RESET | FADT_HW_REDUCED;
    f->reset = reset;
    f->reset_value = BX_RESET_VALUE;
    f->minor = 4;
    f->x_dsdt = dsdt;
    f->sleep_control = control;
    f->sleep_status = status;
    return finish_table(o, &f->h);
}

static uint64_t add_madt(struct out *o, unsigned cpus)
{
    const uint32_t lapic[2] = {LAPIC_ADDR, 0};
    const uint32_t ioapic[2] = {IOAPIC_ADDR, 0};
    uint8_t *t = add_table(o, "APIC", 5, sizeof(struct header) + 8 + 8 * cpus + 12);

    if (!t) {
        return 0;
    }
    uint8_t *p = t + sizeof(struct header);
    memcpy(p, lapic, sizeof(lapic));
    p += sizeof(lapic);
    for (unsigned i = 0; i < cpus; i++, p += 8) { /* local APIC, enabled */
        const uint8_t entry[8] = {0, 8, (uint8_t)i, (uint8_t)i, 1};
        memcpy(p, entry, sizeof(entry));
    }
    p[0] = 1; /* IOAPIC 0, lines from 0 */
    p[1] = 12;
    memcpy(p + 4, ioapic, sizeof(ioapic));
    return finish_table(o, (struct header *)t);
}

static uint64_t add_xsdt(struct out *o, uint64_t fadt, uint64_t madt)
{
    const uint64_t tables[2] = {fadt, madt};
    uint8_t *t =
        fadt && madt ? add_table(o, "XSDT", 1, sizeof(struct header) + sizeof(tables)) : NULL;

    if (!t) {
        return 0;
    }
    memcpy(t + sizeof(struct header), tables, sizeof(tables));
    return finish_table(o, (struct header *)t);
}

uint64_t bx_acpi_write(const struct bx_gmem *mem, unsigned cpus, unsigned devices)
{
    struct out o = {bx_gmem_at(mem, BX_ACPI_ADDR, TABLES_MAX), sizeof(struct rsdp)};
    struct rsdp r = {.signature = {'R', 'S', 'D', ' ', 'P', 'T', 'R', ' '},
                     .oem = {'B', 'O', 'X', 'L', 'I', 'T'},
                     .revision = 2,
                     .length = sizeof(r)};

    if (!o.base) {
        return 0;
    }
    uint64_t fadt = add_fadt(&o, add_dsdt(&o, devices));
    r.xsdt = add_xsdt(&o, fadt, add_madt(&o, cpus));
    r.checksum = sum(&r, 20);
    r.checksum_all = sum(&r, sizeof(r));
    memcpy(o.base, &r, sizeof(r));
    return r.xsdt ? BX_ACPI_ADDR : 0;
}
