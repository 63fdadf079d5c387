/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_exec.c: the commands of a box: their numbers, states and results.
 *
 * planned -> sent -> running -> ended. Only the main command is ever planned for long: it exists
 * from the shim's first moment, so that clients can attach to it while the guest boots. A command
 * has ended when its result is known and all its output is kept; then its channels are closed and
 * those who wait are told. Results of the main command go to result.json as well, because they are
 * asked for after the box has stopped; other commands are known as long as the shim lives, the
 * last BX_SHIM_ENDED_MAX of them.
 */
#include <errno.h>
#include <signal.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "box/shim.h"
#include "box/shimproc.h"

/* ---- the table */

static size_t lower_bound(const struct bx_shim_execs *t, uint32_t number)
{
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->v[mid]->number < number) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

struct bx_shim_exec *bx_shim_exec_find(struct bx_shim *s, uint32_t number)
{
    size_t i = lower_bound(&s->execs, number);
    return i < s->execs.n && s->execs.v[i]->number == number ? s->execs.v[i] : NULL;
}

bool bx_shim_exec_is_main(const struct bx_shim_exec *e)
{
    return e->shim->config.main && e->number == BX_MAIN_EXEC;
}

static int table_add(struct bx_shim_execs *t, struct bx_shim_exec *e)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 8;
        void *v = reallocarray(t->v, cap, sizeof(*t->v));
        if (!v) {
            return -ENOMEM;
        }
        t->v = v;
        t->cap = cap;
    }
    t->v[t->n++] = e; /* numbers only rise */
    return 0;
}

static void exec_free(struct bx_shim_exec *e)
{
    while (e->readers) {
        bx_shim_reader_free(e->readers);
    }
    for (int i = 0; i < 2; i++) {
        bx_spool_done(&e->out[i].spool);
        bx_buf_done(&e->out[i].stuck);
    }
    if (e->spec) {
        bx_exec_spec_done(e->spec);
        free(e->spec);
    }
    bx_buf_done(&e->in);
    bx_exec_exit_done(&e->exit);
    free(e);
}

int bx_shim_exec_new(struct bx_shim *s, struct bx_exec_spec *spec, struct bx_shim_client *owner,
                     struct bx_shim_exec **ret, boxlite_error **err)
{
    if (s->execs.running >= BX_SHIM_RUNNING_MAX) {
        int r =
            bx_fail(err, BOXLITE_E_BUSY, "%u commands run in the box already", BX_SHIM_RUNNING_MAX);
        bx_hint(err, "wait for one of them to end");
        return r;
    }
    if (s->execs.next > BX_EXEC_MAX) {
        return bx_fail(err, BOXLITE_E_BUSY, "the box has run %u commands: start it again",
                       BX_EXEC_MAX);
    }
    struct bx_shim_exec *e = calloc(1, sizeof(*e));
    struct bx_exec_spec *own = calloc(1, sizeof(*own));
    if (!e || !own || table_add(&s->execs, e) < 0) {
        free(e);
        free(own);
        return bx_fail_oom(err);
    }
    *own = *spec;
    *spec = (struct bx_exec_spec){0};
    own->detached = false; /* none of the guest's business */
    e->shim = s;
    e->number = s->execs.next++;
    e->owner = owner;
    e->spec = own;
    e->tty = own->flags & BX_EXEC_TTY;
    e->has_stdin = own->flags & BX_EXEC_STDIN;
    e->in = (struct bx_buf)BX_BUF_INIT(4 * BX_WIRE_WINDOW);
    e->in_closed = !e->has_stdin;
    for (int i = 0; i < 2; i++) {
        bx_spool_init(&e->out[i].spool, s->world.spool_max);
    }
    s->execs.running++;
    *ret = e;
    return 0;
}

/* ---- start */

static void close_channels(struct bx_shim_exec *e)
{
    for (int i = BX_STREAM_IN; e->shim->agent && i <= BX_STREAM_ERR; i++) {
        bx_conn_close(e->shim->agent, BX_CHANNEL(e->number, i));
    }
}

static int write_exec_msg(struct bx_shim_exec *e)
{
    struct bx_buf *msg = &e->shim->msg;
    int r;
    if ((r = bx_msg_begin(msg, BX_AG_EXEC)) < 0 ||
        (r = bx_msg_u64(msg, BX_T_EXEC, e->number)) < 0) {
        return r;
    }
    return bx_exec_spec_to_msg(e->spec, msg);
}

