/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in a box, their output to readers of every pace, their input, and clients that
 * misbehave.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "box/shimproc.h"
#include "shim_fixture.h"

#define MIB (UINT64_C(1) << 20)

static struct fx fx;

static struct fx_client *begin(void)
{
    fx_init(&fx);
    fx.config.detached = true;
    return fx_run(&fx);
}

static void give_credit(struct fx_client *c, uint32_t attachment, int stream)
{
    struct fx_stream *st = &c->streams[attachment][stream];
    ASSERT_OK(bx_conn_consumed(c->conn, BX_CHANNEL(attachment, stream), st->held));
    st->held = 0;
    bx_conn_io_kick(c->io);
}

/* ---- start, result, ownership */

TEST(a_command_gets_the_boxs_defaults_and_its_result_comes_back)
{
    struct fx_client *c = begin();
    int n = fx_exec(c, false, false);
    ASSERT_EQ(n, 2); /* 1 is the main command's, though this box has none */
    ASSERT_STREQ(fx.spec.argv.v[0], "true");
    ASSERT_STREQ(fx.spec.cwd, "/work");
    ASSERT_STREQ(fx.spec.user, "app");
    ASSERT_EQ(fx.spec.env.n, 2);
    ASSERT_STREQ(fx.spec.env.v[0], "A=box");
    ASSERT_STREQ(fx.spec.env.v[1], "B=own");
    ASSERT(!fx.spec.detached);
    ASSERT_EQ(fx_attach(c, 1, (uint32_t)n, 0), 0);
    FX_UNTIL(&fx, c->started == 1);
    ASSERT_EQ(fx_ask(c, BX_SH_LIST, 0), 0);
    ASSERT_EQ(fx_answer(c, BX_T_EXEC), n);
    fx_send(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0);
    fx_output(&fx, (uint32_t)n, BX_STREAM_OUT, "out", 3);
    fx_output(&fx, (uint32_t)n, BX_STREAM_ERR, "error", 5);
    fx_exited(&fx, (uint32_t)n, 5);
    FX_UNTIL(&fx, c->answered == c->request);
    ASSERT_EQ(fx_answer(c, BX_T_CODE), 5);
    ASSERT(c->streams[1][1].eof && c->streams[1][2].eof); /* output first, then the result */
    ASSERT_STREQ(bx_buf_str(&c->streams[1][1].got), "out");
    ASSERT_STREQ(bx_buf_str(&c->streams[1][2].got), "error");
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0), 0); /* again, from memory */
    ASSERT_EQ(fx_answer(c, BX_T_CODE), 5);
    ASSERT_EQ(fx_ask(c, BX_SH_SIGNAL, BX_T_EXEC, (uint64_t)n, BX_T_SIGNO, UINT64_C(15), 0),
              BOXLITE_E_STATE);
    ASSERT_EQ(fx_ask(c, BX_SH_LIST, 0), 0);
    ASSERT_EQ(fx_answer(c, BX_T_EXEC), 0);
    fx_done(&fx);
}

TEST(signals_kills_and_sizes_reach_the_guest)
{
    struct fx_client *c = begin();
    uint64_t n = (uint64_t)fx_exec(c, false, false);
    ASSERT_EQ(fx_ask(c, BX_SH_SIGNAL, BX_T_EXEC, n, BX_T_SIGNO, UINT64_C(15), 0), 0);
    FX_UNTIL(&fx, fx.signals == 1);
    ASSERT_EQ(fx.signal, SIGTERM);
    ASSERT_EQ(fx_ask(c, BX_SH_KILL, BX_T_EXEC, n, 0), 0);
    FX_UNTIL(&fx, fx.signals == 2);
    ASSERT_EQ(fx.signal, SIGKILL);
    ASSERT_EQ(fx_ask(c, BX_SH_SIGNAL, BX_T_EXEC, n, BX_T_SIGNO, UINT64_C(65), 0),
              BOXLITE_E_INVALID);
    ASSERT_EQ(fx_ask(c, BX_SH_SIGNAL, BX_T_EXEC, n + 1, BX_T_SIGNO, UINT64_C(9), 0),
              BOXLITE_E_NOT_FOUND);
    ASSERT_EQ(
        fx_ask(c, BX_SH_RESIZE, BX_T_EXEC, n, BX_T_ROWS, UINT64_C(5), BX_T_COLS, UINT64_C(5), 0),
        BOXLITE_E_STATE); /* it has no terminal */
    fx_done(&fx);
}

