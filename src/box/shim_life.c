/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_life.c: the life of a box: boot, run, stop.
 *
 *     BOOT ──agent ready──▶ RUNNING ──stop──▶ STOPPING ──engine ended──▶ (finish) DRAIN ──readers
 *     done──▶ DONE
 *       └──────────any failure──────────────────▲
 * Every end, wanted or not, goes through bx_shim_stop() and then finish(): there the VM is gone
 * for certain, all commands have a result, exit.json is written, the lock is released, and only
 * then anyone is told that the box has stopped. So who hears STOPPED may start or remove the box
 * at once. What is left in DRAIN is a process that holds nothing but the open spools of readers
 * who have not finished.
 *
 * A boot that fails says why at once: the engine's end, a panic line on the console, or the
 * agent's own word, each with the console's last lines. Signs that the engine is about to give a
 * better reason (a panic line, a lost agent) become a `suspicion` that waits world.panic_ms for
 * it. Deadlines are the last resort.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/timeutil.h"
#include "box/shim.h"
#include "box/shim_share.h"
#include "box/shimproc.h"

#define TIMEOUT_GRACE_MS 2000 /* for a command to go after the box's time-out has killed it */

static void finish_later(struct bx_shim *s);

/* ---- state */

int bx_shim_state(const struct bx_shim *s)
{
    switch (s->phase) {
    case BX_PHASE_BOOT:
        return BOXLITE_BOX_STARTING;
    case BX_PHASE_RUNNING:
        if (!s->announced) {
            return BOXLITE_BOX_STARTING;
        }
        return s->paused ? BOXLITE_BOX_PAUSED : BOXLITE_BOX_RUNNING;
    case BX_PHASE_STOPPING:
        return BOXLITE_BOX_STOPPING;
    default:
        return BOXLITE_BOX_STOPPED;
    }
}

const char *bx_shim_state_text(int state)
{
    static const char *const texts[] = {"not started", "starting", "running",
                                        "paused",      "stopping", "stopped"};
    return texts[state];
}

bool bx_shim_done(const struct bx_shim *s)
{
    return s->phase == BX_PHASE_DONE;
}

static void set_step(struct bx_shim *s, uint64_t deadline)
{
    bx_source_set_deadline(s->step, deadline);
}

static void announce(struct bx_shim *s)
{
    if (!s->announced && s->phase == BX_PHASE_RUNNING) {
        s->announced = true;
        bx_source_set_deadline(s->boot_end, BX_NEVER);
        bx_info(&s->log, "box", "running");
        bx_shim_tell_state(s, NULL);
    }
}

/* ---- failures */

/* A failure of the guest says what its console said last, unless it has a better hint. */
static void add_console(struct bx_shim *s, boxlite_error **err)
{
    if (boxlite_error_hint(*err)) {
        return;
    }
    _cleanup_free_ char *last = bx_shim_console_last(&s->console, 4);
    if (last) {
        bx_hint(err, "the guest's console ended with: %s", last);
    } else if (s->vm) {
        bx_hint(err, "the guest's console printed nothing; see engine.log in the box's folder");
    }
}

void bx_shim_fail(struct bx_shim *s, boxlite_error **err)
{
    _cleanup_error_ boxlite_error *e = steal_ptr(err);
    if (!s->failure && e) {
        if (boxlite_error_code(e) == BOXLITE_E_GUEST) {
            add_console(s, &e);
        }
        bx_log(&s->log, BOXLITE_LOG_ERROR, "box", "%s", boxlite_error_message(e));
        s->failure = steal_ptr(&e);
    }
    bx_shim_stop(s, BX_STOP_KILL, 0);
}

/* The box has failed, but the engine may tell the reason better within a moment. */
static void suspect(struct bx_shim *s, boxlite_error *take)
{
    if (s->suspicion || s->phase > BX_PHASE_RUNNING) {
        boxlite_error_free(take);
        return;
    }
    s->suspicion = take;
    set_step(s, bx_deadline_ms(s->world.panic_ms));
}

