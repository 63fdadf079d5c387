/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The QEMU engine's life cycle: what every engine promises (vmm_engine.h), and what is QEMU's own.
 */
#include "base/spawn.h"
#include "harness.h"
#include "vmm/qemu/qemu.h"
#include "vmm_guest.h"

#define ENGINE bx_qemu_tcg_ops
#define ENGINE_PROCESS "qemu"

static const struct act acts[] = {
    [HALT] = {{0xf4, 0xeb, 0xfd}, 3},
    /* movb $0x34, 0xfea00200: S5 into microvm's ACPI sleep control register */
    [POWER_OFF] = {{0xc6, 0x05, 0x00, 0x02, 0xa0, 0xfe, 0x34, 0xf4, 0xeb, 0xfd}, 10},
    /* lidt of an empty table, int3 */
    [TRIPLE_FAULT] = {{0x0f, 0x01, 0x1d, ZEROS_OFF & 0xff, ZEROS_OFF >> 8, LOAD >> 16, 0x00, 0xcc},
                      8},
};

static void need_engine(void)
{
    _cleanup_free_ char *program = bx_find_program("qemu-system-x86_64");

    if (!program) {
        SKIP("qemu-system-x86_64 is not installed");
    }
}

#include "vmm_engine.h"

TEST_FOR(triple_fault_is_a_panic_without_words, 30)
{
    struct vm vm;

    run_to_end(&vm, "", TRIPLE_FAULT);
    ASSERT_EQ(vm.how, BX_VMM_PANIC);
    ASSERT_CONTAINS(vm.message, "without a word");
    vm_done(&vm);
}

TEST_FOR(terminated_from_outside_is_failed, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_console(&vm, "up\n");
    ASSERT_EQ(kill(ENGINE.pid(vm.vmm), SIGTERM), 0);
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_FAILED);
    ASSERT_CONTAINS(vm.message, "a signal from outside");
    vm_done(&vm);
}

TEST_FOR(garbage_kernel_tells_what_qemu_said, 30)
{
    static const char garbage[] = "this is no kernel";
    char path[512];
    struct vm vm;

    ASSERT_OK(bx_write_file(tmpdir_fd(), "kernel", garbage, sizeof(garbage), 0644));
    snprintf(path, sizeof(path), "%s/kernel", tmpdir());
    vm_start(&vm, path);
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_FAILED);
    ASSERT_EQ(vm.code, BOXLITE_E_ENGINE);
    ASSERT_CONTAINS(vm.message, "did not start");
    ASSERT_CONTAINS(vm.message, "kernel");
    ASSERT(!vm.running);
    vm_done(&vm);
}

/* BOXLITE_QEMU names the program; so it can also be missing on a machine that has it. */
TEST(missing_program_is_told_with_the_package)
{
    struct vm vm;

    vm_init(&vm);
    const struct bx_vmm_config config = vm_config(&vm, tiny_kernel("", HALT));
    ASSERT_EQ(setenv("BOXLITE_QEMU", "/nonexistent/qemu", 1), 0);
    ASSERT_FAILS(BOXLITE_E_ENGINE, ENGINE.start(vm.loop, &config, &vm_events, &vm, &vm.vmm, ERR));
    ASSERT_CONTAINS(err_message(), "/nonexistent/qemu is not installed");
    ASSERT_CONTAINS(err_hint(), "qemu-system-x86");
    const struct bx_vmm_ops *ops = NULL;
    ASSERT_FAILS(BOXLITE_E_ENGINE, bx_engine_choose("qemu-tcg", -1, &ops, ERR));
    ASSERT_CONTAINS(err_hint(), "qemu-system-x86");
    ASSERT_NULL(ops);
    vm_done(&vm);
}

TEST_FOR(ordered_reboot_is_off, 30)
{
    struct vm vm;

    run_to_end(&vm, "[    1.5] reboot: Restarting system\n", TRIPLE_FAULT);
    ASSERT_EQ(vm.how, BX_VMM_OFF);
    vm_done(&vm);
}

/* A program that is there but is not QEMU. */
TEST_FOR(wrong_program_is_told_with_what_it_said, 30)
{
    static const char script[] =
        "#!/bin/sh\necho starting; echo 'no such option: -M' >&2; exit 3\n";
    char path[512];
    struct vm vm;

    vm_init(&vm);
    const struct bx_vmm_config config = vm_config(&vm, tiny_kernel("", HALT));
    ASSERT_OK(bx_write_file(tmpdir_fd(), "qemu", script, sizeof(script) - 1, 0755));
    ASSERT_EQ(chmod(tmpdir(), 0755), 0);
    snprintf(path, sizeof(path), "%s/qemu", tmpdir());
    ASSERT_EQ(setenv("BOXLITE_QEMU", path, 1), 0);
    ASSERT_OK(ENGINE.start(vm.loop, &config, &vm_events, &vm, &vm.vmm, ERR));
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_FAILED);
    ASSERT_STREQ(vm.message, "qemu did not start: it ended with status 3: no such option: -M");
    vm_done(&vm);
}
