/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The QEMU engine's life cycle, with guests of a few instructions instead of a kernel: an ELF file
 * with the PVH note, whose 32-bit entry prints a text on the serial port and then does one last
 * thing.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "harness.h"
#include "vmm/qemu/qemu.h"
#include "vmm/vmm.h"

#define LOAD 0x100000
#define CODE_OFF 0x100
#define TEXT_OFF 0x140
#define ZEROS_OFF 0x300
#define IMAGE_SIZE 0x400

enum last_act { HALT, POWER_OFF, TRIPLE_FAULT };

static const struct {
    uint8_t code[16];
    size_t len;
} acts[] = {
    [HALT] = {{0xf4, 0xeb, 0xfd}, 3},
    /* movb $0x34, 0xfea00200: S5 into microvm's ACPI sleep control register */
    [POWER_OFF] = {{0xc6, 0x05, 0x00, 0x02, 0xa0, 0xfe, 0x34, 0xf4, 0xeb, 0xfd}, 10},
    /* lidt of an empty table, int3 */
    [TRIPLE_FAULT] = {{0x0f, 0x01, 0x1d, ZEROS_OFF & 0xff, ZEROS_OFF >> 8, LOAD >> 16, 0x00, 0xcc},
                      8},
};

/* The path of a kernel that prints text and then acts; the harness' folder. */
static const char *tiny_kernel(const char *text, enum last_act act)
{
    static char path[512];
    static const uint8_t print[] = {
        0xbe,          TEXT_OFF & 0xff,
        TEXT_OFF >> 8, LOAD >> 16,
        0x00, /* mov $text, %esi */
        0x66,          0xba,
        0xf8,          0x03, /* mov $0x3f8, %dx */
        0xac,                /* 1: lodsb */
        0x84,          0xc0, /* test %al, %al */
        0x74,          0x03, /* jz 2f */
        0xee,                /* out %al, %dx */
        0xeb,          0xf8, /* jmp 1b; 2: */
    };
    uint8_t image[IMAGE_SIZE] = {0};
    const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_EXEC,
                             .e_machine = EM_X86_64,
                             .e_version = EV_CURRENT,
                             .e_entry = LOAD + CODE_OFF,
                             .e_phoff = sizeof(Elf64_Ehdr),
                             .e_ehsize = sizeof(Elf64_Ehdr),
                             .e_phentsize = sizeof(Elf64_Phdr),
                             .e_phnum = 2};
    const Elf64_Phdr load = {.p_type = PT_LOAD,
                             .p_flags = PF_R | PF_X,
                             .p_vaddr = LOAD,
                             .p_paddr = LOAD,
                             .p_filesz = IMAGE_SIZE,
                             .p_memsz = IMAGE_SIZE,
                             .p_align = 0x1000};
    const struct {
        Elf64_Nhdr head;
        char name[4];
        uint32_t entry;
    } note = {{4, 4, 18 /* XEN_ELFNOTE_PHYS32_ENTRY */}, "Xen", LOAD + CODE_OFF};
    const size_t note_off = sizeof(head) + 2 * sizeof(load);
    const Elf64_Phdr notes = {.p_type = PT_NOTE,
                              .p_offset = note_off,
                              .p_vaddr = LOAD + note_off,
                              .p_paddr = LOAD + note_off,
                              .p_filesz = sizeof(note),
                              .p_memsz = sizeof(note),
                              .p_align = 4};

    memcpy(image, &head, sizeof(head));
    memcpy(image + sizeof(head), &load, sizeof(load));
    memcpy(image + sizeof(head) + sizeof(load), &notes, sizeof(notes));
    memcpy(image + note_off, &note, sizeof(note));
    memcpy(image + CODE_OFF, print, sizeof(print));
    memcpy(image + CODE_OFF + sizeof(print), acts[act].code, acts[act].len);
    memcpy(image + TEXT_OFF, text, strlen(text));
    ASSERT_OK(bx_write_file(tmpdir_fd(), "kernel", image, sizeof(image), 0600));
    snprintf(path, sizeof(path), "%s/kernel", tmpdir());
    return path;
}

