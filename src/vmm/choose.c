/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.c: which engine a box runs on.
 */
#include "base/error.h"
#include "base/str.h"
#include "vmm/kvm/engine.h"
#include "vmm/kvm/launch.h"
#include "vmm/probe.h"
#include "vmm/qemu/launch.h"
#include "vmm/qemu/qemu.h"
#include "vmm/tsc.h"
#include "vmm/vmm.h"

static bool kvm_usable(int cache_fd, struct bx_kvm_verdict *verdict)
{
    bx_kvm_probe(cache_fd, false, verdict);
    return verdict->state == BX_KVM_USABLE;
}

static int need_qemu(boxlite_error **err)
{
    _cleanup_free_ char *program = NULL;
    int r = bx_qemu_program(&program, err);

    if (r == 0) {
        bx_tsc_begin();
    }
    return r;
}

/* QEMU with KVM if it is usable, else with its own translator. */
static int choose_qemu(int cache_fd, const struct bx_vmm_ops **ret, boxlite_error **err)
{
    struct bx_kvm_verdict verdict;
    int r = need_qemu(err);

    if (r == 0) {
        *ret = kvm_usable(cache_fd, &verdict) ? &bx_qemu_kvm_ops : &bx_qemu_tcg_ops;
    }
    return r;
}

/* Our own VMM if KVM is usable and the program is there, else QEMU. */
static int choose_best(int cache_fd, const struct bx_vmm_ops **ret, boxlite_error **err)
{
    _cleanup_free_ char *program = NULL;
    struct bx_kvm_verdict verdict;

    if (kvm_usable(cache_fd, &verdict) && bx_kvm_program(&program, NULL) == 0) {
        *ret = &bx_kvm_ops;
        return 0;
    }
    return choose_qemu(cache_fd, ret, err);
}

static int choose_tcg(int cache_fd, const struct bx_vmm_ops **ret, boxlite_error **err)
{
    int r = need_qemu(err);

    if (r == 0) {
        *ret = &bx_qemu_tcg_ops;
    }
    return r;
}

static int need_kvm(int cache_fd, boxlite_error **err)
{
    struct bx_kvm_verdict verdict;

    if (kvm_usable(cache_fd, &verdict)) {
        return 0;
    }
    (void)bx_fail(err, BOXLITE_E_UNSUPPORTED, "KVM is not usable here: %s", verdict.detail);
    bx_hint(err, "use the engine 'auto' or 'qemu-tcg'");
    return BOXLITE_E_UNSUPPORTED;
}

static int choose_kvm(int cache_fd, const struct bx_vmm_ops **ret, boxlite_error **err)
{
    int r = need_kvm(cache_fd, err);

    r = r < 0 ? r : need_qemu(err);
    if (r == 0) {
        *ret = &bx_qemu_kvm_ops;
    }
    return r;
}

static int choose_own(int cache_fd, const struct bx_vmm_ops **ret, boxlite_error **err)
{
    _cleanup_free_ char *program = NULL;
    int r = need_kvm(cache_fd, err);

    r = r < 0 ? r : bx_kvm_program(&program, err);
    if (r == 0) {
        *ret = &bx_kvm_ops;
    }
    return r;
}

int bx_engine_choose(const char *asked, int cache_fd, const struct bx_vmm_ops **ret,
                     boxlite_error **err)
{
    static const struct {
        const char *name;
        int (*choose)(int cache_fd, const struct bx_vmm_ops **ret, boxlite_error **err);
    } engines[] = {
        {"auto", choose_best},    {"qemu", choose_qemu}, {"qemu-tcg", choose_tcg},
        {"qemu-kvm", choose_kvm}, {"kvm", choose_own},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(engines); i++) {
        if (bx_streq(asked, engines[i].name)) {
            return engines[i].choose(cache_fd, ret, err);
        }
    }
    _cleanup_free_ char *shown = bx_escape(asked, strlen(asked), 64);
    (void)bx_fail(err, BOXLITE_E_INVALID, "no engine is called '%s'", shown ? shown : "?");
    bx_hint(err, "engines are auto, qemu, qemu-tcg, qemu-kvm and kvm");
    return BOXLITE_E_INVALID;
}