TEST(a_command_dies_with_the_connection_that_started_it)
{
    struct fx_client *c = begin(), *other = fx_connect(&fx);
    int owned = fx_exec(other, false, false);
    ASSERT_GT(fx_exec(other, true, false), owned);
    ASSERT_GT(fx_exec(c, false, false), owned);
    fx_disconnect(other);
    FX_UNTIL(&fx, fx.signals == 1);
    ASSERT_EQ(fx.signal, SIGKILL);
    ASSERT_EQ(fx.signal_exec, owned);
    fx_settle(&fx);
    ASSERT_EQ(fx.signals, 1); /* the detached one and the other client's live on */
    fx_done(&fx);
}

TEST(what_cannot_be_asked_is_refused_not_fatal)
{
    struct fx_client *c = begin();
    ASSERT_EQ(fx_ask(c, BX_SH_EXEC, 0), BOXLITE_E_INVALID); /* no program */
    ASSERT_EQ(fx_ask(c, 5000, 0), BOXLITE_E_UNSUPPORTED);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, UINT64_C(77), 0), BOXLITE_E_NOT_FOUND);
    ASSERT_EQ(fx_ask(c, BX_SH_DETACH, BX_T_ATTACHMENT, UINT64_C(7), 0), BOXLITE_E_NOT_FOUND);
    ASSERT_EQ(fx_ask(c, BX_SH_ATTACH, BX_T_EXEC, UINT64_C(2), 0), BOXLITE_E_INVALID);
    int n = fx_exec(c, false, false);
    ASSERT_EQ(fx_attach(c, 1, (uint32_t)n, 0), 0);
    ASSERT_EQ(fx_ask(c, BX_SH_ATTACH, BX_T_EXEC, (uint64_t)n, BX_T_ATTACHMENT, UINT64_C(1), 0),
              BOXLITE_E_INVALID); /* that number is taken */
    fx_output(&fx, (uint32_t)n, BX_STREAM_OUT, "x", 1);
    FX_UNTIL(&fx, c->streams[1][1].bytes == 1); /* and the first one is as it was */
    fx_done(&fx);
}

TEST(ended_commands_are_kept_in_bounded_number)
{
    struct fx_client *c = begin();
    int first = 0;
    for (unsigned i = 0; i < BX_SHIM_ENDED_MAX + 10; i++) {
        int n = fx_exec(c, true, false);
        first = first ? first : n;
        fx_output(&fx, (uint32_t)n, BX_STREAM_OUT, "x", 1);
        fx_exited(&fx, (uint32_t)n, 0);
        ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0), 0);
    }
    fx_settle(&fx);
    ASSERT_LE(fx.shim->execs.n, BX_SHIM_ENDED_MAX);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)first, 0), BOXLITE_E_NOT_FOUND);
    ASSERT(!fx_exists(&fx, "execs/2") && fx_exists(&fx, "execs/70"));
    fx_done(&fx);
}

TEST(too_many_commands_at_once)
{
    struct fx_client *c = begin();
    for (unsigned i = 0; i < BX_SHIM_RUNNING_MAX; i++) {
        ASSERT_GT(fx_exec(c, true, false), 0);
    }
    ASSERT_EQ(fx_exec(c, true, false), BOXLITE_E_BUSY);
    fx_exited(&fx, 2, 0);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, UINT64_C(2), 0), 0);
    ASSERT_GT(fx_exec(c, true, false), 0);
    fx_done(&fx);
}

/* ---- output */

