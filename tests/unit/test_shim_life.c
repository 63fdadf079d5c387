/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a box as its clients and its folder see it, with an engine and an agent that fail in
 * every state.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/io.h"
#include "box/shimproc.h"
#include "shim_fixture.h"

static struct fx fx;

static void main_command(void)
{
    fx.config.main = true;
    ASSERT_OK(bx_strv_add(&fx.config.argv, "sh"));
}

static void read_exit(struct bx_box_exit *ret)
{
    ASSERT_OK(bx_box_exit_read(fx.box_fd, ret, ERR));
}

/* The start fails: the starter hears this, exit.json says it, the folder is a stopped box's. */
static void expect_failure(int code, const char *message, const char *hint)
{
    struct fx_client *c = &fx.clients[0];
    struct bx_box_exit e;
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
    ASSERT_EQ(c->code, code);
    ASSERT_CONTAINS(c->error, message);
    if (hint) {
        ASSERT_CONTAINS(c->hint, hint);
    }
    read_exit(&e);
    ASSERT_EQ(e.code, code);
    ASSERT_STREQ(e.error, c->error);
    bx_box_exit_done(&e);
    ASSERT(!fx_exists(&fx, "started"));
    ASSERT(!fx_exists(&fx, BX_CONTROL_SOCKET));
    ASSERT(bx_shim_done(fx.shim));
}

static bool lock_is_free(void)
{
    int fd = openat(fx.box_fd, "lock", O_RDWR | O_CLOEXEC);
    bool free_now = fd >= 0 && bx_lock_held(fd) == 0;
    bx_close(&fd);
    return free_now;
}

/* ---- start */

TEST(a_box_boots_and_says_so)
{
    fx_init(&fx);
    struct fx_client *c = fx_run(&fx);
    ASSERT_STREQ(c->engine, "fake");
    ASSERT(fx_exists(&fx, "started") && !fx_exists(&fx, "exit.json"));
    ASSERT(!lock_is_free());
    struct fx_client *other = fx_connect(&fx);
    FX_UNTIL(&fx, other->state == BOXLITE_BOX_RUNNING);
    ASSERT_EQ(fx_ask(other, BX_SH_STATUS, 0), 0);
    ASSERT_EQ(fx_answer(other, BX_T_STATE), BOXLITE_BOX_RUNNING);
    ASSERT_EQ(fx_answer(other, BX_T_PID), getpid());
    ASSERT_EQ(fx_answer(other, BX_T_EXEC), 0);
    char *release = fx_answer_text(other, BX_T_RELEASE);
    ASSERT_STREQ(release, "6.1-fake");
    free(release);
    fx_done(&fx);
}

TEST(the_main_command_starts_with_the_box)
{
    fx_init(&fx);
    main_command();
    struct fx_client *c = fx_start(&fx);
    ASSERT_EQ(fx_attach(c, 1, BX_MAIN_EXEC, 0), 0); /* before the guest is there */
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_RUNNING);
    ASSERT_EQ(fx.exec, BX_MAIN_EXEC);
    ASSERT_STREQ(fx.spec.argv.v[0], "sh");
    ASSERT_STREQ(fx.spec.cwd, "/work");
    ASSERT_STREQ(fx.spec.user, "app");
    ASSERT_EQ(fx.spec.env.n, 2);
    ASSERT_EQ(c->started, 1);
    fx_done(&fx);
}

TEST(the_end_of_the_main_command_ends_the_box_after_its_output)
{
    struct bx_exec_exit e;
    fx_init(&fx);
    main_command();
    struct fx_client *c = fx_run(&fx);
    ASSERT_EQ(fx_attach(c, 1, BX_MAIN_EXEC, 0), 0);
    fx_output(&fx, BX_MAIN_EXEC, BX_STREAM_OUT, "bye", 3);
    fx_send(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)BX_MAIN_EXEC, 0);
    fx_exited(&fx, BX_MAIN_EXEC, 3);
    FX_UNTIL(&fx, c->answered == c->request);
    ASSERT_EQ(fx_answer(c, BX_T_CODE), 3);
    ASSERT_MEM(bx_buf_data(&c->streams[1][1].got), "bye", 3);
    ASSERT(c->streams[1][1].eof && c->streams[1][2].eof);
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
    ASSERT(fx.shutdown);
    ASSERT_NULL(c->error);
    ASSERT(lock_is_free());
    int dir = openat(fx.box_fd, "execs/1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_OK(bx_exec_exit_read(dir, "result.json", &e, ERR));
    ASSERT_EQ(e.code, 3);
    bx_exec_exit_done(&e);
    struct bx_buf b = BX_BUF_INIT(100);
    ASSERT_OK(bx_read_file(dir, "stdout", &b));
    ASSERT_STREQ(bx_buf_str(&b), "bye");
    bx_buf_done(&b);
    bx_close(&dir);
    fx_done(&fx);
}

