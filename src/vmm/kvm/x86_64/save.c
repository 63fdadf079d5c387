/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.c: the processor's side of a snapshot: registers of a vCPU, interrupt controllers, clock.
 *
 * What is saved is a table of KVM's own structures, each with the ioctl that reads it and the one that
 * writes it. The order of writing matters: mp state and special registers before the local APIC, the
 * APIC before the MSRs (the timer's deadline counts only in deadline mode), pending events last. MSRs
 * are what KVM lists on this host; one that it gives and does not take is left as it is, as a fresh
 * vCPU has it. The guest's clock goes on from where it stood: the time between is none for it, and the
 * agent sets its wall clock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/error.h"
#include "vmm/kvm/snapshot.h"
#include "vmm/kvm/state.h"
#include "vmm/kvm/x86_64/save.h"

#define MSRS_MAX 512
#define CHIPS 3
#define MSR_TSC_DEADLINE 0x6e0u

/* In the order in which they are written back. */
static const struct {
    enum bx_record type;
    unsigned long get, set;
    size_t size;
} parts[] = {
    {BX_REC_MP, KVM_GET_MP_STATE, KVM_SET_MP_STATE, sizeof(struct kvm_mp_state)},
    {BX_REC_REGS, KVM_GET_REGS, KVM_SET_REGS, sizeof(struct kvm_regs)},
    {BX_REC_SREGS, KVM_GET_SREGS, KVM_SET_SREGS, sizeof(struct kvm_sregs)},
    {BX_REC_XCRS, KVM_GET_XCRS, KVM_SET_XCRS, sizeof(struct kvm_xcrs)},
    {BX_REC_XSAVE, KVM_GET_XSAVE, KVM_SET_XSAVE, sizeof(struct kvm_xsave)},
    {BX_REC_DEBUG, KVM_GET_DEBUGREGS, KVM_SET_DEBUGREGS, sizeof(struct kvm_debugregs)},
    {BX_REC_LAPIC, KVM_GET_LAPIC, KVM_SET_LAPIC, sizeof(struct kvm_lapic_state)},
};
#define PART_MAX sizeof(struct kvm_xsave)

static int failed(boxlite_error **err, const char *what)
{
    return bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "KVM: %s", what);
}

/* ---- MSRs ---------------------------------------------------------------------------------------- */

union one_msr { /* room for the one entry behind the head */
    struct kvm_msrs msrs;
    uint8_t room[sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)];
};

static bool msr_io(int vcpu_fd, unsigned long how, struct kvm_msr_entry *e)
{
    union one_msr one = {.msrs = {.nmsrs = 1}};

    memcpy(one.room + sizeof(struct kvm_msrs), e, sizeof(*e));
    bool good = ioctl(vcpu_fd, how, &one.msrs) == 1;
    memcpy(e, one.room + sizeof(struct kvm_msrs), sizeof(*e));
    return good;
}

static int save_msrs(int vcpu_fd, struct bx_state *out, boxlite_error **err)
{
    struct kvm_msr_entry entries[MSRS_MAX];
    struct kvm_msr_list *list = calloc(1, sizeof(*list) + MSRS_MAX * sizeof(list->indices[0]));
    size_t n = 0;

    if (!list) {
        return bx_fail_oom(err);
    }
    list->nmsrs = MSRS_MAX;
    int r =
        ioctl(BX_KVM_FD_KVM, KVM_GET_MSR_INDEX_LIST, list) < 0 ? failed(err, "listing MSRs") : 0;
    for (uint32_t i = 0; r == 0 && i < list->nmsrs; i++) {
        entries[n] = (struct kvm_msr_entry){.index = list->indices[i]};
        n += msr_io(vcpu_fd, KVM_GET_MSRS, &entries[n]);
    }
    free(list);
    if (r == 0) {
        bx_state_put(out, BX_REC_MSRS, entries, n * sizeof(entries[0]));
    }
    return r;
}

static int load_msrs(int vcpu_fd, struct bx_state *in, boxlite_error **err)
{
    struct kvm_msr_entry e, deadline = {.index = 0};
    const uint8_t *p;
    size_t len = 0;
    int r = bx_state_next(in, BX_REC_MSRS, &p, &len, err);

    if (r == 0 && (len % sizeof(e) || len > MSRS_MAX * sizeof(e))) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the saved state is damaged: MSRs");
    }
    for (size_t off = 0; r == 0 && off < len; off += sizeof(e)) {
        memcpy(&e, p + off, sizeof(e));
        if (e.index == MSR_TSC_DEADLINE) { /* counts from the time stamp, which may come later */
            deadline = e;
        } else {
            (void)msr_io(vcpu_fd, KVM_SET_MSRS, &e);
        }
    }
    if (r == 0 && deadline.index) {
        (void)msr_io(vcpu_fd, KVM_SET_MSRS, &deadline);
    }
    return r;
}

