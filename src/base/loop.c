/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c: the event loop.
 *
 * Everything that can happen makes one epoll descriptor readable:
 *   descriptors  are in the epoll set themselves; one with no events asked for is taken out, because
 *                epoll reports hang-ups without being asked;
 *   children     are there as their pidfds;
 *   timers       lie in a binary heap by deadline, the least of which sets the timerfd;
 *   deferred     calls are a list; while it is not empty the timerfd is set to the past;
 *   wake-ups     are an eventfd.
 * Setting the timerfd is put off to the end of a dispatch, and skipped when its deadline is the same.
 *
 * Invariants. A source is in `sources` from its creation until bx_source_free(), which takes it out of
 * epoll, heap and list at once, so no later event can name it. Its memory lives on while a dispatch
 * runs, because events that epoll gave to that dispatch may still name it: it is moved to `dead` and
 * released at the end. Every callback is the last thing done with a source, or is followed by a look
 * at `dead`. What callbacks add is handled by the next dispatch, so a dispatch always ends: timers
 * armed meanwhile are not due before its own clock reading, deferred calls go to a new list.
 */
#include "base/loop.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "base/timeutil.h"

#define BATCH 64
#define NOT_IN_HEAP SIZE_MAX

enum kind { KIND_FD, KIND_TIMER, KIND_CHILD, KIND_DEFER, KIND_TIMERFD, KIND_WAKE };

struct bx_source {
    struct bx_loop *loop;
    enum kind kind;
    bool dead;
    void *data;
    struct bx_source *prev, *next; /* sources or dead */
    union {
        struct {
            int fd; /* also of a child: its pidfd */
            uint32_t events;
            bool watched; /* is in the epoll set */
            bx_fd_fn fn;
            bx_child_fn child_fn;
        };
        struct {
            uint64_t deadline;
            size_t slot; /* place in the heap */
            bx_call_fn call;
            struct bx_source *defer_next, *defer_prev;
            uint64_t number; /* of a deferred call, rising */
        };
    };
};

struct source_list {
    struct bx_source *first;
};

struct defer_list {
    struct bx_source *first, *last;
};

struct bx_loop {
    int epfd, timerfd, wakefd;
    bool dispatching;
    bool woken;
    bool timer_unknown; /* the timerfd has expired: what is set in it says nothing */
    uint64_t timer_set; /* deadline in the timerfd, BX_NEVER: none */
    struct bx_source timer_source, wake_source; /* only to be named by epoll */
    struct source_list sources, dead;
    struct defer_list defers;
    uint64_t defer_number; /* of the next one */
    struct bx_source **heap;
    size_t heap_len, heap_cap;
    size_t timers; /* armed or not: heap_cap is never less */
};

/* ---- Lists ------------------------------------------------------------------------------------ */

static void list_add(struct source_list *list, struct bx_source *s)
{
    s->prev = NULL;
    s->next = list->first;
    if (s->next) {
        s->next->prev = s;
    }
    list->first = s;
}

static void list_remove(struct source_list *list, struct bx_source *s)
{
    if (s->prev) {
        s->prev->next = s->next;
    } else {
        list->first = s->next;
    }
    if (s->next) {
        s->next->prev = s->prev;
    }
}

static void list_free(struct source_list *list)
{
    while (list->first) {
        struct bx_source *s = list->first;
        list->first = s->next;
        free(s);
    }
}

static void defer_add(struct defer_list *list, struct bx_source *s)
{
    s->defer_next = NULL;
    s->defer_prev = list->last;
    *(list->last ? &list->last->defer_next : &list->first) = s;
    list->last = s;
}

static void defer_remove(struct defer_list *list, struct bx_source *s)
{
    *(s->defer_prev ? &s->defer_prev->defer_next : &list->first) = s->defer_next;
    *(s->defer_next ? &s->defer_next->defer_prev : &list->last) = s->defer_prev;
}

/* ---- Heap of timers --------------------------------------------------------------------------- */

static void heap_put(struct bx_loop *loop, size_t slot, struct bx_source *s)
{
    loop->heap[slot] = s;
    s->slot = slot;
}