TEST(a_main_command_that_cannot_start_is_a_result_not_a_failed_box)
{
    fx_init(&fx);
    main_command();
    fx.no_started = true;
    struct fx_client *c = fx_start(&fx);
    FX_UNTIL(&fx, fx.execs == 1);
    ASSERT_EQ(c->state, BOXLITE_BOX_STARTING);
    fx_send(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)BX_MAIN_EXEC, 0);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, (uint64_t)1, BX_T_START_ERROR, (uint64_t)ENOENT, 0);
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
    ASSERT_EQ(fx_answer(c, BX_T_CODE), 127);
    ASSERT_EQ(fx_answer(c, BX_T_EXIT_FLAGS), BOXLITE_EXIT_NOT_STARTED);
    ASSERT_NULL(c->error);
    fx_done(&fx);
}

/* ---- starts that fail */

TEST(no_config_is_an_integrity_error)
{
    fx_init(&fx);
    fx.config.cpus = 0;
    fx_start(&fx);
    expect_failure(BOXLITE_E_INTEGRITY, "config.json: cpus: not an integer from 1 to 64", "remove");
    fx_done(&fx);
}

TEST(a_second_shim_leaves_the_first_alone)
{
    fx_init(&fx);
    int fd = openat(fx.box_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_OK(bx_lock(fd, true, false));
    struct fx_client *c = fx_start(&fx);
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
    ASSERT_EQ(c->code, BOXLITE_E_STATE);
    ASSERT_CONTAINS(c->error, "running already");
    ASSERT(!fx_exists(&fx, "exit.json") && !fx_exists(&fx, "started"));
    bx_close(&fd);
    fx_done(&fx);
}

TEST(what_is_missing_is_named_with_advice)
{
    static const struct {
        const char *home, *box;
        int code;
        const char *message, *hint;
    } cases[] = {
        {"kernels/default/vmlinux", NULL, BOXLITE_E_NOT_FOUND, "kernel default: vmlinux", "import"},
        {"kernels/default/initramfs", NULL, BOXLITE_E_NOT_FOUND, "initramfs", "import"},
        {"rootfs/r.sqfs", NULL, BOXLITE_E_NOT_FOUND, "rootfs/r.sqfs", "load it again"},
        {NULL, "upper.img", BOXLITE_E_NOT_FOUND, "the box's disk", "remove it"},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        pid_t pid = fork(); /* each with a fresh folder of its own in tmpdir() */
        if (pid == 0) {
            char name[16];
            (void)snprintf(name, sizeof(name), "case%zu", i);
            fx_init(&fx);
            if (unlinkat(cases[i].home ? fx.home_fd : fx.box_fd,
                         cases[i].home ? cases[i].home : cases[i].box, 0) < 0) {
                _exit(2);
            }
            fx_start(&fx);
            expect_failure(cases[i].code, cases[i].message, cases[i].hint);
            fx_done(&fx);
            _exit(renameat(tmpdir_fd(), "home", tmpdir_fd(), name) < 0 ||
                  unlinkat(tmpdir_fd(), "box/lock", 0) < 0);
        }
        int status;
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_EQ(status, 0);
        char to[16];
        (void)snprintf(to, sizeof(to), "box%zu", i);
        ASSERT_OK(renameat(tmpdir_fd(), "box", tmpdir_fd(), to));
    }
}

TEST(a_damaged_root_image_is_refused)
{
    fx_init(&fx);
    ASSERT_OK(bx_write_file(fx.home_fd, "rootfs/r.sqfs", "", 0, 0600));
    fx_start(&fx);
    expect_failure(BOXLITE_E_INTEGRITY, "damaged", NULL);
    fx_done(&fx);
}

TEST(no_engine_and_an_engine_that_does_not_start)
{
    fx_init(&fx);
    fx.start_error = BOXLITE_E_ENGINE;
    fx_start(&fx);
    expect_failure(BOXLITE_E_ENGINE, "engine fake: cannot start", NULL);
    fx_done(&fx);
}

TEST(no_engine_at_all)
{
    fx_init(&fx);
    fx.choose_error = BOXLITE_E_UNSUPPORTED;
    fx_start(&fx);
    expect_failure(BOXLITE_E_UNSUPPORTED, "no engine here", NULL);
    fx_done(&fx);
}

TEST(a_panic_in_the_boot_is_told_at_once_with_the_console)
{
    fx_init(&fx);
    fx.no_agent = true;
    fx_start(&fx);
    fx_console(&fx, "[    0.5] VFS: cannot open root\n[    0.6] Kernel panic - not syn");
    fx_console(&fx, "cing: VFS: Unable to mount root fs\n[    0.7] ---[ end Kernel panic\n");
    fx_vm_end(&fx, BX_VMM_PANIC, "the guest panicked");
    expect_failure(BOXLITE_E_GUEST, "kernel panicked: VFS: Unable to mount root fs",
                   "VFS: cannot open root");
    fx_done(&fx);
}

TEST(a_panic_ends_the_box_though_the_engine_does_not_notice)
{
    fx_init(&fx);
    fx.no_agent = true;
    fx.world.panic_ms = 1;
    fx_start(&fx);
    fx_console(&fx, "Kernel panic - not syncing: hung\n");
    expect_failure(BOXLITE_E_GUEST, "kernel panicked: hung", NULL);
    ASSERT_EQ(fx.kills, 1);
    fx_done(&fx);
}

TEST(an_engine_that_dies_in_the_boot)
{
    fx_init(&fx);
    fx.no_agent = true;
    fx_start(&fx);
    fx_vm_end(&fx, BX_VMM_FAILED, "qemu was killed by signal 9");
    expect_failure(BOXLITE_E_ENGINE, "killed by signal 9", NULL);
    fx_done(&fx);
}

TEST(a_guest_that_powers_off_in_the_boot)
{
    fx_init(&fx);
    fx.no_agent = true;
    fx_start(&fx);
    fx_console(&fx, "reboot: Power down\n");
    fx_vm_end(&fx, BX_VMM_OFF, NULL);
    expect_failure(BOXLITE_E_GUEST, "powered off before it was ready", "Power down");
    fx_done(&fx);
}

TEST(a_silent_guest_meets_a_deadline)
{
    fx_init(&fx);
    fx.no_agent = true;
    fx.world.boot_quiet_ms = 5;
    fx_start(&fx);
    expect_failure(BOXLITE_E_GUEST, "no sign of life", "printed nothing");
    fx_done(&fx);
}

TEST(a_boot_that_never_ends_meets_a_deadline)
{
    fx_init(&fx);
    fx.no_ready = true;
    fx.world.boot_ms = 5;
    fx_start(&fx);
    expect_failure(BOXLITE_E_GUEST, "not ready", NULL);
    fx_done(&fx);
}

TEST(an_agent_that_fails_says_why)
{
    fx_init(&fx);
    fx.no_ready = true;
    fx_start(&fx);
    FX_UNTIL(&fx, fx.agent != NULL);
    fx_agent_text(&fx, BX_AG_FAILED, BX_T_ERROR, "mount /dev/vda:\nbad\033 superblock");
    expect_failure(BOXLITE_E_GUEST, "setting the guest up: mount /dev/vda:", NULL);
    ASSERT_NULL(strpbrk(fx.clients[0].error, "\n\033"));
    fx_done(&fx);
}

TEST(garbage_instead_of_an_agent)
{
    fx_init(&fx);
    fx.no_agent = true;
    fx.world.panic_ms = 1;
    fx_start(&fx);
    ASSERT_EQ(write(fx.vm->agent_fd, "login: login: login: login: ", 28), 28);
    expect_failure(BOXLITE_E_GUEST, "agent sent garbage", NULL);
    fx_done(&fx);
}

TEST(an_agent_that_talks_out_of_turn)
{
    fx_init(&fx);
    fx.no_ready = true;
    fx.world.panic_ms = 1;
    fx_start(&fx);
    FX_UNTIL(&fx, fx.agent != NULL);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, UINT64_C(1), BX_T_CODE, UINT64_C(0), 0);
    expect_failure(BOXLITE_E_GUEST, "agent sent garbage", NULL);
    fx_done(&fx);
}