TEST(a_late_reader_gets_all_that_was_kept)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    uint64_t at = 0;
    fx_output_pattern(&fx, n, &at, 3 * MIB);
    fx_exited(&fx, n, 0);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0), 0); /* no one has read a byte */
    c->check = true;
    ASSERT_EQ(fx_attach(c, 1, n, 0), 0);
    FX_UNTIL(&fx, c->streams[1][1].eof);
    ASSERT_EQ(c->streams[1][1].bytes, 3 * MIB);
    c->at = 2 * MIB + 12345;
    ASSERT_EQ(fx_attach(c, 2, n, c->at), 0);
    ASSERT_EQ(fx_answer(c, BX_T_START_OUT), 2 * MIB + 12345);
    FX_UNTIL(&fx, c->streams[2][1].eof);
    ASSERT_EQ(c->at, 3 * MIB);
    fx_done(&fx);
}

TEST(a_reader_who_does_not_follow_gets_what_is_there_then_the_end)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    fx_output(&fx, n, BX_STREAM_OUT, "now", 3);
    fx_settle(&fx);
    fx_open(c, 1);
    ASSERT_EQ(fx_ask(c, BX_SH_ATTACH, BX_T_EXEC, (uint64_t)n, BX_T_ATTACHMENT, UINT64_C(1),
                     BX_T_FOLLOW, UINT64_C(0), 0),
              0);
    FX_UNTIL(&fx, c->streams[1][1].eof && c->streams[1][2].eof);
    fx_output(&fx, n, BX_STREAM_OUT, "later", 5);
    fx_settle(&fx);
    ASSERT_STREQ(bx_buf_str(&c->streams[1][1].got), "now");
    fx_done(&fx);
}

TEST(output_without_a_reader_is_bounded_and_the_command_goes_on)
{
    struct stat st;
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    uint64_t at = 0;
    fx_output_pattern(&fx, n, &at, 20 * MIB); /* kept: 4 MiB */
    fx_exited(&fx, n, 0);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0), 0);
    ASSERT_OK(fstatat(fx.box_fd, "execs/2/stdout", &st, 0));
    ASSERT_EQ(st.st_size, 20 * MIB);
    ASSERT_LE(st.st_blocks * 512, 6 * MIB);
    /* Who comes without the shim finds the place where it begins. */
    struct bx_spool sp = BX_SPOOL_INIT;
    int dir = openat(fx.box_fd, "execs/2", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_OK(bx_spool_open(&sp, dir, "stdout"));
    ASSERT_EQ(sp.tail, 20 * MIB);
    ASSERT_GE(sp.head, 15 * MIB);
    ASSERT_LE(sp.head, 16 * MIB);
    c->at = sp.head;
    c->check = true;
    ASSERT_EQ(fx_attach(c, 1, n, 5), 0);
    ASSERT_EQ(fx_answer(c, BX_T_START_OUT), sp.head);
    FX_UNTIL(&fx, c->streams[1][1].eof);
    ASSERT_EQ(c->at, 20 * MIB);
    bx_spool_done(&sp);
    bx_close(&dir);
    fx_done(&fx);
}

TEST(a_reader_who_stops_stops_the_command_and_nothing_is_lost)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    c->hold = c->check = true;
    c->keep = false;
    ASSERT_EQ(fx_attach(c, 1, n, 0), 0);
    uint8_t piece[4096];
    uint64_t at = 0;
    for (;;) { /* as much as the shim takes */
        for (size_t i = 0; i < sizeof(piece); i++) {
            piece[i] = fx_pattern(at + i);
        }
        size_t sent = fx_output(&fx, n, BX_STREAM_OUT, piece, sizeof(piece));
        at += sent;
        if (sent < sizeof(piece)) {
            fx_settle(&fx);
            if (fx_output(&fx, n, BX_STREAM_OUT, piece, 0) == 0 &&
                bx_conn_room(fx.agent, BX_CHANNEL(n, BX_STREAM_OUT)) == 0) {
                break;
            }
        }
    }
    ASSERT_GE(at, 4 * MIB);
    ASSERT_LE(at, 8 * MIB); /* spool, chunk, windows */
    ASSERT_EQ(c->streams[1][1].bytes, MIB);
    c->hold = false;
    give_credit(c, 1, BX_STREAM_OUT);
    fx_output_pattern(&fx, n, &at, 10 * MIB);
    fx_exited(&fx, n, 0);
    FX_UNTIL(&fx, c->streams[1][1].eof);
    ASSERT_EQ(c->at, at);
    fx_done(&fx);
}