void bx_shim_panicked(struct bx_shim *s)
{
    boxlite_error *err = NULL;
    bx_fail(&err, BOXLITE_E_GUEST, "the guest's kernel panicked: %s", s->console.panic);
    suspect(s, err);
}

void bx_shim_agent_lost(struct bx_shim *s, int error)
{
    boxlite_error *err = NULL;
    bool stopping = s->phase >= BX_PHASE_STOPPING;
    bx_shim_agent_close(s);
    if (stopping) {
        if (s->stop == BX_STOP_SIGNAL) {
            bx_shim_stop(s, BX_STOP_KILL, 0);
        }
        return;
    }
    if (error == -EPROTONOSUPPORT) {
        bx_fail(&err, BOXLITE_E_GUEST, "the guest's agent is of another version");
        bx_hint(&err, "import the kernel again, which renews the agent: boxlite kernel import");
    } else if (error < 0) {
        bx_fail_errno(&err, BOXLITE_E_GUEST, error, "the guest's agent sent garbage");
    } else {
        bx_fail(&err, BOXLITE_E_GUEST, "the connection to the guest's agent was lost");
    }
    suspect(s, err);
}

/* ---- stop */

static void enter_signal(struct bx_shim *s, uint32_t timeout_ms)
{
    struct bx_shim_exec *e = s->config.main ? bx_shim_exec_find(s, BX_MAIN_EXEC) : NULL;
    _cleanup_error_ boxlite_error *err = NULL;
    int signo = s->config.stop_signal ? bx_shim_signal_number(s->config.stop_signal) : 0;
    if (!e || bx_shim_exec_signal(e, signo ? signo : SIGTERM, &err) < 0) {
        bx_shim_stop(s, BX_STOP_SHUTDOWN, 0);
        return;
    }
    set_step(s, bx_deadline_ms(timeout_ms));
}

static void enter_shutdown(struct bx_shim *s)
{
    _cleanup_error_ boxlite_error *err = NULL;
    /* Who will be removed needs no tidy disk. */
    if (bx_shim_leaves_nothing(s) || bx_shim_agent_tell(s, BX_AG_SHUTDOWN, 0, 0, 0, 0, &err) < 0) {
        bx_shim_stop(s, BX_STOP_KILL, 0);
        return;
    }
    set_step(s, bx_deadline_ms(s->world.shutdown_ms));
}

static void enter_kill(struct bx_shim *s)
{
    if (!s->vm) {
        finish_later(s);
        return;
    }
    set_step(s, bx_deadline_ms(s->world.kill_ms));
    s->engine->kill(s->vm);
}

static void enter_stop(struct bx_shim *s, uint32_t timeout_ms)
{
    if (s->paused && s->stop != BX_STOP_KILL) {
        _cleanup_error_ boxlite_error *err = NULL;
        if (s->engine->resume(s->vm, &err) < 0) {
            s->stop = BX_STOP_KILL;
        }
    }
    if (s->stop == BX_STOP_SIGNAL) {
        enter_signal(s, timeout_ms);
    } else if (s->stop == BX_STOP_SHUTDOWN) {
        enter_shutdown(s);
    } else {
        enter_kill(s);
    }
}

void bx_shim_stop(struct bx_shim *s, enum bx_shim_stop how, uint32_t timeout_ms)
{
    if (s->phase >= BX_PHASE_DRAIN) {
        bx_shim_settle(s, BX_PENDING_STOP, 0, bx_shim_answer_empty, NULL);
        return;
    }
    if (s->phase == BX_PHASE_BOOT) {
        how = BX_STOP_KILL; /* no one is there to be asked */
        if (!s->failure) {
            bx_fail(&s->failure, BOXLITE_E_CANCELLED, "the box was stopped while it started");
        }
    }
    if (how <= s->stop || s->finishing) {
        return;
    }
    bool first = s->phase != BX_PHASE_STOPPING;
    s->phase = BX_PHASE_STOPPING;
    s->stop = how;
    bx_source_set_deadline(s->boot_end, BX_NEVER);
    if (first) {
        bx_shim_tell_state(s, NULL);
    }
    enter_stop(s, timeout_ms);
}

