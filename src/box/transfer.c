/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c: transfers, and the way from their threads to the loop.
 *
 * A transfer waits for the network and computes for seconds; the runtime belongs to one thread that does neither. So
 * each transfer has a thread (all signals blocked; they are the program's) with a database connection of its own, and
 * shares with the loop only what `lock` guards: the state of each part, lines of log, and the end. An event descriptor
 * wakes the loop, which takes what is new and calls the user. States that follow each other faster than the loop looks
 * are told once; so the memory is bounded, however many events there are.
 *
 * The thread is joined when its end is told. The handle is freed when that has been and its owner has freed it.
 */
#include "box/transfer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "oci/manifest.h"

#define PARTS_MAX (BX_LAYERS_MAX + 8)
#define LINES_MAX 256
#define LINE_MAX_LEN 512
#define NOTE_MAX 256

struct part {
    char kind[16], digest[BX_DIGEST_LEN + 1], note[NOTE_MAX];
    int state;
    uint64_t done, total;
    bool fresh; /* not told yet */
};

struct line {
    int level;
    char text[LINE_MAX_LEN];
};

struct boxlite_transfer {
    boxlite_runtime *rt;
    struct boxlite_transfer *next; /* of the runtime */
    bx_transfer_work work;
    char *ref, *to;
    struct bx_transfer_options options;
    boxlite_transfer_fn progress;
    void *progress_data;
    boxlite_done_fn fn;
    void *data;
    pthread_t thread;
    int cancel_fd, event_fd;
    struct bx_source *source;
    bool orphan; /* its owner has freed it, or there is none */
    bool told;
    struct bx_transfer_result result; /* of the thread until `ended`, then of the loop */
    boxlite_error *error;
    int code;
    /* Under the lock. */
    pthread_mutex_t lock;
    struct part parts[PARTS_MAX];
    size_t nparts;
    struct line *lines;
    size_t nlines;
    bool ended;
};

/* ---- The thread ------------------------------------------------------------------------------ */

static void signal_loop(struct boxlite_transfer *t)
{
    (void)eventfd_write(t->event_fd, 1);
}

static struct part *find_part(struct boxlite_transfer *t, const boxlite_transfer_event *e)
{
    struct part *p;

    for (size_t i = 0; i < t->nparts; i++) {
        p = &t->parts[i];
        if (bx_streq(p->digest, e->digest) && bx_streq(p->kind, e->kind)) {
            return p;
        }
    }
    if (t->nparts == PARTS_MAX) {
        return NULL;
    }
    p = &t->parts[t->nparts++];
    (void)snprintf(p->kind, sizeof(p->kind), "%s", e->kind);
    (void)snprintf(p->digest, sizeof(p->digest), "%s", e->digest);
    return p;
}

static void on_event(void *data, const boxlite_transfer_event *e)
{
    struct boxlite_transfer *t = data;
    struct part *p;

    (void)pthread_mutex_lock(&t->lock);
    p = find_part(t, e);
    if (p) {
        p->state = e->state;
        p->done = e->done;
        p->total = e->total;
        (void)snprintf(p->note, sizeof(p->note), "%s", e->note ? e->note : "");
        p->fresh = true;
    }
    (void)pthread_mutex_unlock(&t->lock);
    signal_loop(t);
}

/* A boxlite_log_fn: the user's function is for the loop's thread. */
static void on_log(void *data, int level, const char *area, const char *message)
{
    struct boxlite_transfer *t = data;

    (void)area;
    (void)pthread_mutex_lock(&t->lock);
    if (t->lines && t->nlines < LINES_MAX) {
        t->lines[t->nlines].level = level;
        (void)snprintf(t->lines[t->nlines].text, LINE_MAX_LEN, "%s", message);
        t->nlines++;
    }
    (void)pthread_mutex_unlock(&t->lock);
    signal_loop(t);
}

static void *run(void *data)
{
    struct boxlite_transfer *t = data;
    struct bx_log log = {.fn = t->lines ? on_log : NULL, .data = t, .level = t->rt->log.level};
    _cleanup_store_ struct bx_store *store = NULL;
    struct bx_images im = t->rt->images;
    struct bx_transfer spec = {.im = &im,
                               .options = &t->options,
                               .cancel_fd = t->cancel_fd,
                               .event = on_event,
                               .event_data = t};
    int r = bx_store_open(t->rt->home, &store, &t->error);

    im.store = store;
    im.log = &log;
    im.progress = NULL;
    r = r < 0 ? r : t->work(&spec, t->ref, t->to, &t->result, &t->error);
    (void)pthread_mutex_lock(&t->lock);
    t->code = r;
    t->ended = true;
    (void)pthread_mutex_unlock(&t->lock);
    signal_loop(t);
    return NULL;
}

/* ---- Telling --------------------------------------------------------------------------------- */

static void tell_lines(struct boxlite_transfer *t)
{
    struct line line;

    for (size_t i = 0;; i++) {
        (void)pthread_mutex_lock(&t->lock);
        if (i >= t->nlines) {
            t->nlines = 0;
            (void)pthread_mutex_unlock(&t->lock);
            return;
        }
        line = t->lines[i];
        (void)pthread_mutex_unlock(&t->lock);
        bx_log(&t->rt->log, line.level, "registry", "%s", line.text);
    }
}

/* Takes the next part that is new. */
static bool take_fresh(struct boxlite_transfer *t, struct part *ret)
{
    bool found = false;

    (void)pthread_mutex_lock(&t->lock);
    for (size_t i = 0; !found && i < t->nparts; i++) {
        found = t->parts[i].fresh;
        if (found) {
            t->parts[i].fresh = false;
            *ret = t->parts[i];
        }
    }
    (void)pthread_mutex_unlock(&t->lock);
    return found;
}

static void tell_parts(struct boxlite_transfer *t)
{
    struct part p;

    for (size_t n = 0; n < PARTS_MAX && take_fresh(t, &p); n++) {
        boxlite_transfer_event e = {.struct_size = sizeof(e),
                                    .kind = p.kind,
                                    .digest = p.digest,
                                    .state = p.state,
                                    .done = p.done,
                                    .total = p.total,
                                    .note = *p.note ? p.note : NULL};
        if (t->progress) {
            t->progress(t->progress_data, &e);
        }
    }
}

static void destroy(struct boxlite_transfer *t)
{
    bx_close(&t->cancel_fd);
    bx_close(&t->event_fd);
    free(t->ref);
    free(t->to);
    free(t->lines);
    bx_transfer_options_done(&t->options);
    bx_transfer_result_done(&t->result);
    boxlite_error_free(t->error);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

static void unlink_transfer(struct boxlite_transfer *t)
{
    for (struct boxlite_transfer **p = &t->rt->transfers; *p; p = &(*p)->next) {
        if (*p == t) {
            *p = t->next;
            return;
        }
    }
}

/* The end, in the loop's thread. */
static void finish(struct boxlite_transfer *t)
{
    boxlite_done_fn fn = t->fn;
    _cleanup_error_ boxlite_error *error = NULL;
    void *data = t->data;
    int code;

    (void)pthread_join(t->thread, NULL);
    bx_source_free(steal_ptr(&t->source));
    unlink_transfer(t);
    code = t->code;
    error = steal_ptr(&t->error);
    t->told = true;
    if (t->orphan) {
        destroy(t);
    }
    if (fn) {
        fn(data, code, error);
    }
}

static void on_readable(void *data, uint32_t events)
{
    struct boxlite_transfer *t = data;
    eventfd_t count;
    bool ended;

    (void)events;
    (void)eventfd_read(t->event_fd, &count);
    (void)pthread_mutex_lock(&t->lock);
    ended = t->ended;
    (void)pthread_mutex_unlock(&t->lock);
    tell_lines(t);
    tell_parts(t);
    if (ended) {
        finish(t);
    }
}

/* ---- Life ------------------------------------------------------------------------------------ */

static int copy_options(const boxlite_transfer_options *from, struct boxlite_transfer *t,
                        boxlite_error **err)
{
    if (!from) {
        return 0;
    }
    t->progress = from->progress;
    t->progress_data = from->progress_data;
    return bx_transfer_options_copy(&from->o, &t->options) < 0 ? bx_fail_oom(err) : 0;
}

static int prepare(struct boxlite_transfer *t, const char *ref, const char *to,
                   const boxlite_transfer_options *options, boxlite_error **err)
{
    t->ref = strdup(ref);
    t->to = to ? strdup(to) : NULL;
    if (t->rt->log.fn) {
        t->lines = calloc(LINES_MAX, sizeof(*t->lines));
    }
    if (!t->ref || (to && !t->to) || (t->rt->log.fn && !t->lines)) {
        return bx_fail_oom(err);
    }
    t->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->cancel_fd < 0 || t->event_fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "event descriptors");
    }
    return copy_options(options, t, err);
}