TEST(two_readers_go_at_their_own_pace)
{
    struct fx_client *fast = begin(), *slow = fx_connect(&fx);
    uint32_t n = (uint32_t)fx_exec(fast, true, false);
    fast->check = slow->check = slow->hold = true;
    fast->keep = slow->keep = false;
    ASSERT_EQ(fx_attach(fast, 1, n, 0), 0);
    ASSERT_EQ(fx_attach(slow, 1, n, 0), 0);
    uint64_t at = 0;
    fx_output_pattern(&fx, n, &at, 3 * MIB);
    FX_UNTIL(&fx, fast->at == 3 * MIB); /* though the other one has had one window */
    ASSERT_EQ(slow->at, MIB);
    slow->hold = false;
    give_credit(slow, 1, BX_STREAM_OUT);
    fx_output_pattern(&fx, n, &at, 3 * MIB);
    fx_exited(&fx, n, 0);
    FX_UNTIL(&fx, slow->streams[1][1].eof && fast->streams[1][1].eof);
    ASSERT_EQ(slow->at, 6 * MIB);
    ASSERT_EQ(fast->at, 6 * MIB);
    fx_done(&fx);
}

TEST(a_reader_who_leaves_lets_the_command_go_on)
{
    struct fx_client *c = begin(), *slow = fx_connect(&fx);
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    slow->hold = true;
    ASSERT_EQ(fx_attach(slow, 1, n, 0), 0);
    ASSERT_EQ(fx_attach(slow, 2, n, 0), 0);
    uint64_t at = 0;
    fx_output_pattern(&fx, n, &at, 5 * MIB);
    ASSERT_EQ(fx_ask(slow, BX_SH_DETACH, BX_T_ATTACHMENT, UINT64_C(2), 0), 0);
    fx_disconnect(slow);
    fx_output_pattern(&fx, n, &at, 20 * MIB);
    fx_done(&fx);
}

TEST(a_reset_stream_holds_nothing_back)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    c->hold = true;
    ASSERT_EQ(fx_attach(c, 1, n, 0), 0);
    uint64_t at = 0;
    fx_output_pattern(&fx, n, &at, 2 * MIB);
    ASSERT_OK(bx_conn_send_reset(c->conn, BX_CHANNEL(1, BX_STREAM_OUT)));
    bx_conn_io_kick(c->io);
    fx_output_pattern(&fx, n, &at, 20 * MIB);
    fx_output(&fx, n, BX_STREAM_ERR, "still", 5);
    FX_UNTIL(&fx, c->streams[1][2].bytes == 5);
    fx_done(&fx);
}

/* ---- a disk that is full */

TEST(output_that_cannot_be_kept_ends_the_command_with_the_reason)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    const struct rlimit small = {1 << 20, 1 << 20};
    uint64_t at = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    fx_output_pattern(&fx, n, &at, MIB);
    fx_output_pattern(&fx, n, &at, MIB / 2);
    FX_UNTIL(&fx, fx.signals == 1);
    ASSERT_EQ(fx.signal, SIGKILL);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, (uint64_t)n, BX_T_SIGNO, UINT64_C(9), 0);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0), 0);
    char *why = fx_answer_text(c, BX_T_ERROR);
    ASSERT_CONTAINS(why, "output could not be kept");
    free(why);
    fx_done(&fx);
}