/* The deadline of the present step has passed. */
static void on_step(void *data)
{
    struct bx_shim *s = data;
    _cleanup_error_ boxlite_error *err = steal_ptr(&s->suspicion);
    if (err) {
        bx_shim_fail(s, &err);
    } else if (s->phase == BX_PHASE_BOOT) {
        bx_fail(&err, BOXLITE_E_GUEST, "the guest gave no sign of life for %u s while it booted",
                s->world.boot_quiet_ms / 1000);
        bx_shim_fail(s, &err);
    } else if (s->phase == BX_PHASE_DRAIN) {
        bx_shim_drop_idle(s);
    } else if (s->stop == BX_STOP_KILL) {
        bx_warn(&s->log, "box", "the engine does not end");
        finish_later(s); /* which frees the engine by force */
    } else {
        bx_shim_stop(s, s->stop == BX_STOP_SIGNAL ? BX_STOP_SHUTDOWN : BX_STOP_KILL, 0);
    }
}

static void on_boot_end(void *data)
{
    struct bx_shim *s = data;
    _cleanup_error_ boxlite_error *err = NULL;
    bx_fail(&err, BOXLITE_E_GUEST, "the box was not ready after %u s", s->world.boot_ms / 1000);
    bx_shim_fail(s, &err);
}

static void on_timeout(void *data)
{
    struct bx_shim *s = data;
    struct bx_shim_exec *e = s->config.main ? bx_shim_exec_find(s, BX_MAIN_EXEC) : NULL;
    _cleanup_error_ boxlite_error *err = NULL;
    bool again = s->timed_out;
    s->timed_out = true;
    bx_info(&s->log, "box", "its time is over");
    /* The command goes first, so that its output comes out to the end; that then stops the box. */
    if (again || s->paused || !e || bx_shim_exec_signal(e, SIGKILL, &err) < 0) {
        bx_shim_stop(s, BX_STOP_SHUTDOWN, 0);
        return;
    }
    bx_source_set_deadline(s->timeout, bx_deadline_ms(TIMEOUT_GRACE_MS));
}

/* ---- what the agent and the main command tell */

void bx_shim_alive(struct bx_shim *s)
{
    if (s->phase == BX_PHASE_BOOT && !s->suspicion) {
        set_step(s, bx_deadline_ms(s->world.boot_quiet_ms));
    }
}

void bx_shim_agent_ready(struct bx_shim *s)
{
    if (s->phase != BX_PHASE_BOOT) {
        return;
    }
    s->phase = BX_PHASE_RUNNING;
    if (s->world.running) {
        s->world.running(&s->log);
    }
    if (!s->suspicion) {
        set_step(s, BX_NEVER);
    }
    if (s->config.timeout_ms) {
        bx_source_set_deadline(s->timeout, bx_deadline_ms((int64_t)s->config.timeout_ms));
    }
    struct bx_shim_exec *e = s->config.main ? bx_shim_exec_find(s, BX_MAIN_EXEC) : NULL;
    if (!e) {
        announce(s);
        return;
    }
    _cleanup_error_ boxlite_error *err = NULL;
    if (bx_shim_exec_send(e, &err) < 0) {
        bx_wrap(&err, "main command");
        bx_shim_fail(s, &err);
    }
}

void bx_shim_main_started(struct bx_shim *s)
{
    announce(s);
}

/* A box that leaves nothing behind loses the result of a command that was faster than its starter,
 * who attaches only when it has heard RUNNING: the end waits for that, within limits. */
