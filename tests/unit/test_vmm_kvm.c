/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxlite-vmm's life cycle: what every engine promises (vmm_engine.h), and what is its own. Skipped
 * where KVM is of no use; tests/kvm-lab runs it on a machine where it is.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "harness.h"
#include "vmm/kvm/engine.h"
#include "vmm/probe.h"
#include "vmm_guest.h"

#define ENGINE bx_kvm_ops
#define ENGINE_PROCESS "boxlite-vmm"

/* A byte of the guest's memory, as the four bytes of its address. */
#define COUNTER (ZEROS_OFF & 0xff), (ZEROS_OFF >> 8), (LOAD >> 16), 0x00

static const struct act acts[] = {
    [HALT] = {{0xf4, 0xeb, 0xfd}, 3},
    /* mov $0x34, %al; mov $0x600, %dx; out: S5 into the sleep control register */
    [POWER_OFF] = {{0xb0, 0x34, 0x66, 0xba, 0x00, 0x06, 0xee, 0xf4, 0xeb, 0xfd}, 10},
    [TRIPLE_FAULT] = {{0xcc}, 1}, /* int3, and no table of handlers */
    /* mov $1, %al; mov $0x602, %dx; out: the reset register */
    [RESET] = {{0xb0, 0x01, 0x66, 0xba, 0x02, 0x06, 0xee, 0xf4, 0xeb, 0xfd}, 10},
    /* mov $0x3f8, %dx; 1: incb COUNTER; mov COUNTER, %al; out; mov $0x8000, %ecx; 2: loop 2b; jmp 1b */
    [COUNT] = {{0x66,    0xba, 0xf8, 0x03, 0xfe, 0x04, 0x25, COUNTER, 0x8a, 0x04, 0x25,
                COUNTER, 0xee, 0xb9, 0x00, 0x80, 0x00, 0x00, 0xe2,    0xfe, 0xeb, 0xe8},
               28},
};

static void need_engine(void)
{
    struct bx_kvm_verdict v;

    bx_kvm_probe(-1, true, &v);
    if (v.state != BX_KVM_USABLE) {
        SKIP("no usable KVM (%s): tests/kvm-lab has one", v.detail);
    }
    ASSERT_EQ(setenv("BOXLITE_VMM", VMM_PROGRAM, 0), 0); /* unless the caller names another */
}

#include "vmm_engine.h"

TEST_FOR(reset_is_off, 30)
{
    struct vm vm;

    run_to_end(&vm, "reboot: Restarting system\n", RESET);
    ASSERT_EQ(vm.how, BX_VMM_OFF);
    vm_done(&vm);
}

TEST_FOR(a_reset_behind_a_panic_is_a_panic, 30)
{
    struct vm vm;

    run_to_end(&vm, "Kernel panic - not syncing: oops\n", RESET);
    ASSERT_EQ(vm.how, BX_VMM_PANIC);
    ASSERT_STREQ(vm.message, "guest kernel panic: oops");
    vm_done(&vm);
}

TEST_FOR(triple_fault_is_a_crash, 30)
{
    struct vm vm;

    run_to_end(&vm, "", TRIPLE_FAULT);
    ASSERT_EQ(vm.how, BX_VMM_PANIC);
    ASSERT_EQ(vm.code, BOXLITE_E_GUEST);
    ASSERT_STREQ(vm.message, "the guest crashed: triple fault on vCPU 0");
    vm_done(&vm);
}

TEST_FOR(garbage_kernel_is_refused_with_a_reason, 30)
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
    ASSERT_CONTAINS(vm.message, "not an x86-64 vmlinux");
    ASSERT(!vm.running);
    vm_done(&vm);
}

TEST_FOR(machines_of_all_sizes_start, 60)
{
    static const struct {
        uint32_t cpus;
        uint64_t mib;
    } sizes[] = {{1, 32}, {4, 128}, {2, 3072}, {1, 8192}, {16, 512}};

    for (size_t i = 0; i < BX_ARRAY_SIZE(sizes); i++) {
        struct vm vm;

        need_engine();
        vm_init(&vm);
        struct bx_vmm_config config = vm_config(&vm, tiny_kernel("up\n", POWER_OFF));
        config.cpus = sizes[i].cpus;
        config.memory = sizes[i].mib << 20;
        ASSERT_OK(ENGINE.start(vm.loop, &config, &vm_events, &vm, &vm.vmm, ERR));
        bx_close(&vm.agent[1]);
        wait_until(&vm, &vm.ended, true);
        ASSERT_EQ(vm.how, BX_VMM_OFF);
        vm_done(&vm);
    }
}