/* ---- a running box that fails */

static void run_with_exec(struct fx_client **ret)
{
    struct fx_client *c = fx_run(&fx);
    ASSERT_EQ(fx_exec(c, false, false), 2);
    ASSERT_EQ(fx_attach(c, 1, 2, 0), 0);
    fx_send(c, BX_SH_WAIT, BX_T_EXEC, UINT64_C(2), 0);
    fx_settle(&fx);
    *ret = c;
}

static void expect_lost(struct fx_client *c)
{
    FX_UNTIL(&fx, c->answered == c->request);
    ASSERT_EQ(fx_answer(c, BX_T_EXIT_FLAGS), BOXLITE_EXIT_BOX_LOST);
    ASSERT_EQ(fx_answer(c, BX_T_CODE), 137);
    ASSERT(c->streams[1][1].eof && c->streams[1][2].eof);
}

TEST(an_engine_that_is_killed_ends_every_command)
{
    struct fx_client *c;
    fx_init(&fx);
    run_with_exec(&c);
    fx_vm_end(&fx, BX_VMM_FAILED, "qemu was killed by signal 9");
    expect_lost(c);
    expect_failure(BOXLITE_E_ENGINE, "killed by signal 9", NULL);
    fx_done(&fx);
}

TEST(a_lost_agent_ends_the_box)
{
    struct fx_client *c;
    fx_init(&fx);
    fx.world.panic_ms = 1;
    run_with_exec(&c);
    bx_conn_io_free(steal_ptr(&fx.agent_io));
    expect_lost(c);
    expect_failure(BOXLITE_E_GUEST, "connection to the guest's agent was lost", NULL);
    ASSERT_EQ(fx.kills, 1);
    fx_done(&fx);
}

