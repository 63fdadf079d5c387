/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpuid.c: the processor that a guest sees.
 *
 * It is what KVM can offer on this host, less what a guest here cannot keep or has no use for:
 * nested virtualization (a second hypervisor's attack surface), performance counters and debug stores
 * (nobody multiplexes them), monitor/mwait and waitpkg (they hold a host CPU), thermal and power
 * management, SGX, processor trace, AMX (8 KiB of state per thread), five-level paging (longer page
 * walks for memory that no box has). The topology is made up: one package, `cpus` cores, no threads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "vmm/kvm/x86_64/arch.h"

#define ENTRIES_MAX 256
#define BIT(n) (1u << (n))

enum reg { EAX, EBX, ECX, EDX };

static uint32_t *reg_of(struct kvm_cpuid_entry2 *e, enum reg r)
{
    uint32_t *const regs[] = {&e->eax, &e->ebx, &e->ecx, &e->edx};

    return regs[r];
}

/* Feature bits that are taken away: function, subleaf, register. */
static const struct {
    uint32_t function, index;
    enum reg reg;
    uint32_t bits;
} removed[] = {
    /* MONITOR, DS-CPL, VMX, SMX, EST, TM2, xTPR, PDCM */
    {1, 0, ECX, BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(14) | BIT(15)},
    {1, 0, EDX, BIT(21) | BIT(22) | BIT(29) | BIT(31)}, /* DS, ACPI, TM, PBE */
    {6, 0, EAX, ~BIT(2)},                               /* all but ARAT */
    {6, 0, EBX, ~0u},
    {6, 0, ECX, ~0u},
    {7, 0, EBX, BIT(2) | BIT(4) | BIT(11) | BIT(14) | BIT(25)}, /* SGX, HLE, RTM, MPX, PT */
    {7, 0, ECX, BIT(5) | BIT(16) | BIT(30)},                    /* WAITPKG, LA57, SGX_LC */
    {7, 0, EDX, BIT(15) | BIT(18) | BIT(19) | BIT(22) | BIT(24) | BIT(25)}, /* …, LBR, AMX */
    {0xd, 0, EAX, BIT(17) | BIT(18)},                                       /* AMX state */
    /* SVM, IBS, SKINIT, WDT, LWP, PERFCTR_CORE, PERFCTR_NB, BPEXT, PERFTSC, PERFCTR_LLC, MWAITX */
    {0x80000001, 0, ECX,
     BIT(2) | BIT(10) | BIT(12) | BIT(13) | BIT(15) | BIT(23) | BIT(24) | BIT(26) | BIT(27) |
         BIT(28) | BIT(29)},
};

/* Leaves that are taken away wholly: monitor, performance counters, SGX, trace, AMX, SVM, IBS, SEV,
 * AMD performance counters. */
static const uint32_t dropped[] = {5,    0xa,        0x12,       0x14,       0x1d,
                                   0x1e, 0x8000000a, 0x8000001b, 0x8000001f, 0x80000022};

static bool is_dropped(const struct kvm_cpuid_entry2 *e)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(dropped); i++) {
        if (e->function == dropped[i]) {
            return true;
        }
    }
    return e->function == 0xd && (e->index == 17 || e->index == 18);
}

static void filter(struct kvm_cpuid2 *c, bool deadline_timer)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->nent; i++) {
        struct kvm_cpuid_entry2 *e = &c->entries[i];

        for (size_t j = 0; j < BX_ARRAY_SIZE(removed); j++) {
            if (e->function == removed[j].function && e->index == removed[j].index) {
                *reg_of(e, removed[j].reg) &= ~removed[j].bits;
            }
        }
        if (e->function == 1) { /* hypervisor; KVM emulates x2APIC and the timer on every host */
            e->ecx |= BIT(31) | BIT(21) | (deadline_timer ? BIT(24) : 0);
        }
        if (!is_dropped(e)) {
            c->entries[n++] = *e;
        }
    }
    c->nent = n;
}

int bx_cpuid_get(int kvm_fd, int vm_fd, struct kvm_cpuid2 **ret, boxlite_error **err)
{
    struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + ENTRIES_MAX * sizeof(c->entries[0]));

    if (!c) {
        return bx_fail_oom(err);
    }
    c->nent = ENTRIES_MAX;
    if (ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, c) < 0) {
        int r = bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: asking for the processor");
        free(c);
        return r;
    }
    filter(c, ioctl(vm_fd, KVM_CHECK_EXTENSION, KVM_CAP_TSC_DEADLINE_TIMER) > 0);
    *ret = c;
    return 0;
}

/* ---- one vCPU ------------------------------------------------------------------------------------ */

static uint32_t bits_for(unsigned cpus)
{
    uint32_t bits = 0;

    while ((1u << bits) < cpus) {
        bits++;
    }
    return bits;
}

/* Who shares a cache (leaves 4 and 0x8000001d): the first two levels a core's own, the third all's. */
static void set_cache(struct kvm_cpuid_entry2 *e, unsigned cpus)
{
    uint32_t level = e->eax >> 5 & 7;
    uint32_t sharing = level >= 3 ? (1u << bits_for(cpus)) - 1 : 0;
    uint32_t cores = e->function == 4 ? (1u << bits_for(cpus)) - 1 : 0;

    if ((e->eax & 0x1f) != 0) {
        e->eax = (e->eax & 0x3fff) | sharing << 14 | cores << 26;
    }
}

/* Leaves 0xb and 0x1f: level 0 a thread of a core, level 1 a core of the package. */
static void set_topology(struct kvm_cpuid_entry2 *e, unsigned id, unsigned cpus)
{
    bool core = e->index == 1, known = e->index <= 1;

    e->eax = core ? bits_for(cpus) : 0;
    e->ebx = core ? cpus : known;
    e->ecx = e->index | (known ? (core ? 2u : 1u) << 8 : 0);
    e->edx = id;
}

static void personalize(struct kvm_cpuid_entry2 *e, unsigned id, unsigned cpus)
{
    switch (e->function) {
    case 1:
        e->ebx = (e->ebx & 0x0000ffff) | (1u << bits_for(cpus)) << 16 | id << 24;
        e->edx = (e->edx & ~BIT(28)) | (cpus > 1 ? BIT(28) : 0);
        break;
    case 4:
    case 0x8000001d:
        set_cache(e, cpus);
        break;
    case 0xb:
    case 0x1f:
        set_topology(e, id, cpus);
        break;
    case 0x80000008:
        e->ecx = bits_for(cpus) << 12 | (cpus - 1);
        break;
    case 0x8000001e:
        e->eax = id;
        e->ebx = id;
        e->ecx = 0;
        break;
    default:
        break;
    }
}

int bx_cpuid_set(int vcpu_fd, struct kvm_cpuid2 *cpuid, unsigned id, unsigned cpus,
                 boxlite_error **err)
{
    for (uint32_t i = 0; i < cpuid->nent; i++) {
        personalize(&cpuid->entries[i], id, cpus);
    }
    if (ioctl(vcpu_fd, KVM_SET_CPUID2, cpuid) < 0) {
        return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: setting the processor");
    }
    return 0;
}