static bool is_awaited(const struct bx_shim *s)
{
    return s->config.auto_remove && !s->config.detached && s->starter && !s->followed &&
           s->phase == BX_PHASE_RUNNING && s->stop == BX_STOP_NONE;
}

void bx_shim_main_ended(struct bx_shim *s)
{
    if (s->finishing) {
        return;
    }
    announce(s);
    if (is_awaited(s)) {
        set_step(s, bx_deadline_ms(s->world.follow_ms)); /* on_step() ends it */
    } else {
        bx_shim_stop(s, BX_STOP_SHUTDOWN, 0);
    }
}

void bx_shim_main_followed(struct bx_shim *s)
{
    const struct bx_shim_exec *e = bx_shim_exec_find(s, BX_MAIN_EXEC);
    s->followed = true;
    if (e && e->state == BX_EXEC_ENDED && !s->finishing) {
        bx_shim_stop(s, BX_STOP_SHUTDOWN, 0);
    }
}

/* ---- what the engine tells */

static void on_running(void *data)
{
    bx_shim_alive(data);
}

static void on_console(void *data, const uint8_t *p, size_t len)
{
    struct bx_shim *s = data;
    bx_shim_alive(s);
    if (bx_shim_console_feed(&s->console, p, len)) {
        bx_shim_panicked(s);
    }
}

static void on_paused(void *data, bool paused)
{
    struct bx_shim *s = data;
    if (s->paused == paused || s->phase != BX_PHASE_RUNNING) {
        s->paused = paused;
        return;
    }
    s->paused = paused;
    if (!paused) {
        _cleanup_error_ boxlite_error *err = NULL;
        (void)bx_shim_agent_tell(s, BX_AG_CLOCK, BX_T_CLOCK_NS, bx_now_real(), 0, 0, &err);
    }
    bx_shim_tell_state(s, NULL);
    bx_shim_settle(s, paused ? BX_PENDING_PAUSE : BX_PENDING_RESUME, 0, bx_shim_answer_empty, NULL);
}

static void answer_vmm(struct bx_shim_client *c, uint64_t request, void *json)
{
    bx_shim_reply_begin(c, request);
    (void)bx_msg_str(&c->shim->msg, BX_T_TEXT, json);
    bx_shim_reply_send(c);
}

static void on_stats(void *data, const char *json)
{
    bx_shim_settle(data, BX_PENDING_VMM, 0, answer_vmm, (void *)json);
}

int bx_shim_pause(struct bx_shim *s, bool on)
{
    _cleanup_error_ boxlite_error *err = NULL;
    if ((on ? s->engine->pause : s->engine->resume)(s->vm, &err) < 0) {
        bx_shim_settle_error(s, on ? BX_PENDING_PAUSE : BX_PENDING_RESUME, 0, err);
    }
    return 0;
}

/* Why a VM ended that should not have. */
static void blame(struct bx_shim *s, enum bx_vmm_end how, const boxlite_error *error)
{
    _cleanup_error_ boxlite_error *err = NULL;
    const char *when = s->phase == BX_PHASE_BOOT ? " before it was ready" : "";
    if (s->suspicion && (how != BX_VMM_FAILED || s->console.panic)) {
        err = steal_ptr(&s->suspicion); /* said it first, and better */
    } else if (error) {
        bx_fail_copy(&err, boxlite_error_code(error), boxlite_error_errno(error),
                     boxlite_error_message(error), boxlite_error_hint(error));
    } else if (how == BX_VMM_OFF) {
        bx_fail(&err, BOXLITE_E_GUEST, "the guest powered off%s", when);
    } else {
        bx_fail(&err, BOXLITE_E_ENGINE, "the engine ended%s", when);
    }
    add_console(s, &err);
    bx_shim_fail(s, &err);
}

static void on_ended(void *data, enum bx_vmm_end how, const boxlite_error *error)
{
    struct bx_shim *s = data;
    if (s->phase < BX_PHASE_STOPPING) {
        blame(s, how, error);
    } else if (how == BX_VMM_FAILED && s->stop < BX_STOP_KILL) {
        blame(s, how, error); /* its disk may not be in order */
    }
    finish_later(s);
}