/* A file system of 2 MiB over the box's folder; SKIPs where this is not allowed. */
static void small_disk(struct fx *f)
{
    char path[64];
    if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        SKIP("no rights for a mount namespace");
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", f->box_fd);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", path, "tmpfs", 0, "size=2m") < 0) {
        SKIP("no rights to mount a file system");
    }
    char *box = NULL;
    ASSERT_GT(asprintf(&box, "%s/box", tmpdir()), 0);
    bx_close(&f->box_fd);
    f->box_fd = open(box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(box);
    int fd = openat(f->box_fd, "upper.img", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(write(fd, "x", 1), 1);
    bx_close(&fd);
}

static uint64_t fill_disk(int *ret_fd)
{
    static uint8_t zeros[65536];
    uint64_t n = 0;
    *ret_fd = openat(fx.box_fd, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (ssize_t w; (w = write(*ret_fd, zeros, sizeof(zeros))) > 0;) {
        n += (uint64_t)w;
    }
    return n;
}

TEST(a_full_disk_makes_the_command_wait_until_there_is_room)
{
    int filler;
    fx_init(&fx);
    small_disk(&fx);
    fx.config.detached = true;
    struct fx_client *c = fx_run(&fx);
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    c->check = true;
    ASSERT_EQ(fx_attach(c, 1, n, 0), 0);
    ASSERT_GT(fill_disk(&filler), 0);
    uint64_t at = 0;
    fx_output_pattern(&fx, n, &at, MIB / 2);
    fx_exited(&fx, n, 0);
    fx_send(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0);
    fx_settle(&fx);
    ASSERT_NE(c->answered, c->request);
    ASSERT_EQ(ftruncate(filler, 0), 0);
    FX_UNTIL(&fx, c->answered == c->request);
    ASSERT_EQ(fx_answer(c, BX_T_CODE), 0);
    ASSERT_EQ(c->streams[1][1].bytes, MIB / 2);
    ASSERT(c->streams[1][1].eof);
    bx_close(&filler);
    fx_done(&fx);
}

TEST(a_disk_that_stays_full_ends_the_command)
{
    int filler;
    fx_init(&fx);
    small_disk(&fx);
    fx.config.detached = true;
    fx.world.stuck_ms = 1;
    struct fx_client *c = fx_run(&fx);
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    ASSERT_GT(fill_disk(&filler), 0);
    uint64_t at = 0;
    fx_output_pattern(&fx, n, &at, MIB / 2);
    FX_UNTIL(&fx, fx.signals == 1);
    ASSERT_EQ(fx.signal, SIGKILL);
    fx_output_pattern(&fx, n, &at, 3 * MIB); /* what it says until it dies is swallowed */
    fx_exited(&fx, n, 0);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0), 0);
    char *why = fx_answer_text(c, BX_T_ERROR);
    ASSERT_CONTAINS(why, "No space left");
    free(why);
    bx_close(&filler);
    fx_done(&fx);
}

/* ---- input */

static size_t write_in(struct fx_client *c, uint32_t attachment, size_t len)
{
    static uint8_t piece[65536];
    size_t sent = 0;
    while (sent < len) {
        size_t n = len - sent < sizeof(piece) ? len - sent : sizeof(piece);
        for (size_t i = 0; i < n; i++) {
            piece[i] = fx_pattern(fx.clients[0].at + sent + i);
        }
        ssize_t r = bx_conn_send(c->conn, BX_CHANNEL(attachment, BX_STREAM_IN), piece, n);
        ASSERT_OK(r);
        bx_conn_io_kick(c->io);
        sent += (size_t)r;
        if ((size_t)r < n) {
            fx_settle(&fx);
            if (bx_conn_room(c->conn, BX_CHANNEL(attachment, BX_STREAM_IN)) == 0) {
                break;
            }
        }
    }
    c->at += sent;
    return sent;
}

static int attach_in(struct fx_client *c, uint32_t attachment, uint32_t exec)
{
    fx_open(c, attachment);
    return fx_ask(c, BX_SH_ATTACH, BX_T_EXEC, (uint64_t)exec, BX_T_ATTACHMENT, (uint64_t)attachment,
                  BX_T_STDIN, UINT64_C(1), 0);
}

