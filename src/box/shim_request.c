/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_request.c: what clients ask for, one function each (wire/proto.h, BX_SH_*).
 *
 * A function answers by a reply, or leaves a pending answer (`pend`), or returns a negative code
 * with an error, which becomes the REPLY_ERROR. Only a message that no client of ours would send
 * ends the connection: one without a request number or with damaged fields.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>

#include "base/error.h"
#include "base/timeutil.h"
#include "box/shim.h"
#include "box/shimproc.h"

struct request {
    struct bx_shim_client *client;
    struct bx_shim *s;
    uint64_t number;
    const struct bx_msg *m;
};

static int bad(boxlite_error **err, const char *what)
{
    return bx_fail(err, BOXLITE_E_INVALID, "a request with a bad %s", what);
}

static uint64_t number_or(const struct request *q, uint16_t tag, uint64_t max, uint64_t otherwise)
{
    uint64_t v = otherwise;
    return bx_msg_get_u64(q->m, tag, max, &v) == 0 ? v : otherwise;
}

static void reply_empty(const struct request *q)
{
    bx_shim_reply_begin(q->client, q->number);
    bx_shim_reply_send(q->client);
}

static int find_exec(const struct request *q, struct bx_shim_exec **ret, boxlite_error **err)
{
    uint64_t n = number_or(q, BX_T_EXEC, BX_EXEC_MAX, 0);
    struct bx_shim_exec *e = bx_shim_exec_find(q->s, (uint32_t)n);
    if (!e) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "the box has no command %" PRIu64, n);
    }
    *ret = e;
    return 0;
}

static int need_running(const struct request *q, boxlite_error **err)
{
    int state = bx_shim_state(q->s);
    if (state == BOXLITE_BOX_RUNNING) {
        return 0;
    }
    int r = bx_fail(err, BOXLITE_E_STATE, "the box is %s", bx_shim_state_text(state));
    if (state == BOXLITE_BOX_PAUSED) {
        bx_hint(err, "resume it first");
    }
    return r;
}

/* ---- the box */

static int do_status(const struct request *q, boxlite_error **err)
{
    struct bx_shim *s = q->s;
    struct bx_buf *msg = &s->msg;
    bx_shim_reply_begin(q->client, q->number);
    (void)bx_msg_u64(msg, BX_T_STATE, (uint64_t)bx_shim_state(s));
    (void)bx_msg_str(msg, BX_T_ENGINE, s->engine ? s->engine->name : NULL);
    if (s->config.main) {
        (void)bx_msg_u64(msg, BX_T_EXEC, BX_MAIN_EXEC);
    }
    (void)bx_msg_u64(msg, BX_T_PID, (uint64_t)getpid());
    (void)bx_msg_u64(msg, BX_T_STARTED_NS, (uint64_t)s->started * BX_SEC);
    (void)bx_msg_str(msg, BX_T_RELEASE, s->release);
    bx_shim_reply_send(q->client);
    return 0;
}

static int do_pause(const struct request *q, boxlite_error **err)
{
    int r = need_running(q, err);
    if (r == 0) {
        r = bx_shim_pend(q->client, q->number, BX_PENDING_PAUSE, 0, err);
    }
    return r < 0 ? r : bx_shim_pause(q->s, true);
}

static int do_resume(const struct request *q, boxlite_error **err)
{
    int state = bx_shim_state(q->s);
    if (state != BOXLITE_BOX_PAUSED) {
        return bx_fail(err, BOXLITE_E_STATE, "the box is %s, not paused",
                       bx_shim_state_text(state));
    }
    int r = bx_shim_pend(q->client, q->number, BX_PENDING_RESUME, 0, err);
    return r < 0 ? r : bx_shim_pause(q->s, false);
}

static int do_stop(const struct request *q, boxlite_error **err)
{
    uint32_t ms = (uint32_t)number_or(q, BX_T_TIMEOUT_MS, UINT32_MAX, 0);
    int r = bx_shim_pend(q->client, q->number, BX_PENDING_STOP, 0, err);
    if (r == 0) {
        bx_shim_stop(q->s, ms ? BX_STOP_SIGNAL : BX_STOP_SHUTDOWN, ms);
    }
    return r;
}

static int do_stats(const struct request *q, boxlite_error **err)
{
    uint64_t query = q->s->next_query + 1;
    int r = need_running(q, err);
    if (r == 0) {
        r = bx_shim_pend(q->client, q->number, BX_PENDING_STATS, query, err);
    }
    if (r < 0) {
        return r;
    }
    q->s->next_query = query;
    _cleanup_error_ boxlite_error *failed = NULL;
    if (bx_shim_agent_tell(q->s, BX_AG_STATS, BX_T_REQUEST, query, 0, 0, &failed) < 0) {
        bx_shim_settle_error(q->s, BX_PENDING_STATS, query, failed);
    }
    return 0;
}