static const struct bx_vmm_events vm_events = {
    .running = on_running,
    .console = on_console,
    .ended = on_ended,
    .paused = on_paused,
    .stats = on_stats,
};

/* ---- the end */

static void finish(void *data)
{
    struct bx_shim *s = data;
    s->finish = NULL;
    if (s->finishing) {
        return;
    }
    s->finishing = true;
    s->phase = BX_PHASE_STOPPING;
    if (s->vm) {
        s->engine->free(steal_ptr(&s->vm));
    }
    s->world.passt_free(steal_ptr(&s->passt));
    bx_shim_share_stop(s);
    bx_shim_agent_close(s);
    bx_source_set_deadline(s->timeout, BX_NEVER);
    bx_shim_execs_lost(s);
    bx_shim_files_end(s); /* exit.json and so on; the lock is free from here */
    s->phase = BX_PHASE_DRAIN;
    set_step(s, bx_deadline_ms(s->world.drain_ms));
    bx_shim_settle(s, BX_PENDING_STOP, 0, bx_shim_answer_empty, NULL);
    bx_shim_settle_stopped(s);
    bx_shim_tell_state(s, NULL);
    bx_shim_check_drained(s);
}

static void finish_later(struct bx_shim *s)
{
    if (!s->finish && !s->finishing && bx_loop_add_defer(s->loop, finish, s, &s->finish) < 0) {
        finish(s);
    }
}

void bx_shim_check_drained(struct bx_shim *s)
{
    if (s->phase != BX_PHASE_DRAIN) {
        return;
    }
    for (const struct bx_shim_client *c = s->clients; c; c = c->next) {
        for (const struct bx_shim_reader *r = c->readers; r && !c->dead; r = r->next_of_client) {
            if (!bx_shim_reader_done(r)) {
                return;
            }
        }
    }
    s->phase = BX_PHASE_DONE;
    bx_loop_wakeup(s->loop);
}

/* ---- the beginning */

static void on_owner_gone(void *data, uint32_t events)
{
    struct bx_shim *s = data;
    bx_source_free(steal_ptr(&s->owner));
    bx_shim_stop(s, BX_STOP_KILL, 0);
}

static int watch_owner(struct bx_shim *s, boxlite_error **err)
{
    if (s->args.owner_pidfd < 0 || s->config.detached) {
        return 0;
    }
    int r = bx_loop_add_fd(s->loop, s->args.owner_pidfd, EPOLLIN, on_owner_gone, s, &s->owner);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "watching the owner") : 0;
}

static int adopt_starter(struct bx_shim *s, boxlite_error **err)
{
    if (s->args.control_fd < 0) {
        return 0;
    }
    int r = bx_shim_client_new(s, steal_fd(&s->args.control_fd), &s->starter);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "the starter's connection") : 0;
}

static int plan_main(struct bx_shim *s, boxlite_error **err)
{
    const struct bx_box_config *c = &s->config;
    _cleanup_(bx_exec_spec_done) struct bx_exec_spec spec = {
        .flags = (c->rows ? BX_EXEC_TTY : 0) | (c->stdin_open ? BX_EXEC_STDIN : 0),
        .rows = c->rows,
        .cols = c->cols,
        .cwd = c->workdir ? strdup(c->workdir) : NULL,
        .user = c->user ? strdup(c->user) : NULL,
    };
    struct bx_shim_exec *e;
    if (!c->main) {
        s->execs.next = BX_MAIN_EXEC + 1; /* that number is the main command's, or no one's */
        return 0;
    }
    spec.argv.max = spec.env.max = 65536;
    if (bx_strv_copy(&spec.argv, (const char *const *)c->argv.v, c->argv.n) < 0 ||
        bx_strv_copy(&spec.env, (const char *const *)c->env.v, c->env.n) < 0) {
        return bx_fail_oom(err);
    }
    return bx_shim_exec_new(s, &spec, NULL, &e, err);
}