TEST(input_arrives_whole_with_its_end)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, true);
    ASSERT_EQ(attach_in(c, 1, n), 0);
    ASSERT_EQ(write_in(c, 1, 5 * MIB), 5 * MIB);
    ASSERT_OK(bx_conn_send_eof(c->conn, BX_CHANNEL(1, BX_STREAM_IN)));
    bx_conn_io_kick(c->io);
    FX_UNTIL(&fx, fx.in_eof);
    ASSERT_EQ(fx.in_bytes, 5 * MIB);
    for (uint64_t i = 0; i < 5 * MIB; i++) {
        if (bx_buf_data(&fx.in)[i] != fx_pattern(i)) {
            FAIL("a wrong byte at %" PRIu64, i);
        }
    }
    fx_done(&fx);
}

TEST(a_command_that_does_not_read_stops_its_writer)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, true);
    fx.in_hold = true;
    ASSERT_EQ(attach_in(c, 1, n), 0);
    size_t taken = write_in(c, 1, 20 * MIB);
    ASSERT_GE(taken, MIB);
    ASSERT_LE(taken, 3 * MIB);
    fx.in_hold = false;
    ASSERT_OK(bx_conn_consumed(fx.agent, BX_CHANNEL(n, BX_STREAM_IN), fx.in_bytes));
    bx_conn_io_kick(fx.agent_io);
    FX_UNTIL(&fx, fx.in_bytes == taken);
    fx_done(&fx);
}

TEST(one_writer_at_a_time_and_then_the_next)
{
    struct fx_client *a = begin(), *b = fx_connect(&fx);
    uint32_t n = (uint32_t)fx_exec(a, true, true), deaf = (uint32_t)fx_exec(a, true, false);
    ASSERT_EQ(attach_in(a, 1, n), 0);
    ASSERT_EQ(attach_in(b, 1, n), BOXLITE_E_BUSY);
    ASSERT_EQ(attach_in(b, 2, deaf), BOXLITE_E_STATE);
    fx.in_hold = true;
    size_t taken = write_in(a, 1, 20 * MIB);
    fx_disconnect(a);
    fx_settle(&fx);
    ASSERT_EQ(attach_in(b, 3, n), 0); /* the input is still open */
    ASSERT_OK(bx_conn_send(b->conn, BX_CHANNEL(3, BX_STREAM_IN), "last", 4));
    ASSERT_OK(bx_conn_send_eof(b->conn, BX_CHANNEL(3, BX_STREAM_IN)));
    bx_conn_io_kick(b->io);
    fx_settle(&fx);
    ASSERT(!fx.in_eof);
    fx.in_hold = false;
    ASSERT_OK(bx_conn_consumed(fx.agent, BX_CHANNEL(n, BX_STREAM_IN), fx.in_bytes));
    bx_conn_io_kick(fx.agent_io);
    FX_UNTIL(&fx, fx.in_eof);
    ASSERT_EQ(fx.in_bytes, taken + 4);
    ASSERT_MEM(bx_buf_data(&fx.in) + taken, "last", 4);
    fx_done(&fx);
}

TEST(a_command_that_closes_its_input_tells_the_writer)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, true);
    fx.in_hold = true;
    ASSERT_EQ(attach_in(c, 1, n), 0);
    (void)write_in(c, 1, 20 * MIB);
    ASSERT_OK(bx_conn_send_reset(fx.agent, BX_CHANNEL(n, BX_STREAM_IN)));
    bx_conn_io_kick(fx.agent_io);
    FX_UNTIL(&fx, c->streams[1][0].reset);
    ASSERT_EQ(write_in(c, 1, 20 * MIB), 20 * MIB); /* to nowhere, and without waiting */
    fx_disconnect(c);
    struct fx_client *late = fx_connect(&fx);
    ASSERT_EQ(attach_in(late, 1, n), 0);
    FX_UNTIL(&fx, late->streams[1][0].reset);
    fx_done(&fx);
}