/* One machine and what was heard of it. */
struct vm {
    struct bx_loop *loop;
    struct bx_vmm *vmm;
    int agent[2];
    bool running, ended, paused, free_at_end, free_at_console;
    char changes[16]; /* 'p' and 'r' as they came */
    enum bx_vmm_end how;
    int code;
    char message[256], hint[256];
    struct bx_buf console;
};

static void on_running(void *data)
{
    struct vm *vm = data;

    ASSERT(!vm->running);
    vm->running = true;
}

static void on_console(void *data, const uint8_t *p, size_t len)
{
    struct vm *vm = data;

    ASSERT_OK(bx_buf_append(&vm->console, p, len));
    if (vm->free_at_console && vm->vmm) {
        bx_qemu_tcg_ops.free(vm->vmm);
        vm->vmm = NULL;
    }
}

static void on_ended(void *data, enum bx_vmm_end how, const boxlite_error *error)
{
    struct vm *vm = data;

    ASSERT(!vm->ended);
    vm->ended = true;
    vm->how = how;
    vm->code = error ? boxlite_error_code(error) : 0;
    if (error) {
        const char *hint = boxlite_error_hint(error);
        snprintf(vm->message, sizeof(vm->message), "%s", boxlite_error_message(error));
        snprintf(vm->hint, sizeof(vm->hint), "%s", hint ? hint : "");
    }
    if (vm->free_at_end) {
        bx_qemu_tcg_ops.free(vm->vmm);
        vm->vmm = NULL;
    }
}

static void on_paused(void *data, bool paused)
{
    struct vm *vm = data;

    ASSERT_LT(strlen(vm->changes), sizeof(vm->changes) - 1);
    vm->changes[strlen(vm->changes)] = paused ? 'p' : 'r';
    vm->paused = paused;
}

static const struct bx_vmm_events vm_events = {
    .running = on_running, .console = on_console, .ended = on_ended, .paused = on_paused};

static void need_qemu(void)
{
    _cleanup_free_ char *program = bx_find_program("qemu-system-x86_64");

    if (!program) {
        SKIP("qemu-system-x86_64 is not installed");
    }
}

static struct bx_vmm_config vm_config(const struct vm *vm, const char *kernel)
{
    return (struct bx_vmm_config){.name = "test",
                                  .kernel = kernel,
                                  .cpus = 1,
                                  .memory = 64 << 20,
                                  .agent_fd = vm->agent[1],
                                  .net_fd = -1,
                                  .console_fd = -1,
                                  .work_fd = -1};
}

static void vm_init(struct vm *vm)
{
    *vm = (struct vm){.console = BX_BUF_INIT(1 << 20)};
    ASSERT_OK(bx_loop_new(&vm->loop));
    ASSERT_OK(bx_socketpair(SOCK_STREAM, vm->agent));
}

static void vm_start(struct vm *vm, const char *kernel)
{
    need_qemu();
    vm_init(vm);
    const struct bx_vmm_config config = vm_config(vm, kernel);
    ASSERT_OK(bx_qemu_tcg_ops.start(vm->loop, &config, &vm_events, vm, &vm->vmm, ERR));
    bx_close(&vm->agent[1]);
}

static void vm_done(struct vm *vm)
{
    bx_qemu_tcg_ops.free(vm->vmm);
    bx_loop_free(vm->loop);
    bx_close(&vm->agent[0]);
    bx_close(&vm->agent[1]);
    bx_buf_done(&vm->console);
}

static void wait_until(struct vm *vm, const bool *flag, bool value)
{
    uint64_t deadline = bx_deadline_ms(15000);

    while (*flag != value) {
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(vm->loop, bx_deadline_left_ms(deadline)));
    }
}

static void wait_console(struct vm *vm, const char *text)
{
    uint64_t deadline = bx_deadline_ms(15000);

    while (!strstr(bx_buf_str(&vm->console), text)) {
        ASSERT(!vm->ended);
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(vm->loop, bx_deadline_left_ms(deadline)));
    }
}