/* Moves s from the free place `slot` towards the root as far as it belongs. */
static void heap_up(struct bx_loop *loop, size_t slot, struct bx_source *s)
{
    while (slot > 0 && loop->heap[(slot - 1) / 2]->deadline > s->deadline) {
        heap_put(loop, slot, loop->heap[(slot - 1) / 2]);
        slot = (slot - 1) / 2;
    }
    heap_put(loop, slot, s);
}

/* The same towards the leaves. */
static void heap_down(struct bx_loop *loop, size_t slot, struct bx_source *s)
{
    for (size_t child; (child = 2 * slot + 1) < loop->heap_len; slot = child) {
        if (child + 1 < loop->heap_len &&
            loop->heap[child + 1]->deadline < loop->heap[child]->deadline) {
            child++;
        }
        if (loop->heap[child]->deadline >= s->deadline) {
            break;
        }
        heap_put(loop, slot, loop->heap[child]);
    }
    heap_put(loop, slot, s);
}

static void heap_remove(struct bx_loop *loop, struct bx_source *s)
{
    size_t slot = s->slot;
    if (slot == NOT_IN_HEAP) {
        return;
    }
    s->slot = NOT_IN_HEAP;
    struct bx_source *last = loop->heap[--loop->heap_len];
    if (last == s) {
        return;
    }
    if (slot > 0 && loop->heap[(slot - 1) / 2]->deadline > last->deadline) {
        heap_up(loop, slot, last);
    } else {
        heap_down(loop, slot, last);
    }
}

/* Room for so many timers, so that arming one never needs memory. */
static int heap_reserve(struct bx_loop *loop, size_t timers)
{
    if (timers <= loop->heap_cap) {
        return 0;
    }
    size_t cap = loop->heap_cap ? 2 * loop->heap_cap : 8;
    struct bx_source **heap = realloc(loop->heap, cap * sizeof(struct bx_source *));
    if (!heap) {
        return -ENOMEM;
    }
    loop->heap = heap;
    loop->heap_cap = cap;
    return 0;
}

/* ---- The timerfd ------------------------------------------------------------------------------ */

static uint64_t first_deadline(const struct bx_loop *loop)
{
    if (loop->defers.first) {
        return 1; /* long ago */
    }
    return loop->heap_len ? loop->heap[0]->deadline : BX_NEVER;
}

/* Brings the timerfd in line with what is waiting. During a dispatch its end does that. */
static void update_timerfd(struct bx_loop *loop)
{
    uint64_t deadline = first_deadline(loop);
    if (loop->dispatching || (deadline == loop->timer_set && !loop->timer_unknown)) {
        return;
    }
    struct itimerspec its = {0}; /* disarms, and takes back an expiry that was not read */
    if (deadline != BX_NEVER) {
        deadline = deadline ? deadline : 1;
        its.it_value.tv_sec = (time_t)(deadline / BX_SEC);
        its.it_value.tv_nsec = (long)(deadline % BX_SEC);
    }
    (void)timerfd_settime(loop->timerfd, TFD_TIMER_ABSTIME, &its, NULL);
    loop->timer_set = deadline;
    loop->timer_unknown = false;
}

/* ---- Sources ---------------------------------------------------------------------------------- */

static struct bx_source *source_new(struct bx_loop *loop, enum kind kind, void *data)
{
    struct bx_source *s = calloc(1, sizeof(*s));
    if (s) {
        s->loop = loop;
        s->kind = kind;
        s->data = data;
    }
    return s;
}

/* Tells epoll about the events that a source of a descriptor wants. */
static int watch(struct bx_source *s, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = s};
    int op = !events ? EPOLL_CTL_DEL : s->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (events || s->watched) {
        if (epoll_ctl(s->loop->epfd, op, s->fd, &ev) < 0 && op != EPOLL_CTL_DEL) {
            return -errno;
        }
    }
    s->watched = events != 0;
    s->events = events;
    return 0;
}

static int add_descriptor(struct bx_source *s, int fd, uint32_t events, struct bx_source **ret)
{
    s->fd = fd;
    int r = watch(s, events);
    if (r < 0) {
        free(s);
        return r;
    }
    list_add(&s->loop->sources, s);
    if (ret) {
        *ret = s;
    }
    return 0;
}