TEST(input_for_the_main_command_waits_for_the_guest)
{
    fx_init(&fx);
    fx.config.main = fx.config.stdin_open = true;
    ASSERT_OK(bx_strv_add(&fx.config.argv, "cat"));
    fx.no_ready = true;
    struct fx_client *c = fx_start(&fx);
    ASSERT_EQ(attach_in(c, 1, BX_MAIN_EXEC), 0);
    ASSERT_OK(bx_conn_send(c->conn, BX_CHANNEL(1, BX_STREAM_IN), "early", 5));
    ASSERT_OK(bx_conn_send_eof(c->conn, BX_CHANNEL(1, BX_STREAM_IN)));
    bx_conn_io_kick(c->io);
    fx_settle(&fx);
    FX_UNTIL(&fx, fx.agent != NULL);
    fx_agent_text(&fx, BX_AG_READY, BX_T_RELEASE, "6.1");
    FX_UNTIL(&fx, fx.in_eof);
    ASSERT_STREQ(bx_buf_str(&fx.in), "early");
    fx_done(&fx);
}

/* ---- clients */

TEST(a_client_that_breaks_the_protocol_loses_only_its_connection)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    ASSERT_EQ(fx_attach(c, 1, n, 0), 0);
    static const char *const lines[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "\0\0\0\0\0\0\0\0\0\0\0\0"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(lines); i++) {
        char end[256];
        int fd = bx_unix_connect(fx.box_fd, BX_CONTROL_SOCKET);
        ASSERT_OK(fd);
        ASSERT_EQ(write(fd, lines[i], 12), 12);
        ssize_t got;
        uint64_t deadline = fx_deadline();
        while ((got = read(fd, end, sizeof(end))) != 0) {
            if (got < 0 && errno == ECONNRESET) {
                break;
            }
            ASSERT(got > 0 || errno == EAGAIN);
            fx_turn(&fx, deadline, __LINE__, "the connection ends");
        }
        bx_close(&fd);
    }
    fx_output(&fx, n, BX_STREAM_OUT, "x", 1);
    FX_UNTIL(&fx, c->streams[1][1].bytes == 1);
    fx_done(&fx);
}

TEST(a_request_without_a_number_ends_the_connection)
{
    struct fx_client *c = begin(), *other = fx_connect(&fx);
    struct bx_buf b = BX_BUF_INIT(100);
    ASSERT_OK(bx_msg_begin(&b, BX_SH_STATUS));
    ASSERT_OK(bx_conn_msg(other->conn, &b));
    bx_conn_io_kick(other->io);
    bx_buf_done(&b);
    FX_UNTIL(&fx, other->closed);
    ASSERT_EQ(fx_ask(c, BX_SH_STATUS, 0), 0);
    fx_done(&fx);
}

TEST(a_client_that_leaves_in_the_middle_leaves_nothing)
{
    struct fx_client *c = begin();
    for (int i = 0; i < 20; i++) {
        struct fx_client *other = fx_connect(&fx);
        uint32_t n = (uint32_t)fx_exec(other, true, true);
        uint64_t at = 0;
        other->hold = true;
        ASSERT_EQ(attach_in(other, 1, n), 0);
        fx_output_pattern(&fx, n, &at, 2 * MIB);
        fx_send(other, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0);
        fx_settle(&fx);
        fx_disconnect(other);
        fx_exited(&fx, n, 0);
        ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0), 0);
        fx_settle(&fx);
    }
    ASSERT_EQ(fx.shim->nclients, 1);
    ASSERT_NULL(fx.shim->pending);
    fx_done(&fx);
}

TEST(connections_have_a_bound)
{
    struct fx_client *c = begin();
    for (unsigned i = 1; i < BX_SHIM_CLIENTS_MAX; i++) {
        struct fx_client *other = fx_connect(&fx);
        FX_UNTIL(&fx, other->state == BOXLITE_BOX_RUNNING);
    }
    struct fx_client *more = fx_connect(&fx);
    FX_UNTIL(&fx, more->closed);
    ASSERT_EQ(more->state, -1);
    fx_disconnect(&fx.clients[1]);
    fx_settle(&fx);
    struct fx_client *again = fx_connect(&fx);
    FX_UNTIL(&fx, again->state == BOXLITE_BOX_RUNNING);
    ASSERT_EQ(fx_ask(c, BX_SH_STATUS, 0), 0);
    fx_done(&fx);
}

