/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_output.c: a command's output, from the guest into its spools and on to its readers.
 *
 * Invariants.
 *  - Bytes are in the spool before any reader gets them, and credit for them goes back to the
 *    guest only then, and only while the spool is within its bound. So nothing is lost, and a
 *    reader who stops stops the command, not the box: the guest can have at most one window
 *    under way per stream.
 *  - A spool gives up its oldest bytes when no attached reader needs them; without a reader a
 *    command never waits.
 *  - A full disk first costs the kept history. Then the command waits, its window of bytes in
 *    memory (`stuck`), until there is space again, or until world.stuck_ms have passed: then it
 *    is killed, and its result says why. Bytes are never dropped from the middle of a stream.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/timeutil.h"
#include "box/shim.h"

#define RETRY_MS 200

static uint32_t channel_of(const struct bx_shim_exec *e, int which)
{
    return BX_CHANNEL(e->number, which + BX_STREAM_OUT);
}

/* The first byte that an attached reader still has to get. */
static uint64_t needed(const struct bx_shim_exec *e, int which)
{
    uint64_t least = UINT64_MAX;
    for (const struct bx_shim_reader *r = e->readers; r; r = r->next_of_exec) {
        if (!r->at[which].done && r->at[which].pos < least) {
            least = r->at[which].pos;
        }
    }
    return least;
}

/* Frees what may go and gives the guest the credit that this allows. */
static void settle(struct bx_shim_exec *e, int which)
{
    struct bx_shim_out *o = &e->out[which];
    struct bx_conn *agent = e->shim->agent;
    if (o->spool.fd >= 0) {
        (void)bx_spool_trim(&o->spool, needed(e, which), o->spool.max);
    }
    if (o->owed == 0 || !agent || (bx_spool_full(&o->spool) && !o->spool.no_holes && !o->reset)) {
        return;
    }
    (void)bx_conn_consumed(agent, channel_of(e, which), o->owed);
    o->owed = 0;
    bx_conn_io_kick(e->shim->agent_io);
}

static int create_spool(struct bx_shim_exec *e, int which)
{
    static const char *const names[] = {"stdout", "stderr"};
    char dir_name[16];
    (void)snprintf(dir_name, sizeof(dir_name), "%u", e->number);
    _cleanup_close_ int dir = bx_open_dir(e->shim->execs.dir, dir_name, 0700);
    return dir < 0 ? dir : bx_spool_create(&e->out[which].spool, dir, names[which]);
}

/* Into the spool and to the readers: 0 or -errno, and then nothing was done. */
static int store(struct bx_shim_exec *e, int which, const uint8_t *p, size_t len)
{
    struct bx_spool *sp = &e->out[which].spool;
    int r = sp->fd < 0 ? create_spool(e, which) : 0;
    if (r < 0) {
        return r;
    }
    r = bx_spool_append(sp, p, len);
    if (r == -ENOSPC || r == -EDQUOT) {
        (void)bx_spool_trim(sp, needed(e, which), 0);
        r = bx_spool_append(sp, p, len);
    }
    if (r < 0) {
        return r;
    }
    for (struct bx_shim_reader *reader = e->readers; reader; reader = reader->next_of_exec) {
        bx_shim_reader_live(reader, which, sp->tail - len, p, len);
    }
    settle(e, which);
    return 0;
}

/* ---- a disk that takes no more */

static bool may_pass(int error)
{
    static const int list[] = {ENOSPC, EDQUOT, ENOMEM, EMFILE, ENFILE, EAGAIN};
    for (size_t i = 0; i < BX_ARRAY_SIZE(list); i++) {
        if (error == -list[i]) {
            return true;
        }
    }
    return false;
}

static void give_up(struct bx_shim_exec *e, int which, int error)
{
    struct bx_shim_out *o = &e->out[which];
    bx_warn(&e->shim->log, "exec", "command %u is killed: its output cannot be kept: %s", e->number,
            strerror(-error));
    o->reset = true;
    bx_buf_done(&o->stuck);
    e->output_error = error;
    _cleanup_error_ boxlite_error *err = NULL;
    (void)bx_shim_exec_signal(e, SIGKILL, &err);
    settle(e, which);
}