static int begin(struct bx_shim *s, boxlite_error **err)
{
    int r, agent_fd = -1;
    if ((r = adopt_starter(s, err)) < 0 || (r = bx_shim_files_begin(s, err)) < 0 ||
        (r = watch_owner(s, err)) < 0 || (r = plan_main(s, err)) < 0 ||
        (r = s->args.quiet ? 0 : bx_shim_listen(s, err)) < 0) {
        return r;
    }
    bx_shim_tell_state(s, NULL);
    bx_shim_alive(s);
    bx_source_set_deadline(s->boot_end, bx_deadline_ms(s->world.boot_ms));
    if ((r = bx_shim_boot(s, &vm_events, &agent_fd, err)) < 0) {
        return r;
    }
    return bx_shim_agent_open(s, agent_fd, err);
}

void bx_shim_start(struct bx_shim *s)
{
    _cleanup_error_ boxlite_error *err = NULL;
    if (begin(s, &err) < 0) {
        bx_shim_fail(s, &err);
    }
}

static void on_reap(void *data)
{
    struct bx_shim *s = data;
    s->reaper = NULL;
    bx_shim_clients_reap(s);
    bx_shim_execs_reap(s);
    bx_shim_check_drained(s);
}

void bx_shim_reap_later(struct bx_shim *s)
{
    if (!s->reaper) {
        (void)bx_loop_add_defer(s->loop, on_reap, s, &s->reaper);
    }
}

int bx_shim_new(struct bx_loop *loop, const struct bx_log *log, const struct bx_shim_world *world,
                const struct bx_shim_args *args, struct bx_shim **ret)
{
    struct bx_shim_args own = *args;
    struct bx_shim *s = calloc(1, sizeof(*s));
    if (!s) {
        bx_shim_args_close(&own);
        return -ENOMEM;
    }
    *s = (struct bx_shim){.loop = loop,
                          .log = *log,
                          .world = *world,
                          .args = own,
                          .lock_fd = -1,
                          .listen_fd = -1,
                          .console.fd = -1,
                          .execs.dir = -1,
                          .execs.next = BX_MAIN_EXEC,
                          .msg = BX_BUF_INIT(BX_FRAME_MSG_MAX),
                          .started = (int64_t)(bx_now_real() / BX_SEC)};
    int r;
    if ((r = bx_loop_add_timer(loop, BX_NEVER, on_step, s, &s->step)) < 0 ||
        (r = bx_loop_add_timer(loop, BX_NEVER, on_boot_end, s, &s->boot_end)) < 0 ||
        (r = bx_loop_add_timer(loop, BX_NEVER, on_timeout, s, &s->timeout)) < 0) {
        bx_shim_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void bx_shim_free(struct bx_shim *s)
{
    if (!s) {
        return;
    }
    if (s->vm) {
        s->engine->free(steal_ptr(&s->vm));
    }
    s->world.passt_free(steal_ptr(&s->passt));
    bx_shim_share_stop(s);
    bx_shim_agent_close(s);
    bx_shim_clients_close(s);
    bx_shim_unlisten(s);
    bx_shim_execs_done(s);
    bx_shim_console_done(&s->console);
    struct bx_source *sources[] = {s->step,   s->boot_end, s->timeout, s->owner,
                                   s->finish, s->reaper,   s->stuck};
    for (size_t i = 0; i < BX_ARRAY_SIZE(sources); i++) {
        bx_source_free(sources[i]);
    }
    boxlite_error_free(s->failure);
    boxlite_error_free(s->suspicion);
    if (s->have_config) {
        bx_box_config_done(&s->config);
    }
    bx_close(&s->lock_fd);
    bx_shim_args_close(&s->args);
    bx_buf_done(&s->msg);
    free(s->release);
    free(s);
}