int bx_loop_add_fd(struct bx_loop *loop, int fd, uint32_t events, bx_fd_fn fn, void *data,
                   struct bx_source **ret)
{
    if (fd < 0) {
        return -EBADF;
    }
    struct bx_source *s = source_new(loop, KIND_FD, data);
    if (!s) {
        return -ENOMEM;
    }
    s->fn = fn;
    return add_descriptor(s, fd, events, ret);
}

int bx_loop_add_child(struct bx_loop *loop, int pidfd, bx_child_fn fn, void *data,
                      struct bx_source **ret)
{
    struct bx_source *s = source_new(loop, KIND_CHILD, data);
    if (!s) {
        return -ENOMEM;
    }
    s->child_fn = fn;
    return add_descriptor(s, pidfd, EPOLLIN, ret);
}

int bx_source_set_events(struct bx_source *src, uint32_t events)
{
    if (src->kind != KIND_FD) {
        return -EINVAL;
    }
    return events == src->events ? 0 : watch(src, events);
}

int bx_loop_add_timer(struct bx_loop *loop, uint64_t deadline, bx_call_fn fn, void *data,
                      struct bx_source **ret)
{
    if (heap_reserve(loop, loop->timers + 1) < 0) {
        return -ENOMEM;
    }
    struct bx_source *s = source_new(loop, KIND_TIMER, data);
    if (!s) {
        return -ENOMEM;
    }
    s->call = fn;
    s->slot = NOT_IN_HEAP;
    loop->timers++;
    list_add(&loop->sources, s);
    bx_source_set_deadline(s, deadline);
    if (ret) {
        *ret = s;
    }
    return 0;
}

void bx_source_set_deadline(struct bx_source *src, uint64_t deadline)
{
    struct bx_loop *loop = src->loop;
    if (src->kind != KIND_TIMER) {
        return;
    }
    heap_remove(loop, src);
    src->deadline = deadline;
    if (deadline != BX_NEVER) {
        if (loop->dispatching && deadline <= bx_now_mono()) {
            /* Behind all that is due already: one that is always due must not starve the others. */
            src->deadline = bx_now_mono() + 1;
        }
        heap_up(loop, loop->heap_len++, src);
    }
    update_timerfd(loop);
}

int bx_loop_add_defer(struct bx_loop *loop, bx_call_fn fn, void *data, struct bx_source **ret)
{
    struct bx_source *s = source_new(loop, KIND_DEFER, data);
    if (!s) {
        return -ENOMEM;
    }
    s->call = fn;
    s->number = loop->defer_number++;
    list_add(&loop->sources, s);
    defer_add(&loop->defers, s);
    update_timerfd(loop);
    if (ret) {
        *ret = s;
    }
    return 0;
}

void bx_source_free(struct bx_source *src)
{
    if (!src || src->dead) {
        return;
    }
    struct bx_loop *loop = src->loop;
    switch (src->kind) {
    case KIND_FD:
    case KIND_CHILD:
        (void)watch(src, 0);
        break;
    case KIND_TIMER:
        heap_remove(loop, src);
        loop->timers--;
        break;
    case KIND_DEFER:
        if (src->call) {
            defer_remove(&loop->defers, src);
        }
        break;
    case KIND_TIMERFD:
    case KIND_WAKE:
        return; /* the loop's own are handed to nobody */
    }
    list_remove(&loop->sources, src);
    if (loop->dispatching) {
        src->dead = true;
        list_add(&loop->dead, src);
    } else {
        free(src);
        update_timerfd(loop);
    }
}

/* ---- The loop --------------------------------------------------------------------------------- */

static int watch_own(struct bx_loop *loop, struct bx_source *s, enum kind kind, int fd)
{
    *s = (struct bx_source){.loop = loop, .kind = kind, .fd = fd};
    return watch(s, EPOLLIN);
}

int bx_loop_new(struct bx_loop **ret)
{
    _cleanup_loop_ struct bx_loop *loop = calloc(1, sizeof(*loop));
    if (!loop) {
        return -ENOMEM;
    }
    loop->timer_set = BX_NEVER;
    loop->epfd = epoll_create1(EPOLL_CLOEXEC);
    int r = loop->epfd < 0 ? -errno : 0;
    loop->timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    r = loop->timerfd < 0 && r == 0 ? -errno : r;
    loop->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = loop->wakefd < 0 && r == 0 ? -errno : r;
    if (r == 0) {
        r = watch_own(loop, &loop->timer_source, KIND_TIMERFD, loop->timerfd);
    }
    if (r == 0) {
        r = watch_own(loop, &loop->wake_source, KIND_WAKE, loop->wakefd);
    }
    if (r == 0) {
        *ret = steal_ptr(&loop);
    }
    return r;
}