static void on_retry(void *data)
{
    bx_shim_execs_retry(data);
}

static void retry_later(struct bx_shim *s)
{
    if (s->stuck) {
        bx_source_set_deadline(s->stuck, bx_deadline_ms(RETRY_MS));
    } else {
        (void)bx_loop_add_timer(s->loop, bx_deadline_ms(RETRY_MS), on_retry, s, &s->stuck);
    }
}

static void get_stuck(struct bx_shim_exec *e, int which, const uint8_t *p, size_t len, int error)
{
    struct bx_shim_out *o = &e->out[which];
    if (o->stuck.max == 0) {
        o->stuck = (struct bx_buf)BX_BUF_INIT(BX_WIRE_WINDOW);
    }
    if (e->stuck_since == 0) {
        e->stuck_since = bx_now_mono();
        bx_warn(&e->shim->log, "exec", "command %u waits: its output cannot be kept: %s", e->number,
                strerror(-error));
    }
    int r = bx_buf_append(&o->stuck, p, len);
    if (r < 0 || !may_pass(error)) {
        give_up(e, which, may_pass(error) ? r : error);
        return;
    }
    retry_later(e->shim);
}

static bool retry(struct bx_shim_exec *e, int which)
{
    struct bx_shim_out *o = &e->out[which];
    if (o->stuck.len == 0) {
        return true;
    }
    int r = store(e, which, bx_buf_data(&o->stuck), o->stuck.len);
    if (r == 0) {
        bx_buf_done(&o->stuck);
        return true;
    }
    if (!may_pass(r) || bx_now_mono() - e->stuck_since >= e->shim->world.stuck_ms * BX_MS) {
        give_up(e, which, r);
        return true;
    }
    return false;
}

void bx_shim_execs_retry(struct bx_shim *s)
{
    bool waiting = false;
    for (size_t i = 0; i < s->execs.n; i++) {
        struct bx_shim_exec *e = s->execs.v[i];
        if (e->stuck_since == 0) {
            continue;
        }
        bool out = retry(e, 0), err = retry(e, 1);
        if (out && err) {
            e->stuck_since = 0;
            bx_shim_exec_settled(e);
        }
        waiting |= !out || !err;
    }
    if (waiting) {
        retry_later(s);
    }
}

/* The last chance of what waits: the box is ending. */
void bx_shim_exec_unstick(struct bx_shim_exec *e)
{
    for (int which = 0; which < 2; which++) {
        struct bx_shim_out *o = &e->out[which];
        int r = o->stuck.len > 0 ? store(e, which, bx_buf_data(&o->stuck), o->stuck.len) : 0;
        if (r < 0) {
            give_up(e, which, r);
        }
        bx_buf_done(&o->stuck);
    }
    e->stuck_since = 0;
}

/* ---- from the agent */

void bx_shim_exec_bytes(struct bx_shim_exec *e, int which, const uint8_t *p, size_t len)
{
    struct bx_shim_out *o = &e->out[which];
    o->owed += len;
    if (o->reset) {
        settle(e, which);
        return;
    }
    int r = o->stuck.len > 0 ? -ENOSPC : store(e, which, p, len);
    if (r < 0) {
        get_stuck(e, which, p, len, r);
    }
}

void bx_shim_exec_out_ended(struct bx_shim_exec *e, int which)
{
    e->out[which].ended = true;
    if (e->out[which].stuck.len == 0) {
        bx_shim_exec_pump(e, which);
    }
}

/* ---- readers */

void bx_shim_exec_pump(struct bx_shim_exec *e, int which)
{
    for (struct bx_shim_reader *r = e->readers; r; r = r->next_of_exec) {
        bx_shim_reader_pump(r, which);
    }
}

void bx_shim_exec_readers_moved(struct bx_shim_exec *e)
{
    for (int which = 0; which < 2; which++) {
        /* Only what was held back can go on now; a live stream trims by itself. */
        if (e->out[which].owed > 0) {
            settle(e, which);
        }
    }
}