static int launch(struct boxlite_transfer *t, boxlite_error **err)
{
    sigset_t all, old;
    int r = bx_loop_add_fd(t->rt->loop, t->event_fd, EPOLLIN, on_readable, t, &t->source);

    if (r == 0) {
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        r = -pthread_create(&t->thread, NULL, run, t);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (r < 0) {
        bx_source_free(steal_ptr(&t->source));
        return bx_fail_errno(err, BOXLITE_E_IO, r, "starting a thread");
    }
    return 0;
}

int bx_transfer_start(boxlite_runtime *rt, bx_transfer_work work, const char *ref, const char *to,
                      const boxlite_transfer_options *options, boxlite_done_fn fn, void *data,
                      boxlite_transfer **ret, boxlite_error **err)
{
    struct boxlite_transfer *t = calloc(1, sizeof(*t));
    int r;

    if (!t) {
        return bx_fail_oom(err);
    }
    t->rt = rt;
    t->work = work;
    t->fn = fn;
    t->data = data;
    t->cancel_fd = t->event_fd = -1;
    (void)pthread_mutex_init(&t->lock, NULL);
    r = prepare(t, ref, to, options, err);
    r = r < 0 ? r : launch(t, err);
    if (r < 0) {
        destroy(t);
        return r;
    }
    t->next = rt->transfers;
    rt->transfers = t;
    *ret = t;
    return 0;
}

void bx_transfer_cancel(boxlite_transfer *t)
{
    if (!t->told) {
        (void)eventfd_write(t->cancel_fd, 1);
    }
}

void bx_transfer_free(boxlite_transfer *t)
{
    if (!t) {
        return;
    }
    bx_transfer_cancel(t);
    bx_transfer_disown(t);
}

void bx_transfer_disown(boxlite_transfer *t)
{
    t->orphan = true;
    if (t->told) {
        destroy(t);
    }
}

const struct bx_transfer_result *bx_transfer_result(const boxlite_transfer *t)
{
    return t->told && t->code == 0 ? &t->result : NULL;
}

void bx_transfers_cancel(boxlite_runtime *rt)
{
    for (struct boxlite_transfer *t = rt->transfers; t; t = t->next) {
        bx_transfer_cancel(t); /* all at once, so that they end beside each other */
    }
    while (rt->transfers) {
        finish(rt->transfers);
    }
}

/* ---- Blocking -------------------------------------------------------------------------------- */

struct blocking {
    bool done;
    int code;
    boxlite_error *error;
};

static void blocking_done(void *data, int result, const boxlite_error *error)
{
    struct blocking *b = data;

    b->done = true;
    b->code = result;
    if (error) {
        (void)bx_fail_again(&b->error, error);
    }
}

static bool is_done(void *data)
{
    return ((struct blocking *)data)->done;
}

int bx_transfer_run(boxlite_runtime *rt, bx_transfer_work work, const char *ref, const char *to,
                    const boxlite_transfer_options *options, struct bx_transfer_result *ret,
                    boxlite_error **err)
{
    struct blocking b = {0};
    _cleanup_error_ boxlite_error *why = NULL;
    boxlite_transfer *t;
    int r = rt->dispatching
                ? bx_fail(err, BOXLITE_E_STATE, "%s: a blocking call inside a callback", ref)
                : bx_transfer_start(rt, work, ref, to, options, blocking_done, &b, &t, err);

    if (r < 0) {
        return r;
    }
    r = bx_runtime_wait(rt, is_done, &b, BX_NEVER, ref, &why);
    if (r < 0 && !b.done) { /* woken: it ends within moments */
        bx_transfer_cancel(t);
        finish(t);
        r = bx_fail_again(err, why);
    } else {
        r = b.code < 0 ? bx_fail_again(err, b.error) : 0;
    }
    if (r == 0) {
        *ret = t->result;
        t->result = (struct bx_transfer_result){0};
    }
    boxlite_error_free(b.error);
    bx_transfer_free(t);
    return r;
}