/* Runs a guest to its end. */
static void run_to_end(struct vm *vm, const char *text, enum last_act act)
{
    vm_start(vm, tiny_kernel(text, act));
    wait_until(vm, &vm->ended, true);
}

TEST_FOR(power_off_is_off, 30)
{
    struct vm vm;

    run_to_end(&vm, "hello\n", POWER_OFF);
    ASSERT_EQ(vm.how, BX_VMM_OFF);
    ASSERT_EQ(vm.code, 0);
    ASSERT(vm.running);
    ASSERT_STREQ(bx_buf_str(&vm.console), "hello\n");
    vm_done(&vm);
}

TEST_FOR(panic_is_told_with_its_reason, 30)
{
    struct vm vm;

    run_to_end(&vm, "x\n[    1.5] Kernel panic - not syncing: no \033[1minit found\r\ntrace\n",
               TRIPLE_FAULT);
    ASSERT_EQ(vm.how, BX_VMM_PANIC);
    ASSERT_EQ(vm.code, BOXLITE_E_GUEST);
    ASSERT_STREQ(vm.message, "guest kernel panic: no \\x1b[1minit found");
    vm_done(&vm);
}

TEST_FOR(ordered_reboot_is_off, 30)
{
    struct vm vm;

    run_to_end(&vm, "[    1.5] reboot: Restarting system\n", TRIPLE_FAULT);
    ASSERT_EQ(vm.how, BX_VMM_OFF);
    vm_done(&vm);
}

TEST_FOR(triple_fault_is_a_panic_without_words, 30)
{
    struct vm vm;

    run_to_end(&vm, "", TRIPLE_FAULT);
    ASSERT_EQ(vm.how, BX_VMM_PANIC);
    ASSERT_CONTAINS(vm.message, "without a word");
    vm_done(&vm);
}

TEST_FOR(kill_ends_it, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_console(&vm, "up\n");
    bx_qemu_tcg_ops.kill(vm.vmm);
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_KILLED);
    ASSERT_EQ(vm.code, 0);
    bx_qemu_tcg_ops.kill(vm.vmm); /* once more does no harm */
    vm_done(&vm);
}

TEST_FOR(kill_right_after_start, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    bx_qemu_tcg_ops.kill(vm.vmm);
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_KILLED);
    vm_done(&vm);
}

TEST_FOR(killed_from_outside_is_failed, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_console(&vm, "up\n");
    ASSERT_EQ(kill(bx_qemu_tcg_ops.pid(vm.vmm), SIGKILL), 0);
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_FAILED);
    ASSERT_EQ(vm.code, BOXLITE_E_ENGINE);
    ASSERT_STREQ(vm.message, "qemu was killed by signal 9");
    ASSERT_CONTAINS(vm.hint, "out of memory");
    vm_done(&vm);
}

TEST_FOR(terminated_from_outside_is_failed, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_console(&vm, "up\n");
    ASSERT_EQ(kill(bx_qemu_tcg_ops.pid(vm.vmm), SIGTERM), 0);
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

TEST_FOR(pause_and_resume, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    ASSERT_FAILS(BOXLITE_E_STATE, bx_qemu_tcg_ops.pause(vm.vmm, ERR)); /* not running yet */
    wait_until(&vm, &vm.running, true);
    ASSERT_OK(bx_qemu_tcg_ops.pause(vm.vmm, ERR));
    wait_until(&vm, &vm.paused, true);
    ASSERT_OK(bx_qemu_tcg_ops.resume(vm.vmm, ERR));
    wait_until(&vm, &vm.paused, false);
    ASSERT(!vm.ended);
    vm_done(&vm);
}

/* Each answer comes, in order, and none is taken for a stop of QEMU's own. */
TEST_FOR(pause_and_resume_without_waiting, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_until(&vm, &vm.running, true);
    ASSERT_OK(bx_qemu_tcg_ops.pause(vm.vmm, ERR));
    ASSERT_OK(bx_qemu_tcg_ops.pause(vm.vmm, ERR)); /* asked for already */
    ASSERT_OK(bx_qemu_tcg_ops.resume(vm.vmm, ERR));
    ASSERT_OK(bx_qemu_tcg_ops.pause(vm.vmm, ERR));
    for (uint64_t deadline = bx_deadline_ms(15000); strlen(vm.changes) < 3;) {
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(vm.loop, bx_deadline_left_ms(deadline)));
    }
    ASSERT_STREQ(vm.changes, "prp");
    ASSERT(!vm.ended);
    vm_done(&vm);
}