static int do_vmm(const struct request *q, boxlite_error **err)
{
    struct bx_shim *s = q->s;
    int state = bx_shim_state(s);
    if (state != BOXLITE_BOX_RUNNING && state != BOXLITE_BOX_PAUSED) {
        return bx_fail(err, BOXLITE_E_STATE, "the box is %s", bx_shim_state_text(state));
    }
    if (!s->engine->stats) {
        return bx_fail(err, BOXLITE_E_UNSUPPORTED, "the engine %s says nothing of itself",
                       s->engine->name);
    }
    int r = bx_shim_pend(q->client, q->number, BX_PENDING_VMM, 0, err);
    if (r < 0) {
        return r;
    }
    _cleanup_error_ boxlite_error *failed = NULL;
    if (s->engine->stats(s->vm, &failed) < 0) {
        bx_shim_settle_error(s, BX_PENDING_VMM, 0, failed);
    }
    return 0;
}

/* ---- commands */

/* The box's environment, with the command's own over it. */
static int merge_env(const struct bx_box_config *c, struct bx_exec_spec *spec)
{
    struct bx_strv env = {.max = 65536};
    int r = 0;
    for (size_t i = 0; i < c->env.n && r == 0; i++) {
        r = bx_strv_add(&env, c->env.v[i]);
    }
    for (size_t i = 0; i < spec->env.n && r == 0; i++) {
        char *eq = strchr(spec->env.v[i], '='); /* there is one: bx_exec_spec_from_msg() */
        *eq = '\0';
        r = bx_strv_setenv(&env, spec->env.v[i], eq + 1);
    }
    if (r < 0) {
        bx_strv_done(&env);
        return r;
    }
    bx_strv_done(&spec->env);
    spec->env = env;
    return 0;
}

static int default_str(char **p, const char *value)
{
    if (*p || !value) {
        return 0;
    }
    *p = strdup(value);
    return *p ? 0 : -ENOMEM;
}

static int complete_spec(const struct bx_box_config *c, struct bx_exec_spec *spec,
                         boxlite_error **err)
{
    int r = merge_env(c, spec);
    if (r == 0 && !spec->builtin) {
        r = default_str(&spec->cwd, c->workdir);
    }
    if (r == 0 && !spec->builtin) {
        r = default_str(&spec->user, c->user);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_INVALID, r, "environment") : 0;
}

static int do_exec(const struct request *q, boxlite_error **err)
{
    _cleanup_(bx_exec_spec_done) struct bx_exec_spec spec = {0};
    struct bx_shim_exec *e;
    int r = need_running(q, err);
    if (r < 0) {
        return r;
    }
    if (bx_exec_spec_from_msg(q->m, &spec) < 0) {
        return bad(err, "command");
    }
    bool detached = spec.detached;
    if ((r = complete_spec(&q->s->config, &spec, err)) < 0 ||
        (r = bx_shim_exec_new(q->s, &spec, detached ? NULL : q->client, &e, err)) < 0) {
        return r;
    }
    if ((r = bx_shim_exec_send(e, err)) < 0) {
        bx_shim_exec_cancel(e);
        return r;
    }
    bx_shim_reply_begin(q->client, q->number);
    (void)bx_msg_u64(&q->s->msg, BX_T_EXEC, e->number);
    bx_shim_reply_send(q->client);
    return 0;
}

static void send_attached(const struct request *q, const struct bx_shim_reader *reader)
{
    bx_shim_reply_begin(q->client, q->number);
    (void)bx_msg_u64(&q->s->msg, BX_T_START_OUT, reader->at[0].pos);
    (void)bx_msg_u64(&q->s->msg, BX_T_START_ERR, reader->at[1].pos);
    bx_shim_reply_send(q->client);
}

static int do_attach(const struct request *q, boxlite_error **err)
{
    struct bx_shim_exec *e;
    struct bx_shim_reader *reader;
    struct bx_shim_attach how = {
        .attachment = (uint32_t)number_or(q, BX_T_ATTACHMENT, BX_EXEC_MAX, 0),
        .offset = {number_or(q, BX_T_OFFSET_OUT, UINT64_MAX / 2, 0),
                   number_or(q, BX_T_OFFSET_ERR, UINT64_MAX / 2, 0)},
        .follow = number_or(q, BX_T_FOLLOW, 1, 1),
        .input = number_or(q, BX_T_STDIN, 1, 0),
    };
    if (how.attachment == 0) {
        return bad(err, "attachment");
    }
    int r = find_exec(q, &e, err);
    if (r == 0) {
        r = bx_shim_reader_new(q->client, e, &how, &reader, err);
    }
    if (r < 0) {
        return r;
    }
    send_attached(q, reader);
    if (e->pid) {
        bx_shim_tell_started(e, q->client);
    }
    if (how.input && e->in_closed) {
        (void)bx_conn_send_reset(q->client->conn, BX_CHANNEL(how.attachment, BX_STREAM_IN));
    }
    bx_shim_reader_pump(reader, 0);
    bx_shim_reader_pump(reader, 1);
    if (q->s->config.main && e->number == BX_MAIN_EXEC) {
        bx_shim_main_followed(q->s);
    }
    return 0;
}