TEST(a_panic_of_a_running_guest)
{
    struct fx_client *c;
    fx_init(&fx);
    run_with_exec(&c);
    fx_console(&fx, "[  100.000001] Kernel panic - not syncing: Attempted to kill init!\r\n");
    bx_conn_io_free(steal_ptr(&fx.agent_io)); /* the link ends before the engine does */
    fx_settle(&fx);
    fx_vm_end(&fx, BX_VMM_PANIC, "panic");
    expect_lost(c);
    expect_failure(BOXLITE_E_GUEST, "kernel panicked: Attempted to kill init!", NULL);
    fx_done(&fx);
}

TEST(the_engines_reason_is_better_than_a_lost_link)
{
    struct fx_client *c;
    fx_init(&fx);
    run_with_exec(&c);
    bx_conn_io_free(steal_ptr(&fx.agent_io));
    fx_settle(&fx);
    fx_vm_end(&fx, BX_VMM_FAILED, "qemu was killed by signal 9");
    expect_failure(BOXLITE_E_ENGINE, "killed by signal 9", NULL);
    fx_done(&fx);
}

/* ---- stop */

TEST(stop_asks_the_main_command_then_shuts_down)
{
    struct bx_box_exit e;
    fx_init(&fx);
    main_command();
    fx.config.stop_signal = strdup("SIGINT");
    struct fx_client *c = fx_run(&fx);
    fx_send(c, BX_SH_STOP, BX_T_TIMEOUT_MS, UINT64_C(60000), 0);
    FX_UNTIL(&fx, fx.signals == 1);
    ASSERT_EQ(fx.signal, SIGINT);
    ASSERT_EQ(fx.signal_exec, 1);
    ASSERT_EQ(c->state, BOXLITE_BOX_STOPPING);
    ASSERT(!fx.shutdown);
    fx_exited(&fx, 1, 0);
    FX_UNTIL(&fx, c->answered == c->request);
    ASSERT(!c->refused && fx.shutdown);
    ASSERT_EQ(fx.kills, 0);
    ASSERT(lock_is_free()); /* who has the answer may start it again */
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
    read_exit(&e);
    ASSERT_EQ(e.code, 0);
    ASSERT_NULL(e.error);
    ASSERT_STREQ(e.engine, "fake");
    bx_box_exit_done(&e);
    ASSERT(!fx_exists(&fx, "started"));
    fx_done(&fx);
}

