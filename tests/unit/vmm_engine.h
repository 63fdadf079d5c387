/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm_engine.h: what every engine promises of a machine's life, as tests. Guests of a few instructions
 * instead of a kernel: an ELF file whose entry prints a text on the serial port and then does one last
 * thing. The entry is the PVH note's (32 bits) and the file's own (64 bits) at once; the instructions
 * mean the same in both.
 *
 * Who includes this has defined ENGINE (its ops), ENGINE_PROCESS (its name in messages), acts[] (the
 * last instructions for each enum last_act) and need_engine(), which skips where it cannot run.
 */
#ifndef BX_TESTS_VMM_ENGINE_H
#define BX_TESTS_VMM_ENGINE_H

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
#include "vmm/vmm.h"
#include "vmm_guest.h"

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
    bool running, ended, paused, saved, free_at_end, free_at_console;
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
        ENGINE.free(vm->vmm);
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
        ENGINE.free(vm->vmm);
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

static void on_saved(void *data, const boxlite_error *error)
{
    struct vm *vm = data;

    vm->saved = true;
    vm->code = error ? boxlite_error_code(error) : 0;
    snprintf(vm->message, sizeof(vm->message), "%s", error ? boxlite_error_message(error) : "");
}

static const struct bx_vmm_events vm_events = {.saved = on_saved,
                                               .running = on_running,
                                               .console = on_console,
                                               .ended = on_ended,
                                               .paused = on_paused};

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
    need_engine();
    vm_init(vm);
    const struct bx_vmm_config config = vm_config(vm, kernel);
    ASSERT_OK(ENGINE.start(vm->loop, &config, &vm_events, vm, &vm->vmm, ERR));
    bx_close(&vm->agent[1]);
}

static void vm_done(struct vm *vm)
{
    ENGINE.free(vm->vmm);
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

TEST_FOR(kill_ends_it, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_console(&vm, "up\n");
    ENGINE.kill(vm.vmm);
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_KILLED);
    ASSERT_EQ(vm.code, 0);
    ENGINE.kill(vm.vmm); /* once more does no harm */
    vm_done(&vm);
}

TEST_FOR(kill_right_after_start, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    ENGINE.kill(vm.vmm);
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_KILLED);
    vm_done(&vm);
}

TEST_FOR(killed_from_outside_is_failed, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_console(&vm, "up\n");
    ASSERT_EQ(kill(ENGINE.pid(vm.vmm), SIGKILL), 0);
    wait_until(&vm, &vm.ended, true);
    ASSERT_EQ(vm.how, BX_VMM_FAILED);
    ASSERT_EQ(vm.code, BOXLITE_E_ENGINE);
    ASSERT_STREQ(vm.message, ENGINE_PROCESS " was killed by signal 9");
    ASSERT_CONTAINS(vm.hint, "out of memory");
    vm_done(&vm);
}

TEST_FOR(pause_and_resume, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    ASSERT_FAILS(BOXLITE_E_STATE, ENGINE.pause(vm.vmm, ERR)); /* not running yet */
    wait_until(&vm, &vm.running, true);
    ASSERT_OK(ENGINE.pause(vm.vmm, ERR));
    wait_until(&vm, &vm.paused, true);
    ASSERT_OK(ENGINE.resume(vm.vmm, ERR));
    wait_until(&vm, &vm.paused, false);
    ASSERT(!vm.ended);
    vm_done(&vm);
}

/* Each answer comes, in order, and none is taken for a stop of the engine's own. */
TEST_FOR(pause_and_resume_without_waiting, 30)
{
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_until(&vm, &vm.running, true);
    ASSERT_OK(ENGINE.pause(vm.vmm, ERR));
    ASSERT_OK(ENGINE.pause(vm.vmm, ERR)); /* asked for already */
    ASSERT_OK(ENGINE.resume(vm.vmm, ERR));
    ASSERT_OK(ENGINE.pause(vm.vmm, ERR));
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

/* Whatever root's rights are, the engine's process has none of them, and cannot get any. */
TEST_FOR(process_has_no_rights, 30)
{
    _cleanup_buf_ struct bx_buf status = BX_BUF_INIT(65536);
    char path[64];
    struct vm vm;

    vm_start(&vm, tiny_kernel("up\n", HALT));
    wait_console(&vm, "up\n");
    snprintf(path, sizeof(path), "/proc/%d/status", ENGINE.pid(vm.vmm));
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ASSERT_OK(bx_read_fd(fd, &status));
    ASSERT_CONTAINS(bx_buf_str(&status), "CapEff:\t0000000000000000");
    ASSERT_CONTAINS(bx_buf_str(&status), "CapPrm:\t0000000000000000");
    ASSERT_CONTAINS(bx_buf_str(&status), "NoNewPrivs:\t1");
    ASSERT_CONTAINS(bx_buf_str(&status), "Seccomp:\t2");
    ASSERT_NULL(strstr(bx_buf_str(&status), "Uid:\t0\t"));
    vm_done(&vm);
}

TEST(missing_kernel_is_not_found)
{
    struct vm vm;

    need_engine();
    vm_init(&vm);
    const struct bx_vmm_config config = vm_config(&vm, "/nonexistent/vmlinux");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 ENGINE.start(vm.loop, &config, &vm_events, &vm, &vm.vmm, ERR));
    ASSERT_CONTAINS(err_message(), "/nonexistent/vmlinux");
    vm_done(&vm);
}

#endif