TEST_FOR(may_be_freed_in_ended, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("bye\n", POWER_OFF));
    vm.free_at_end = true;
    wait_until(&vm, &vm.ended, true);
    ASSERT_NULL(vm.vmm);
    vm_done(&vm);
}

TEST_FOR(may_be_freed_in_console, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    vm.free_at_console = true;
    while (vm.vmm) {
        ASSERT_OK(bx_loop_dispatch(vm.loop, 15000));
    }
    ASSERT(!vm.ended);
    vm_done(&vm);
}

/* Whatever root's rights are, QEMU's process has none of them, and cannot get any. */
TEST_FOR(process_has_no_rights, 30)
{
    _cleanup_buf_ struct bx_buf status = BX_BUF_INIT(65536);
    char path[64];
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_console(&vm, "up\n");
    snprintf(path, sizeof(path), "/proc/%d/status", bx_qemu_tcg_ops.pid(vm.vmm));
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ASSERT_OK(bx_read_fd(fd, &status));
    ASSERT_CONTAINS(bx_buf_str(&status), "CapEff:\t0000000000000000");
    ASSERT_CONTAINS(bx_buf_str(&status), "CapPrm:\t0000000000000000");
    ASSERT_CONTAINS(bx_buf_str(&status), "NoNewPrivs:\t1");
    ASSERT_CONTAINS(bx_buf_str(&status), "Seccomp:\t2");
    ASSERT_NULL(strstr(bx_buf_str(&status), "Uid:\t0\t"));
    vm_done(&vm);
}

/* BOXLITE_QEMU names the program; so it can also be missing on a machine that has it. */
TEST(missing_program_is_told_with_the_package)
{
    struct vm vm;

    vm_init(&vm);
    const struct bx_vmm_config config = vm_config(&vm, tiny_kernel("", HALT));
    ASSERT_EQ(setenv("BOXLITE_QEMU", "/nonexistent/qemu", 1), 0);
    ASSERT_FAILS(BOXLITE_E_ENGINE,
                 bx_qemu_tcg_ops.start(vm.loop, &config, &vm_events, &vm, &vm.vmm, ERR));
    ASSERT_CONTAINS(err_message(), "/nonexistent/qemu is not installed");
    ASSERT_CONTAINS(err_hint(), "qemu-system-x86");
    const struct bx_vmm_ops *ops = NULL;
    ASSERT_FAILS(BOXLITE_E_ENGINE, bx_engine_choose("qemu-tcg", -1, &ops, ERR));
    ASSERT_CONTAINS(err_hint(), "qemu-system-x86");
    ASSERT_NULL(ops);
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
    ASSERT_OK(bx_qemu_tcg_ops.start(vm.loop, &config, &vm_events, &vm, &vm.vmm, ERR));
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_FAILED);
    ASSERT_STREQ(vm.message, "qemu did not start: it ended with status 3: no such option: -M");
    vm_done(&vm);
}

TEST(missing_kernel_is_not_found)
{
    struct vm vm;

    need_qemu();
    vm_init(&vm);
    const struct bx_vmm_config config = vm_config(&vm, "/nonexistent/vmlinux");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 bx_qemu_tcg_ops.start(vm.loop, &config, &vm_events, &vm, &vm.vmm, ERR));
    ASSERT_CONTAINS(err_message(), "/nonexistent/vmlinux");
    vm_done(&vm);
}