static int do_detach(const struct request *q, boxlite_error **err)
{
    uint64_t n = number_or(q, BX_T_ATTACHMENT, BX_EXEC_MAX, 0);
    struct bx_shim_reader *reader = bx_shim_reader_find(q->client, (uint32_t)n);
    if (!reader) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "no attachment %" PRIu64, n);
    }
    bx_shim_reader_free(reader);
    reply_empty(q);
    bx_shim_check_drained(q->s);
    return 0;
}

void bx_shim_answer_wait(struct bx_shim_client *c, uint64_t request, void *exec)
{
    const struct bx_shim_exec *e = exec;
    bx_shim_reply_begin(c, request);
    (void)bx_msg_u64(&c->shim->msg, BX_T_EXEC, e->number);
    (void)bx_exec_exit_to_msg(&e->exit, &c->shim->msg);
    bx_shim_reply_send(c);
}

static int do_wait(const struct request *q, boxlite_error **err)
{
    struct bx_shim_exec *e;
    int r = find_exec(q, &e, err);
    if (r < 0) {
        return r;
    }
    if (e->state != BX_EXEC_ENDED) {
        return bx_shim_pend(q->client, q->number, BX_PENDING_WAIT, e->number, err);
    }
    bx_shim_answer_wait(q->client, q->number, e);
    return 0;
}

static int do_cancel(const struct request *q, boxlite_error **err)
{
    _cleanup_error_ boxlite_error *withdrawn = NULL;
    bx_fail(&withdrawn, BOXLITE_E_CANCELLED, "nobody waits for it any more");
    bx_shim_withdraw(q->client, BX_PENDING_WAIT, number_or(q, BX_T_WHICH, UINT64_MAX, 0),
                     withdrawn);
    reply_empty(q);
    return 0;
}

static int do_signal(const struct request *q, boxlite_error **err)
{
    struct bx_shim_exec *e;
    uint64_t signo = number_or(q, BX_T_SIGNO, 64, 0);
    int r = signo ? find_exec(q, &e, err) : bad(err, "signal");
    if (r == 0) {
        r = bx_shim_exec_signal(e, (int)signo, err);
    }
    if (r == 0) {
        reply_empty(q);
    }
    return r;
}

static int do_kill(const struct request *q, boxlite_error **err)
{
    struct bx_shim_exec *e;
    int r = find_exec(q, &e, err);
    if (r == 0) {
        r = bx_shim_exec_signal(e, SIGKILL, err);
    }
    if (r == 0) {
        reply_empty(q);
    }
    return r;
}

static int do_resize(const struct request *q, boxlite_error **err)
{
    struct bx_shim_exec *e;
    uint64_t rows = number_or(q, BX_T_ROWS, UINT16_MAX, 0);
    uint64_t cols = number_or(q, BX_T_COLS, UINT16_MAX, 0);
    int r = rows && cols ? find_exec(q, &e, err) : bad(err, "size");
    if (r < 0) {
        return r;
    }
    if ((r = bx_shim_exec_resize(e, (uint16_t)rows, (uint16_t)cols, err)) == 0) {
        reply_empty(q);
    }
    return r;
}

static int do_list(const struct request *q, boxlite_error **err)
{
    const struct bx_shim_execs *t = &q->s->execs;
    bx_shim_reply_begin(q->client, q->number);
    for (size_t i = 0; i < t->n; i++) {
        if (t->v[i]->state != BX_EXEC_ENDED) {
            (void)bx_msg_u64(&q->s->msg, BX_T_EXEC, t->v[i]->number);
        }
    }
    bx_shim_reply_send(q->client);
    return 0;
}

static const struct {
    uint16_t type;
    int (*fn)(const struct request *q, boxlite_error **err);
} requests[] = {
    {BX_SH_STATUS, do_status}, {BX_SH_EXEC, do_exec},     {BX_SH_ATTACH, do_attach},
    {BX_SH_DETACH, do_detach}, {BX_SH_WAIT, do_wait},     {BX_SH_SIGNAL, do_signal},
    {BX_SH_RESIZE, do_resize}, {BX_SH_PAUSE, do_pause},   {BX_SH_RESUME, do_resume},
    {BX_SH_STOP, do_stop},     {BX_SH_KILL, do_kill},     {BX_SH_LIST, do_list},
    {BX_SH_STATS, do_stats},   {BX_SH_CANCEL, do_cancel}, {BX_SH_VMM, do_vmm},
};

int bx_shim_request(struct bx_shim_client *c, const struct bx_msg *m)
{
    struct request q = {.client = c, .s = c->shim, .m = m};
    _cleanup_error_ boxlite_error *err = NULL;
    if (bx_msg_get_u64(m, BX_T_REQUEST, UINT64_MAX, &q.number) < 0 || q.number == 0) {
        return -EPROTO;
    }
    int r = 1;
    for (size_t i = 0; i < BX_ARRAY_SIZE(requests) && r > 0; i++) {
        if (requests[i].type == m->type) {
            r = requests[i].fn(&q, &err);
        }
    }
    if (r > 0) {
        r = bx_fail(&err, BOXLITE_E_UNSUPPORTED, "the shim does not know request %u", m->type);
        bx_hint(&err, "the box was started by another version: stop and start it again");
    }
    if (r < 0) {
        bx_shim_reply_error(c, q.number, err);
    }
    return 0;
}