TEST(stop_does_not_wait_for_ever)
{
    fx_init(&fx);
    main_command();
    fx.no_off = true;
    fx.world.shutdown_ms = 1;
    struct fx_client *c = fx_run(&fx);
    ASSERT_EQ(fx_ask(c, BX_SH_STOP, BX_T_TIMEOUT_MS, UINT64_C(1), 0), 0);
    ASSERT_EQ(fx.signals, 1);
    ASSERT(fx.shutdown);
    ASSERT_EQ(fx.kills, 1);
    fx_done(&fx);
}

TEST(an_engine_that_does_not_die_is_let_go)
{
    fx_init(&fx);
    fx.no_off = fx.no_kill = true;
    fx.world.shutdown_ms = fx.world.kill_ms = 1;
    struct fx_client *c = fx_run(&fx);
    ASSERT_EQ(fx_ask(c, BX_SH_STOP, 0), 0);
    ASSERT_NULL(fx.vm);
    fx_done(&fx);
}

TEST(stop_while_booting)
{
    fx_init(&fx);
    fx.no_ready = true;
    struct fx_client *c = fx_start(&fx);
    ASSERT_EQ(fx_ask(c, BX_SH_STOP, 0), 0);
    expect_failure(BOXLITE_E_CANCELLED, "stopped while it started", NULL);
    fx_done(&fx);
}

TEST(all_who_ask_for_the_stop_are_answered)
{
    fx_init(&fx);
    fx.no_off = true;
    struct fx_client *a = fx_run(&fx), *b = fx_connect(&fx);
    fx_send(a, BX_SH_STOP, 0);
    fx_send(b, BX_SH_STOP, BX_T_TIMEOUT_MS, UINT64_C(60000), 0);
    fx_settle(&fx);
    ASSERT_EQ(fx_exec(b, false, false), BOXLITE_E_STATE); /* nothing new in a box that goes */
    b->request--;
    fx_vm_end(&fx, BX_VMM_OFF, NULL);
    FX_UNTIL(&fx, a->answered && b->answered && b->state == BOXLITE_BOX_STOPPED);
    fx_done(&fx);
}

TEST(an_attached_box_dies_with_its_owner)
{
    fx_init(&fx);
    struct fx_client *c = fx_run(&fx), *other = fx_connect(&fx);
    FX_UNTIL(&fx, other->state == BOXLITE_BOX_RUNNING);
    fx_disconnect(c);
    FX_UNTIL(&fx, other->state == BOXLITE_BOX_STOPPED);
    ASSERT_EQ(fx.kills, 1);
    ASSERT(!fx.shutdown);
    fx_done(&fx);
}

TEST(an_attached_box_dies_with_its_owner_while_it_boots)
{
    fx_init(&fx);
    fx.no_ready = true;
    fx_disconnect(fx_start(&fx));
    FX_UNTIL(&fx, bx_shim_done(fx.shim));
    ASSERT_EQ(fx.kills, 1);
    fx_done(&fx);
}

TEST(a_detached_box_outlives_its_starter)
{
    fx_init(&fx);
    fx.config.detached = true;
    fx_disconnect(fx_run(&fx));
    struct fx_client *other = fx_connect(&fx);
    FX_UNTIL(&fx, other->state == BOXLITE_BOX_RUNNING);
    fx_settle(&fx);
    ASSERT_EQ(fx_ask(other, BX_SH_STATUS, 0), 0);
    ASSERT_EQ(fx.kills, 0);
    fx_done(&fx);
}

TEST(an_owner_process_that_ends_takes_the_box_with_it)
{
    int pipe_fds[2];
    fx_init(&fx);
    ASSERT_OK(bx_pipe(pipe_fds));
    pid_t owner = fork();
    if (owner == 0) {
        char c;
        _exit(read(pipe_fds[0], &c, 1) != 1);
    }
    ASSERT_OK(bx_box_config_write(&fx.config, fx.box_fd, ERR));
    struct bx_log log = {0};
    struct bx_shim_args args = {.box_fd = fcntl(fx.box_fd, F_DUPFD_CLOEXEC, 3),
                                .home_fd = fcntl(fx.home_fd, F_DUPFD_CLOEXEC, 3),
                                .control_fd = -1,
                                .owner_pidfd = bx_pidfd_open(owner)};
    ASSERT_OK(bx_shim_new(fx.loop, &log, &fx.world, &args, &fx.shim));
    bx_shim_start(fx.shim);
    FX_UNTIL(&fx, fx.shim->announced);
    ASSERT_EQ(write(pipe_fds[1], "x", 1), 1);
    FX_UNTIL(&fx, bx_shim_done(fx.shim));
    ASSERT_EQ(fx.kills, 1);
    ASSERT_EQ(waitpid(owner, NULL, 0), owner);
    bx_close(&pipe_fds[0]);
    bx_close(&pipe_fds[1]);
    fx_done(&fx);
}