int bx_shim_exec_send(struct bx_shim_exec *e, boxlite_error **err)
{
    struct bx_shim *s = e->shim;
    int r = s->agent ? 0 : -ENOTCONN;
    for (int i = BX_STREAM_IN; r == 0 && i <= BX_STREAM_ERR; i++) {
        r = bx_conn_open(s->agent, BX_CHANNEL(e->number, i));
    }
    if (r == 0) {
        r = write_exec_msg(e);
    }
    if (r == -ENOBUFS || r == -EMSGSIZE) {
        r = bx_fail(err, BOXLITE_E_INVALID, "arguments and environment are over %u MiB together",
                    BX_FRAME_MSG_MAX >> 20);
    } else if (r < 0) {
        r = bx_fail_errno(err, BOXLITE_E_GUEST, r, "starting a command");
    } else {
        r = bx_shim_agent_send(s, err);
    }
    if (r < 0) {
        close_channels(e);
        return r;
    }
    bx_exec_spec_done(e->spec);
    free(steal_ptr(&e->spec));
    e->state = BX_EXEC_SENT;
    bx_shim_exec_in_writable(e);
    return 0;
}

void bx_shim_exec_cancel(struct bx_shim_exec *e)
{
    e->shim->execs.n--;
    e->shim->execs.running--;
    exec_free(e);
}

void bx_shim_exec_started(struct bx_shim_exec *e, uint64_t pid)
{
    if (e->state != BX_EXEC_SENT) {
        return;
    }
    e->state = BX_EXEC_RUNNING;
    e->pid = pid;
    bx_shim_tell_started(e, NULL);
    if (bx_shim_exec_is_main(e)) {
        bx_shim_main_started(e->shim);
    }
}

int bx_shim_exec_signal(struct bx_shim_exec *e, int signo, boxlite_error **err)
{
    if (e->state == BX_EXEC_ENDED || e->told) {
        return bx_fail(err, BOXLITE_E_STATE, "command %u has ended", e->number);
    }
    if (e->state == BX_EXEC_PLANNED) {
        return bx_fail(err, BOXLITE_E_STATE, "command %u has not started yet", e->number);
    }
    return bx_shim_agent_tell(e->shim, BX_AG_SIGNAL, BX_T_EXEC, e->number, BX_T_SIGNO,
                              (uint64_t)signo, err);
}

int bx_shim_exec_resize(struct bx_shim_exec *e, uint16_t rows, uint16_t cols, boxlite_error **err)
{
    struct bx_shim *s = e->shim;
    if (!e->tty) {
        return bx_fail(err, BOXLITE_E_STATE, "command %u has no terminal", e->number);
    }
    if (e->state == BX_EXEC_PLANNED) { /* it will start with this size */
        e->spec->rows = rows;
        e->spec->cols = cols;
        return 0;
    }
    if (e->told) {
        return bx_fail(err, BOXLITE_E_STATE, "command %u has ended", e->number);
    }
    int r;
    if ((r = bx_msg_begin(&s->msg, BX_AG_RESIZE)) < 0 ||
        (r = bx_msg_u64(&s->msg, BX_T_EXEC, e->number)) < 0 ||
        (r = bx_msg_u64(&s->msg, BX_T_ROWS, rows)) < 0 ||
        (r = bx_msg_u64(&s->msg, BX_T_COLS, cols)) < 0) {
        return bx_fail_errno(err, BOXLITE_E_INTERNAL, r, "writing a message");
    }
    return bx_shim_agent_send(s, err);
}

void bx_shim_exec_owner_gone(struct bx_shim *s, const struct bx_shim_client *client)
{
    for (size_t i = 0; i < s->execs.n; i++) {
        struct bx_shim_exec *e = s->execs.v[i];
        if (e->owner == client) {
            _cleanup_error_ boxlite_error *err = NULL;
            e->owner = NULL;
            (void)bx_shim_exec_signal(e, SIGKILL, &err); /* ended or lost already: just as well */
        }
    }
}

/* ---- end */

static void keep_result(struct bx_shim_exec *e)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "%u", e->number);
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_close_ int dir = bx_open_dir(e->shim->execs.dir, name, 0700);
    if (dir < 0) {
        bx_fail_errno(&err, BOXLITE_E_IO, dir, "creating its folder");
    } else {
        (void)bx_exec_exit_write(&e->exit, dir, "result.json", &err);
    }
    if (err) {
        bx_warn(&e->shim->log, "exec", "the main command's result is not kept: %s",
                boxlite_error_message(err));
    }
}

/* What the shim knows better than the guest. */
static void amend_result(struct bx_shim_exec *e, bool is_main)
{
    if (is_main && e->shim->timed_out) {
        e->exit.flags |= BOXLITE_EXIT_TIMED_OUT;
        e->exit.code = 124;
    }
    if (e->output_error && !e->exit.failure) {
        e->exit.failure =
            bx_asprintf("killed: its output could not be kept: %s", strerror(-e->output_error));
    }
}