/* ---- a vCPU -------------------------------------------------------------------------------------- */

int bx_arch_vcpu_save(int vcpu_fd, struct bx_state *out, boxlite_error **err)
{
    struct kvm_vcpu_events events;
    uint8_t part[PART_MAX];
    int64_t khz = ioctl(vcpu_fd, KVM_GET_TSC_KHZ);
    int r;

    bx_state_put(out, BX_REC_TSC, &khz, sizeof(khz));
    for (size_t i = 0; i < BX_ARRAY_SIZE(parts); i++) {
        memset(part, 0, sizeof(part));
        if (ioctl(vcpu_fd, parts[i].get, part) < 0) {
            return failed(err, "reading a vCPU's registers");
        }
        bx_state_put(out, parts[i].type, part, parts[i].size);
    }
    r = save_msrs(vcpu_fd, out, err);
    if (r == 0 && ioctl(vcpu_fd, KVM_GET_VCPU_EVENTS, &events) < 0) {
        return failed(err, "reading a vCPU's events");
    }
    if (r == 0) {
        bx_state_put(out, BX_REC_EVENTS, &events, sizeof(events));
    }
    return r;
}

int bx_arch_vcpu_load(int vcpu_fd, struct bx_state *in, boxlite_error **err)
{
    struct kvm_vcpu_events events;
    uint8_t part[PART_MAX];
    int64_t khz = 0;
    int r = bx_state_get(in, BX_REC_TSC, &khz, sizeof(khz), err);

    if (r == 0 && khz > 0 && khz != ioctl(vcpu_fd, KVM_GET_TSC_KHZ) &&
        ioctl(vcpu_fd, KVM_SET_TSC_KHZ, (unsigned long)khz) < 0) {
        (void)bx_fail(err, BOXLITE_E_UNSUPPORTED,
                      "this host's clock rate is another than that of the snapshot's host");
        bx_hint(err, "restore it on the host that it was made on");
        return BOXLITE_E_UNSUPPORTED;
    }
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(parts); i++) {
        r = bx_state_get(in, parts[i].type, part, parts[i].size, err);
        if (r == 0 && ioctl(vcpu_fd, parts[i].set, part) < 0) {
            return failed(err, "writing a vCPU's registers");
        }
    }
    r = r < 0 ? r : load_msrs(vcpu_fd, in, err);
    r = r < 0 ? r : bx_state_get(in, BX_REC_EVENTS, &events, sizeof(events), err);
    if (r == 0 && ioctl(vcpu_fd, KVM_SET_VCPU_EVENTS, &events) < 0) {
        return failed(err, "writing a vCPU's events");
    }
    if (r == 0) {
        (void)ioctl(vcpu_fd, KVM_KVMCLOCK_CTRL); /* it stood still: no lock-up, if the guest asks */
    }
    return r;
}

/* ---- the machine --------------------------------------------------------------------------------- */

int bx_arch_vm_save(int vm_fd, struct bx_state *out, boxlite_error **err)
{
    struct kvm_clock_data clock;

    for (uint32_t i = 0; i < CHIPS; i++) {
        struct kvm_irqchip chip = {.chip_id = i};
        if (ioctl(vm_fd, KVM_GET_IRQCHIP, &chip) < 0) {
            return failed(err, "reading an interrupt controller");
        }
        bx_state_put(out, BX_REC_IRQCHIP, &chip, sizeof(chip));
    }
    if (ioctl(vm_fd, KVM_GET_CLOCK, &clock) < 0) {
        return failed(err, "reading the clock");
    }
    bx_state_put(out, BX_REC_CLOCK, &clock, sizeof(clock));
    return 0;
}

int bx_arch_vm_load(int vm_fd, struct bx_state *in, boxlite_error **err)
{
    struct kvm_clock_data saved, clock = {0};
    struct kvm_irqchip chip;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < CHIPS; i++) {
        r = bx_state_get(in, BX_REC_IRQCHIP, &chip, sizeof(chip), err);
        if (r == 0 && (chip.chip_id != i || ioctl(vm_fd, KVM_SET_IRQCHIP, &chip) < 0)) {
            return failed(err, "writing an interrupt controller");
        }
    }
    r = r < 0 ? r : bx_state_get(in, BX_REC_CLOCK, &saved, sizeof(saved), err);
    clock.clock = saved.clock;
    if (r == 0 && ioctl(vm_fd, KVM_SET_CLOCK, &clock) < 0) {
        return failed(err, "writing the clock");
    }
    return r;
}