TEST(a_box_to_be_removed_leaves_an_empty_folder)
{
    fx_init(&fx);
    fx.config.auto_remove = true;
    struct fx_client *c = fx_run(&fx);
    ASSERT_EQ(fx_ask(c, BX_SH_STOP, BX_T_TIMEOUT_MS, UINT64_C(10), 0), 0);
    ASSERT(!fx.shutdown); /* its disk need not be tidy */
    ASSERT_EQ(fx.kills, 1);
    ASSERT_OK(unlinkat(tmpdir_fd(), "box", AT_REMOVEDIR));
    fx_done(&fx);
}

TEST(a_box_to_be_removed_still_gives_its_output)
{
    fx_init(&fx);
    fx.config.auto_remove = true;
    main_command();
    struct fx_client *c = fx_run(&fx);
    uint64_t at = 0;
    c->hold = true;
    ASSERT_EQ(fx_attach(c, 1, BX_MAIN_EXEC, 0), 0);
    fx_output_pattern(&fx, BX_MAIN_EXEC, &at, 3u << 20);
    fx_exited(&fx, BX_MAIN_EXEC, 0);
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
    ASSERT(!fx_exists(&fx, "execs"));
    ASSERT(!c->streams[1][1].eof && !bx_shim_done(fx.shim));
    c->hold = false;
    ASSERT_OK(bx_conn_consumed(c->conn, BX_CHANNEL(1, 1), c->streams[1][1].held));
    bx_conn_io_kick(c->io);
    FX_UNTIL(&fx, c->streams[1][1].eof);
    ASSERT_EQ(c->streams[1][1].bytes, at);
    ASSERT(bx_shim_done(fx.shim));
    fx_done(&fx);
}

TEST(a_box_to_be_removed_waits_for_a_starter_slower_than_its_command)
{
    fx_init(&fx);
    fx.config.auto_remove = true;
    main_command();
    struct fx_client *c = fx_run(&fx);
    uint64_t at = 0;
    fx_output_pattern(&fx, BX_MAIN_EXEC, &at, 1000);
    fx_exited(&fx, BX_MAIN_EXEC, 3);
    fx_settle(&fx);
    ASSERT_EQ(c->state, BOXLITE_BOX_RUNNING);
    ASSERT_EQ(fx_attach(c, 1, BX_MAIN_EXEC, 0), 0);
    FX_UNTIL(&fx, c->streams[1][1].eof && bx_shim_done(fx.shim));
    ASSERT_EQ(c->streams[1][1].bytes, at);
    fx_done(&fx);
}

TEST(a_box_to_be_removed_does_not_wait_for_ever)
{
    fx_init(&fx);
    fx.config.auto_remove = true;
    fx.world.follow_ms = 1;
    main_command();
    struct fx_client *c = fx_run(&fx);
    fx_exited(&fx, BX_MAIN_EXEC, 0);
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED && bx_shim_done(fx.shim));
    fx_done(&fx);
}

TEST(a_reader_who_takes_nothing_does_not_keep_a_stopped_box)
{
    fx_init(&fx);
    fx.config.detached = true;
    fx.world.drain_ms = 1;
    main_command();
    fx_disconnect(fx_run(&fx));
    struct fx_client *c = fx_connect(&fx);
    uint64_t at = 0;
    c->hold = true;
    ASSERT_EQ(fx_attach(c, 1, BX_MAIN_EXEC, 0), 0);
    fx_output_pattern(&fx, BX_MAIN_EXEC, &at, 3u << 20);
    fx_exited(&fx, BX_MAIN_EXEC, 0);
    FX_UNTIL(&fx, bx_shim_done(fx.shim));
    ASSERT(!c->streams[1][1].eof);
    fx_done(&fx);
}