void bx_loop_free(struct bx_loop *loop)
{
    if (!loop) {
        return;
    }
    list_free(&loop->sources);
    list_free(&loop->dead);
    free(loop->heap);
    bx_cleanup_close(&loop->epfd);
    bx_cleanup_close(&loop->timerfd);
    bx_cleanup_close(&loop->wakefd);
    free(loop);
}

int bx_loop_fd(const struct bx_loop *loop)
{
    return loop->epfd;
}

void bx_loop_wakeup(struct bx_loop *loop)
{
    int saved = errno; /* may run in a signal handler */
    uint64_t one = 1;
    ssize_t n = write(loop->wakefd, &one, sizeof(one)); /* full: a wake-up is on its way anyway */
    (void)n;
    errno = saved;
}

bool bx_loop_woken(struct bx_loop *loop)
{
    bool woken = loop->woken;
    loop->woken = false;
    return woken;
}

static int run_defers(struct bx_loop *loop)
{
    int count = 0;
    uint64_t end = loop->defer_number; /* those added by the calls have this number or more */
    for (struct bx_source *s; (s = loop->defers.first) && s->number < end; count++) {
        defer_remove(&loop->defers, s);
        bx_call_fn call = s->call;
        s->call = NULL; /* says that it is in the list no more */
        call(s->data);
        bx_source_free(s);
    }
    return count;
}

/* A child's end: reaped here. Where somebody else was faster the status is lost, which an empty one
 * (si_pid 0) tells. */
static void handle_child(struct bx_source *s)
{
    siginfo_t status = {0};
    int r;
    do {
        r = waitid((idtype_t)P_PIDFD, (id_t)s->fd, &status, WEXITED | WNOHANG);
    } while (r < 0 && errno == EINTR);
    if (r == 0 && status.si_pid == 0) {
        return; /* not yet */
    }
    if (r < 0) {
        status = (siginfo_t){0};
    }
    (void)watch(s, 0);
    s->child_fn(s->data, &status);
}

static int handle_event(struct bx_loop *loop, struct bx_source *s, uint32_t events)
{
    uint64_t count;
    if (s->dead) {
        return 0;
    }
    switch (s->kind) {
    case KIND_TIMERFD:
        loop->timer_unknown = true;
        return 0; /* run_timers() looks anyway */
    case KIND_WAKE:
        loop->woken = read(loop->wakefd, &count, sizeof(count)) == sizeof(count) || loop->woken;
        return 1;
    case KIND_CHILD:
        if (s->watched) {
            handle_child(s);
        }
        return 1;
    default:
        /* An earlier callback of this batch may have asked for less. */
        events &= s->events | EPOLLHUP | EPOLLERR;
        if (!s->watched || !events) {
            return 0;
        }
        s->fn(s->data, events);
        return 1;
    }
}

static int run_timers(struct bx_loop *loop)
{
    int count = 0;
    uint64_t now = bx_now_mono();
    while (loop->heap_len && loop->heap[0]->deadline <= now) {
        struct bx_source *s = loop->heap[0];
        heap_remove(loop, s);
        s->call(s->data);
        count++;
    }
    return count;
}

int bx_loop_dispatch(struct bx_loop *loop, int timeout_ms)
{
    if (loop->dispatching) {
        return -EDEADLK;
    }
    loop->dispatching = true;
    int count = run_defers(loop);
    struct epoll_event events[BATCH];
    int n = epoll_wait(loop->epfd, events, BATCH, count ? 0 : timeout_ms);
    int failure = n < 0 && errno != EINTR ? -errno : 0;
    for (int i = 0; i < n; i++) {
        count += handle_event(loop, events[i].data.ptr, events[i].events);
    }
    count += run_timers(loop);
    loop->dispatching = false;
    list_free(&loop->dead);
    update_timerfd(loop);
    return failure ? failure : count;
}