TEST(unanswered_requests_have_a_bound)
{
    struct fx_client *c = begin();
    uint64_t n = (uint64_t)fx_exec(c, true, false);
    for (unsigned i = 0; i < BX_SHIM_PENDING_MAX; i++) {
        fx_send(c, BX_SH_WAIT, BX_T_EXEC, n, 0);
    }
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, n, 0), BOXLITE_E_BUSY);
    fx_exited(&fx, (uint32_t)n, 0);
    fx_settle(&fx);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, n, 0), 0);
    fx_done(&fx);
}

TEST(a_wait_can_be_withdrawn)
{
    struct fx_client *c = begin();
    struct fx_client *other = fx_connect(&fx);
    uint64_t n = (uint64_t)fx_exec(c, true, false);
    FX_UNTIL(&fx, other->state == BOXLITE_BOX_RUNNING);
    for (unsigned i = 0; i < 2 * BX_SHIM_PENDING_MAX; i++) {
        fx_send(c, BX_SH_WAIT, BX_T_EXEC, n, 0);
        uint64_t which = c->request;
        ASSERT_EQ(fx_ask(other, BX_SH_CANCEL, BX_T_WHICH, which, 0), 0); /* not theirs */
        ASSERT_EQ(fx_ask(c, BX_SH_CANCEL, BX_T_WHICH, which, 0), 0);
    }
    fx_send(c, BX_SH_WAIT, BX_T_EXEC, n, 0);
    uint64_t last = c->request;
    fx_exited(&fx, (uint32_t)n, 3);
    FX_UNTIL(&fx, c->answered == last);
    ASSERT_EQ(fx_ask(c, BX_SH_CANCEL, BX_T_WHICH, last, 0), 0); /* too late is no error */
    fx_done(&fx);
}

/* ---- a guest that misbehaves */

TEST(a_guest_that_names_commands_that_are_not_is_ignored)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    fx_agent_msg(&fx, BX_AG_STARTED, BX_T_EXEC, UINT64_C(99), 0);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, UINT64_C(99), BX_T_CODE, UINT64_C(0), 0);
    fx_agent_msg(&fx, BX_AG_STATS_REPLY, BX_T_REQUEST, UINT64_C(99), 0);
    fx_agent_msg(&fx, 999, BX_T_REQUEST, UINT64_C(99), 0);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, (uint64_t)n, BX_T_CODE, UINT64_C(4), 0);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, (uint64_t)n, BX_T_CODE, UINT64_C(5), 0);
    ASSERT_EQ(fx_ask(c, BX_SH_WAIT, BX_T_EXEC, (uint64_t)n, 0), 0);
    ASSERT_EQ(fx_answer(c, BX_T_CODE), 4);
    fx_done(&fx);
}

TEST(a_guest_that_sends_a_bad_result_loses_the_box)
{
    struct fx_client *c = begin();
    fx.shim->world.panic_ms = 1;
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, (uint64_t)n, BX_T_CODE, UINT64_C(256), 0);
    FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
    ASSERT_EQ(c->code, BOXLITE_E_GUEST);
    fx_done(&fx);
}

TEST(output_without_an_end_before_the_result_is_ended)
{
    struct fx_client *c = begin();
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    ASSERT_EQ(fx_attach(c, 1, n, 0), 0);
    fx_output(&fx, n, BX_STREAM_OUT, "x", 1);
    fx_agent_msg(&fx, BX_AG_EXITED, BX_T_EXEC, (uint64_t)n, BX_T_CODE, UINT64_C(0), 0);
    FX_UNTIL(&fx, c->streams[1][1].eof && c->streams[1][2].eof);
    ASSERT_EQ(c->streams[1][1].bytes, 1);
    fx_done(&fx);
}