TEST(the_time_of_a_box_is_limited)
{
    fx_init(&fx);
    main_command();
    fx.config.timeout_ms = 1;
    struct fx_client *c = fx_run(&fx);
    fx_send(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)BX_MAIN_EXEC, 0);
    FX_UNTIL(&fx, fx.signals == 1);
    ASSERT_EQ(fx.signal, SIGKILL);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, UINT64_C(1), BX_T_SIGNO, UINT64_C(9), 0);
    FX_UNTIL(&fx, c->answered == c->request);
    ASSERT_EQ(fx_answer(c, BX_T_CODE), 124);
    ASSERT_EQ(fx_answer(c, BX_T_EXIT_FLAGS), BOXLITE_EXIT_TIMED_OUT);
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
    fx_done(&fx);
}

/* ---- pause */

TEST(pause_and_resume)
{
    fx_init(&fx);
    struct fx_client *c = fx_run(&fx);
    ASSERT_EQ(fx_ask(c, BX_SH_RESUME, 0), BOXLITE_E_STATE);
    ASSERT_EQ(fx_ask(c, BX_SH_PAUSE, 0), 0);
    ASSERT_EQ(c->state, BOXLITE_BOX_PAUSED);
    ASSERT_EQ(fx_ask(c, BX_SH_PAUSE, 0), BOXLITE_E_STATE);
    ASSERT_EQ(fx_exec(c, false, false), BOXLITE_E_STATE);
    ASSERT_EQ(fx_ask(c, BX_SH_RESUME, 0), 0);
    FX_UNTIL(&fx, fx.clocks == 1);
    ASSERT_EQ(c->state, BOXLITE_BOX_RUNNING);
    fx.no_pause = true;
    ASSERT_EQ(fx_ask(c, BX_SH_PAUSE, 0), BOXLITE_E_ENGINE);
    fx_done(&fx);
}

TEST(a_paused_box_can_be_stopped)
{
    fx_init(&fx);
    struct fx_client *c = fx_run(&fx);
    ASSERT_EQ(fx_ask(c, BX_SH_PAUSE, 0), 0);
    fx.no_off = true;
    fx_send(c, BX_SH_STOP, 0);
    FX_UNTIL(&fx, fx.shutdown && !fx.shim->paused);
    fx_vm_end(&fx, BX_VMM_OFF, NULL);
    FX_UNTIL(&fx, c->answered == c->request);
    ASSERT(!c->refused);
    fx_done(&fx);
}

TEST(statistics_come_from_the_agent)
{
    fx_init(&fx);
    struct fx_client *c = fx_run(&fx);
    ASSERT_EQ(fx_ask(c, BX_SH_STATS, 0), 0);
    ASSERT_EQ(fx_answer(c, BX_T_PIDS), 5);
    fx_done(&fx);
}

/* ---- small parts */

TEST(signals_have_names)
{
    static const struct {
        const char *name;
        int number;
    } cases[] = {{"SIGTERM", 15}, {"term", 15},      {"9", 9},           {"SIGRTMIN+3", 37},
                 {"RTMAX-1", 63}, {"SIGRTMIN", 34},  {"SIGNONSENSE", 0}, {"65", 0},
                 {"", 0},         {"SIGRTMIN+31", 0}};
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        ASSERT_EQ(bx_shim_signal_number(cases[i].name), cases[i].number);
    }
}

TEST(the_console_log_has_a_bound)
{
    struct bx_shim_console c = {.fd = -1};
    char line[1001];
    struct stat st;
    ASSERT_OK(bx_shim_console_open(&c, tmpdir_fd()));
    memset(line, 'x', sizeof(line) - 1);
    line[1000] = '\n';
    for (int i = 0; i < 2000; i++) {
        ASSERT(!bx_shim_console_feed(&c, (uint8_t *)line, sizeof(line)));
    }
    ASSERT_OK(fstat(c.fd, &st));
    ASSERT_LE(st.st_size, 256 << 10);
    ASSERT_GT(st.st_size, 0);
    ASSERT(!bx_shim_console_feed(&c, (const uint8_t *)"a Kernel panic - not syncing: no\n", 33));
    ASSERT(bx_shim_console_feed(&c, (const uint8_t *)"Kernel panic - not syncing: yes\n", 32));
    ASSERT(!bx_shim_console_feed(&c, (const uint8_t *)"Kernel panic - not syncing: again\n", 34));
    ASSERT_STREQ(c.panic, "yes");
    char *last = bx_shim_console_last(&c, 2);
    ASSERT_STREQ(last, "Kernel panic - not syncing: yes | Kernel panic - not syncing: again");
    free(last);
    bx_shim_console_done(&c);
}