/* Called whenever one of the conditions of the end may have come true. */
void bx_shim_exec_settled(struct bx_shim_exec *e)
{
    bool is_main = bx_shim_exec_is_main(e);
    for (int i = 0; i < 2; i++) {
        if (e->out[i].ended && e->out[i].stuck.len == 0) {
            bx_shim_exec_pump(e, i);
        }
    }
    if (!e->told || e->state == BX_EXEC_ENDED || e->out[0].stuck.len || e->out[1].stuck.len) {
        return;
    }
    e->state = BX_EXEC_ENDED;
    e->owner = NULL;
    e->shim->execs.running--;
    amend_result(e, is_main);
    bx_shim_exec_in_closed(e);
    close_channels(e);
    if (is_main) {
        keep_result(e);
    }
    bx_shim_settle(e->shim, BX_PENDING_WAIT, e->number, bx_shim_answer_wait, e);
    bx_shim_reap_later(e->shim);
    if (is_main) {
        bx_shim_main_ended(e->shim);
    }
}

void bx_shim_exec_exited(struct bx_shim_exec *e, struct bx_exec_exit *take)
{
    if (e->told) {
        return;
    }
    e->exit = *take;
    *take = (struct bx_exec_exit){0};
    e->told = true;
    e->out[0].ended = e->out[1].ended = true;
    bx_shim_exec_settled(e);
}

static void lost_result(const struct bx_shim_exec *e, struct bx_exec_exit *ret)
{
    const struct bx_shim *s = e->shim;
    const char *why = s->failure ? boxlite_error_message(s->failure) : "the box was stopped";
    *ret = (struct bx_exec_exit){
        .code = 128 + SIGKILL, .signal = SIGKILL, .flags = BOXLITE_EXIT_BOX_LOST};
    if (e->state == BX_EXEC_PLANNED) {
        ret->flags |= BOXLITE_EXIT_NOT_STARTED;
    }
    ret->failure = strdup(why); /* without memory: without the reason */
}

void bx_shim_execs_lost(struct bx_shim *s)
{
    for (size_t i = 0; i < s->execs.n; i++) {
        struct bx_shim_exec *e = s->execs.v[i];
        struct bx_exec_exit lost = {0};
        if (e->state == BX_EXEC_ENDED) {
            continue;
        }
        bx_shim_exec_unstick(e);
        lost_result(e, &lost);
        bx_shim_exec_exited(e, &lost);
        bx_exec_exit_done(&lost);
        bx_shim_exec_settled(e); /* if only its output was missing */
    }
}

/* ---- old ones */

static bool may_go(const struct bx_shim_exec *e)
{
    bool is_main = bx_shim_exec_is_main(e);
    return e->state == BX_EXEC_ENDED && !e->readers && !is_main;
}

static uint64_t kept_bytes(const struct bx_shim_exec *e)
{
    return e->out[0].spool.tail - e->out[0].spool.head + e->out[1].spool.tail -
           e->out[1].spool.head;
}

static void forget(struct bx_shim *s, size_t i)
{
    struct bx_shim_exec *e = s->execs.v[i];
    char name[16];
    memmove(&s->execs.v[i], &s->execs.v[i + 1], (s->execs.n - i - 1) * sizeof(*s->execs.v));
    s->execs.n--;
    if (e->out[0].spool.fd >= 0 || e->out[1].spool.fd >= 0) {
        (void)snprintf(name, sizeof(name), "%u", e->number);
        (void)bx_rm_rf(s->execs.dir, name);
    }
    exec_free(e);
}

void bx_shim_execs_reap(struct bx_shim *s)
{
    size_t count = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->execs.n; i++) {
        if (may_go(s->execs.v[i])) {
            count++;
            bytes += kept_bytes(s->execs.v[i]);
        }
    }
    for (size_t i = 0;
         i < s->execs.n && (count > BX_SHIM_ENDED_MAX || bytes > BX_SHIM_ENDED_BYTES);) {
        if (!may_go(s->execs.v[i])) {
            i++;
            continue;
        }
        count--;
        bytes -= kept_bytes(s->execs.v[i]);
        forget(s, i);
    }
}

void bx_shim_execs_done(struct bx_shim *s)
{
    while (s->execs.n > 0) {
        exec_free(s->execs.v[--s->execs.n]);
    }
    free(steal_ptr(&s->execs.v));
    bx_close(&s->execs.dir);
}