TEST_FOR(missing_program_is_told, 30)
{
    struct vm vm;

    vm_init(&vm);
    const struct bx_vmm_config config = vm_config(&vm, tiny_kernel("", HALT));
    ASSERT_EQ(setenv("BOXLITE_VMM", "/nonexistent/vmm", 1), 0);
    ASSERT_FAILS(BOXLITE_E_ENGINE, ENGINE.start(vm.loop, &config, &vm_events, &vm, &vm.vmm, ERR));
    ASSERT_CONTAINS(err_message(), "/nonexistent/vmm was not found");
    vm_done(&vm);
}

/* ---- snapshots ----------------------------------------------------------------------------------- */

static void wait_bytes(struct vm *vm, size_t n)
{
    uint64_t deadline = bx_deadline_ms(15000);

    while (vm->console.len < n) {
        ASSERT(!vm->ended);
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(vm->loop, bx_deadline_left_ms(deadline)));
    }
}

/* Runs a guest that counts, stops it somewhere, and saves it: the last number that it printed. */
static uint8_t save_counting(int state, int memory)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("counting\n", COUNT));
    wait_bytes(&vm, 9 + 300);
    ASSERT_FAILS(BOXLITE_E_STATE, ENGINE.snapshot(vm.vmm, state, memory, ERR));
    ASSERT_OK(ENGINE.pause(vm.vmm, ERR));
    wait_until(&vm, &vm.paused, true);
    ASSERT_OK(ENGINE.snapshot(vm.vmm, state, memory, ERR));
    wait_until(&vm, &vm.saved, true);
    ASSERT_STREQ(vm.message, "");
    while (bx_loop_dispatch(vm.loop, 0) > 0) { /* the last of what it printed */
    }
    uint8_t last = bx_buf_data(&vm.console)[vm.console.len - 1];
    vm_done(&vm);
    return last;
}

static void restore(struct vm *vm, int state, int memory)
{
    vm_init(vm);
    struct bx_vmm_config config = vm_config(vm, "/nonexistent");
    config.restore = true;
    config.state_fd = state;
    config.memory_fd = memory;
    ASSERT_OK(ENGINE.start(vm->loop, &config, &vm_events, vm, &vm->vmm, ERR));
    bx_close(&vm->agent[1]);
}

TEST_FOR(a_restored_machine_goes_on_where_it_was, 60)
{
    _cleanup_close_ int state = memfd_create("state", MFD_CLOEXEC);
    _cleanup_close_ int memory = memfd_create("memory", MFD_CLOEXEC);
    uint8_t last;
    struct stat st;

    need_engine();
    last = save_counting(state, memory);
    ASSERT_EQ(fstat(memory, &st), 0);
    ASSERT_EQ(st.st_size, 64 << 20);
    ASSERT_LT(st.st_blocks * 512, 1 << 20); /* it is sparse */
    for (unsigned i = 0; i < 2; i++) {      /* twice: the first has not changed the files */
        struct vm vm;

        restore(&vm, state, memory);
        wait_bytes(&vm, 200);
        for (unsigned j = 0; j < 200; j++) {
            ASSERT_EQ(bx_buf_data(&vm.console)[j], (uint8_t)(last + 1 + j));
        }
        vm_done(&vm);
    }
}

TEST_FOR(damaged_and_foreign_states_are_refused, 60)
{
    _cleanup_close_ int state = memfd_create("state", MFD_CLOEXEC);
    _cleanup_close_ int memory = memfd_create("memory", MFD_CLOEXEC);
    static const struct {
        off_t at;
        const char *why;
    } flaws[] = {{0, "does not begin"}, {8, "of version"}, {16, "too long"}, {60, "checksum"}};

    need_engine();
    (void)save_counting(state, memory);
    for (size_t i = 0; i < BX_ARRAY_SIZE(flaws); i++) {
        const uint8_t bad[4] = {0xff, 0xff, 0xff, 0x7f};
        uint8_t kept[4];
        struct vm vm;

        ASSERT_EQ(pread(state, kept, 4, flaws[i].at), 4);
        ASSERT_EQ(pwrite(state, bad, 4, flaws[i].at), 4);
        restore(&vm, state, memory);
        wait_until(&vm, &vm.ended, true);
        ASSERT_EQ(vm.how, BX_VMM_FAILED);
        ASSERT_CONTAINS(vm.message, flaws[i].why);
        ASSERT(!vm.running);
        vm_done(&vm);
        ASSERT_EQ(pwrite(state, kept, 4, flaws[i].at), 4);
    }
}
