/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_loop.c: the event loop: what fires, in which order, and what happens to sources that are
 * freed or changed while events for them are on their way.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "harness.h"

struct seen {
    struct bx_loop *loop;
    struct bx_source *self;
    struct bx_source *other;
    int count;
    uint32_t events;
    int fd;
    siginfo_t status;
};

static struct bx_loop *new_loop(void)
{
    struct bx_loop *loop = NULL;
    ASSERT_EQ(bx_loop_new(&loop), 0);
    return loop;
}

static void count_fd(void *data, uint32_t events)
{
    struct seen *s = data;
    s->count++;
    s->events = events;
}

static void count_call(void *data)
{
    struct seen *s = data;
    s->count++;
}

static void free_self_fd(void *data, uint32_t events)
{
    struct seen *s = data;
    s->count++;
    bx_source_free(s->self);
    s->self = NULL;
}

static void free_other_fd(void *data, uint32_t events)
{
    struct seen *s = data;
    s->count++;
    bx_source_free(s->other);
    s->other = NULL;
}

/* True if the loop's descriptor would wake an outer loop. */
static bool loop_ready(struct bx_loop *loop)
{
    struct pollfd p = {.fd = bx_loop_fd(loop), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

TEST(an_idle_loop_waits_as_long_as_asked)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    uint64_t before = bx_now_mono();
    ASSERT_EQ(bx_loop_dispatch(loop, 30), 0);
    ASSERT_GE(bx_now_mono() - before, 29 * BX_MS);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0);
    ASSERT(!loop_ready(loop));
    ASSERT(fcntl(bx_loop_fd(loop), F_GETFD) & FD_CLOEXEC);
    bx_loop_free(NULL);
    bx_source_free(NULL);
}

TEST(a_readable_descriptor_is_told)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    struct seen s = {0};
    ASSERT_EQ(bx_loop_add_fd(loop, p[0], EPOLLIN, count_fd, &s, &s.self), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0);
    ASSERT_EQ(write(p[1], "x", 1), 1);
    ASSERT(loop_ready(loop));
    ASSERT_EQ(bx_loop_dispatch(loop, -1), 1);
    ASSERT_EQ(s.count, 1);
    ASSERT_EQ(s.events, EPOLLIN);
    bx_source_free(s.self);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0);
    bx_close(&p[0]);
    bx_close(&p[1]);
}

TEST(no_events_means_not_even_a_hang_up)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    struct seen s = {0};
    ASSERT_EQ(bx_loop_add_fd(loop, p[0], 0, count_fd, &s, &s.self), 0);
    bx_close(&p[1]);
    ASSERT(!loop_ready(loop));
    ASSERT_EQ(bx_source_set_events(s.self, EPOLLIN), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 1);
    ASSERT(s.events & EPOLLHUP);
    ASSERT_EQ(bx_source_set_events(s.self, 0), 0);
    ASSERT_EQ(bx_source_set_events(s.self, 0), 0);
    ASSERT(!loop_ready(loop));
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0);
    bx_close(&p[0]);
}

TEST(misuse_of_descriptors_is_refused)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct seen s = {0};
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    struct bx_source *again = NULL;
    ASSERT_EQ(bx_loop_add_fd(loop, -1, EPOLLIN, count_fd, &s, &again), -EBADF);
    ASSERT_EQ(bx_loop_add_fd(loop, p[0], EPOLLIN, count_fd, &s, NULL), 0);
    ASSERT_EQ(bx_loop_add_fd(loop, p[0], EPOLLIN, count_fd, &s, &again), -EEXIST);
    int file = openat(tmpdir_fd(), "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(bx_loop_add_fd(loop, file, EPOLLIN, count_fd, &s, &again), -EPERM);
    ASSERT_NULL(again);
    struct bx_source *timer = NULL;
    ASSERT_EQ(bx_loop_add_timer(loop, BX_NEVER, count_call, &s, &timer), 0);
    ASSERT_EQ(bx_source_set_events(timer, EPOLLIN), -EINVAL);
    ASSERT_LT(bx_loop_add_child(loop, -1, NULL, NULL, NULL), 0);
    bx_close(&file);
    bx_close(&p[0]);
    bx_close(&p[1]);
}

TEST(a_source_may_free_itself)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    ASSERT_EQ(write(p[1], "x", 1), 1);
    struct seen s = {0};
    ASSERT_EQ(bx_loop_add_fd(loop, p[0], EPOLLIN, free_self_fd, &s, &s.self), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 1);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0);
    ASSERT_EQ(s.count, 1);
    bx_close(&p[0]);
    bx_close(&p[1]);
}

TEST(of_two_that_free_each_other_one_is_called)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    int p[2], q[2];
    ASSERT_EQ(bx_pipe(p), 0);
    ASSERT_EQ(bx_pipe(q), 0);
    ASSERT_EQ(write(p[1], "x", 1), 1);
    ASSERT_EQ(write(q[1], "x", 1), 1);
    struct seen a = {0}, b = {0};
    ASSERT_EQ(bx_loop_add_fd(loop, p[0], EPOLLIN, free_other_fd, &a, &b.other), 0);
    ASSERT_EQ(bx_loop_add_fd(loop, q[0], EPOLLIN, free_other_fd, &b, &a.other), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 1);
    ASSERT_EQ(a.count + b.count, 1);
    for (int i = 0; i < 2; i++) {
        bx_close(&p[i]);
        bx_close(&q[i]);
    }
}

static void silence_other(void *data, uint32_t events)
{
    struct seen *s = data;
    s->count++;
    ASSERT_EQ(bx_source_set_events(s->other, 0), 0);
}

TEST(an_event_no_longer_wanted_is_not_told)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    int p[2], q[2];
    ASSERT_EQ(bx_pipe(p), 0);
    ASSERT_EQ(bx_pipe(q), 0);
    ASSERT_EQ(write(p[1], "x", 1), 1);
    ASSERT_EQ(write(q[1], "x", 1), 1);
    struct seen a = {0}, b = {0};
    ASSERT_EQ(bx_loop_add_fd(loop, p[0], EPOLLIN, silence_other, &a, &b.other), 0);
    ASSERT_EQ(bx_loop_add_fd(loop, q[0], EPOLLIN, silence_other, &b, &a.other), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 1);
    ASSERT_EQ(a.count + b.count, 1);
    for (int i = 0; i < 2; i++) {
        bx_close(&p[i]);
        bx_close(&q[i]);
    }
}

/* ---- Timers ----------------------------------------------------------------------------------- */

struct order {
    int n;
    int at[64];
};
struct numbered {
    struct order *order;
    int number;
};

static void note(void *data)
{
    struct numbered *t = data;
    t->order->at[t->order->n++] = t->number;
}

TEST(timers_fire_in_the_order_of_deadlines)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    enum { N = 50 };
    struct order order = {0};
    struct numbered t[N];
    struct bx_source *src[N];
    uint64_t base = bx_now_mono();
    for (int i = 0; i < N; i++) {
        int place = i * 37 % N; /* each once, in disorder */
        t[i] = (struct numbered){&order, place};
        ASSERT_EQ(bx_loop_add_timer(loop, base + (uint64_t)place, note, &t[i], &src[i]), 0);
    }
    bx_source_free(src[0]);                   /* place 0 */
    bx_source_set_deadline(src[1], BX_NEVER); /* place 37 */
    bx_source_set_deadline(src[2], base - 1); /* place 24: now the first */
    ASSERT_EQ(bx_loop_dispatch(loop, -1), N - 2);
    ASSERT_EQ(order.n, N - 2);
    ASSERT_EQ(order.at[0], 24);
    for (int i = 2; i < N - 2; i++) {
        ASSERT_LT(order.at[i - 1], order.at[i]);
    }
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0); /* each once */
    bx_source_set_deadline(src[1], base);
    ASSERT_EQ(bx_loop_dispatch(loop, -1), 1);
    ASSERT_EQ(order.at[N - 2], 37);
}

TEST(a_timer_wakes_the_loop_and_the_loop_around_it)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct seen s = {0};
    uint64_t deadline = bx_deadline_ms(20);
    ASSERT_EQ(bx_loop_add_timer(loop, deadline, count_call, &s, &s.self), 0);
    struct pollfd p = {.fd = bx_loop_fd(loop), .events = POLLIN};
    ASSERT_EQ(poll(&p, 1, 10000), 1);
    ASSERT_GE(bx_now_mono(), deadline);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 1);
    ASSERT_EQ(s.count, 1);
    ASSERT(!loop_ready(loop));
    bx_source_set_deadline(s.self, 0); /* long ago */
    ASSERT(loop_ready(loop));
    bx_source_set_deadline(s.self, BX_NEVER);
    ASSERT(!loop_ready(loop));
    bx_source_set_deadline(s.self, bx_deadline_ms(5));
    ASSERT_EQ(bx_loop_dispatch(loop, -1), 1);
    ASSERT_EQ(s.count, 2);
}

static void rearm_in_the_past(void *data)
{
    struct seen *s = data;
    s->count++;
    bx_source_set_deadline(s->self, 1);
}

TEST(a_timer_that_is_always_due_starves_nobody)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct seen greedy = {0}, timer = {0}, pipe_seen = {0};
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    ASSERT_EQ(write(p[1], "x", 1), 1);
    ASSERT_EQ(bx_loop_add_timer(loop, 1, rearm_in_the_past, &greedy, &greedy.self), 0);
    ASSERT_EQ(bx_loop_add_timer(loop, 2, count_call, &timer, NULL), 0);
    ASSERT_EQ(bx_loop_add_fd(loop, p[0], EPOLLIN, count_fd, &pipe_seen, NULL), 0);
    for (int i = 0; i < 5; i++) {
        ASSERT_GT(bx_loop_dispatch(loop, -1), 0);
    }
    ASSERT_GE(greedy.count, 4);
    ASSERT_EQ(timer.count, 1);
    ASSERT_EQ(pipe_seen.count, 5);
    bx_close(&p[0]);
    bx_close(&p[1]);
}

static void free_both(void *data)
{
    struct seen *s = data;
    s->count++;
    bx_source_free(s->self);
    bx_source_free(s->other);
    s->self = s->other = NULL;
}

TEST(a_timer_may_free_itself_and_the_next)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct seen a = {0}, b = {0};
    ASSERT_EQ(bx_loop_add_timer(loop, 1, free_both, &a, &a.self), 0);
    ASSERT_EQ(bx_loop_add_timer(loop, 2, count_call, &b, &a.other), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, -1), 1);
    ASSERT_EQ(a.count, 1);
    ASSERT_EQ(b.count, 0);
    ASSERT(!loop_ready(loop));
}

/* ---- Deferred calls --------------------------------------------------------------------------- */

struct chain {
    struct bx_loop *loop;
    int count;
};

static void defer_again(void *data)
{
    struct chain *c = data;
    c->count++;
    ASSERT_EQ(bx_loop_add_defer(c->loop, defer_again, c, NULL), 0);
}

TEST(a_deferred_call_runs_once_in_the_next_dispatch)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct seen s = {0};
    ASSERT_EQ(bx_loop_add_defer(loop, count_call, &s, NULL), 0);
    ASSERT_EQ(s.count, 0);
    ASSERT(loop_ready(loop)); /* also seen from outside */
    ASSERT_EQ(bx_loop_dispatch(loop, -1), 1);
    ASSERT_EQ(s.count, 1);
    ASSERT(!loop_ready(loop));
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0);
}

TEST(what_a_deferred_call_defers_comes_next_time)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct chain c = {.loop = loop};
    ASSERT_EQ(bx_loop_add_defer(loop, defer_again, &c, NULL), 0);
    for (int i = 1; i <= 3; i++) {
        ASSERT(loop_ready(loop));
        ASSERT_EQ(bx_loop_dispatch(loop, -1), 1);
        ASSERT_EQ(c.count, i);
    }
}

TEST(a_freed_deferred_call_does_not_run)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct seen a = {0}, b = {0}, c = {0};
    ASSERT_EQ(bx_loop_add_defer(loop, free_both, &a, &a.self), 0);
    ASSERT_EQ(bx_loop_add_defer(loop, count_call, &b, &a.other), 0);
    ASSERT_EQ(bx_loop_add_defer(loop, count_call, &c, NULL), 0);
    struct bx_source *freed = NULL;
    ASSERT_EQ(bx_loop_add_defer(loop, count_call, &b, &freed), 0);
    bx_source_free(freed);
    ASSERT_EQ(bx_loop_dispatch(loop, -1), 2); /* a, which frees itself and b; c */
    ASSERT_EQ(a.count, 1);
    ASSERT_EQ(b.count, 0);
    ASSERT_EQ(c.count, 1);
    ASSERT_EQ(bx_loop_add_defer(loop, count_call, &b, &freed), 0);
    bx_source_free(freed);
    ASSERT(!loop_ready(loop));
}

static void dispatch_inside(void *data)
{
    struct chain *c = data;
    c->count = bx_loop_dispatch(c->loop, 0);
}

TEST(a_callback_may_not_dispatch)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct chain c = {.loop = loop};
    ASSERT_EQ(bx_loop_add_defer(loop, dispatch_inside, &c, NULL), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 1);
    ASSERT_EQ(c.count, -EDEADLK);
}

/* ---- Children --------------------------------------------------------------------------------- */

static void take_status(void *data, const siginfo_t *status)
{
    struct seen *s = data;
    s->count++;
    s->status = *status;
    bx_source_free(s->self);
    s->self = NULL;
}

static int start_child(int code)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (code < 0) {
            for (;;) {
                pause();
            }
        }
        _exit(code);
    }
    int pidfd = bx_pidfd_open(pid);
    ASSERT_GE(pidfd, 0);
    return pidfd;
}

TEST(a_childs_end_is_told_once_and_reaped)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct seen s = {0};
    int pidfd = start_child(7);
    ASSERT_EQ(bx_loop_add_child(loop, pidfd, take_status, &s, &s.self), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 10000), 1);
    ASSERT_EQ(s.count, 1);
    ASSERT_EQ(s.status.si_code, CLD_EXITED);
    ASSERT_EQ(s.status.si_status, 7);
    bx_close(&pidfd);
    pidfd = start_child(-1);
    ASSERT_EQ(bx_loop_add_child(loop, pidfd, take_status, &s, &s.self), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0);
    ASSERT_EQ(bx_pidfd_signal(pidfd, SIGKILL), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 10000), 1);
    ASSERT_EQ(s.status.si_code, CLD_KILLED);
    ASSERT_EQ(s.status.si_status, SIGKILL);
    ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1);
    bx_close(&pidfd);
}

TEST(a_child_reaped_by_somebody_else_is_told_without_status)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    struct seen s = {0};
    int pidfd = start_child(7);
    ASSERT_EQ(bx_loop_add_child(loop, pidfd, take_status, &s, &s.self), 0);
    ASSERT_GT(waitpid(-1, NULL, 0), 0);
    ASSERT_EQ(bx_loop_dispatch(loop, 10000), 1);
    ASSERT_EQ(s.count, 1);
    ASSERT_EQ(s.status.si_pid, 0);
    bx_close(&pidfd);
}

/* ---- Wake-up ---------------------------------------------------------------------------------- */

static void *wake_it(void *data)
{
    bx_loop_wakeup(data);
    return NULL;
}

TEST(a_wake_up_ends_a_dispatch_and_is_seen_once)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    ASSERT(!bx_loop_woken(loop));
    bx_loop_wakeup(loop);
    bx_loop_wakeup(loop);
    ASSERT(loop_ready(loop));
    ASSERT_EQ(bx_loop_dispatch(loop, -1), 1);
    ASSERT(bx_loop_woken(loop));
    ASSERT(!bx_loop_woken(loop));
    ASSERT_EQ(bx_loop_dispatch(loop, 0), 0);
}

TEST(any_thread_may_wake_a_waiting_loop)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    for (int i = 0; i < 200; i++) {
        pthread_t t;
        ASSERT_EQ(pthread_create(&t, NULL, wake_it, loop), 0);
        while (!bx_loop_woken(loop)) {
            ASSERT_GE(bx_loop_dispatch(loop, -1), 0);
        }
        ASSERT_EQ(pthread_join(t, NULL), 0);
    }
}

static struct bx_loop *signal_loop;

static void wake_by_signal(int signo)
{
    bx_loop_wakeup(signal_loop);
}

TEST(a_signal_handler_may_wake_the_loop)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    signal_loop = loop;
    struct sigaction sa = {.sa_handler = wake_by_signal};
    ASSERT_EQ(sigaction(SIGALRM, &sa, NULL), 0);
    alarm(1);
    while (!bx_loop_woken(loop)) {
        ASSERT_GE(bx_loop_dispatch(loop, -1), 0);
    }
}

/* ---- The whole -------------------------------------------------------------------------------- */

static void outer_event(void *data, uint32_t events)
{
    ASSERT_GE(bx_loop_dispatch(data, 0), 0);
}

TEST(a_loop_lives_in_a_loop)
{
    _cleanup_loop_ struct bx_loop *outer = new_loop();
    _cleanup_loop_ struct bx_loop *inner = new_loop();
    struct bx_source *bridge = NULL;
    struct seen s = {0};
    ASSERT_EQ(bx_loop_add_fd(outer, bx_loop_fd(inner), EPOLLIN, outer_event, inner, &bridge), 0);
    ASSERT_EQ(bx_loop_add_timer(inner, bx_deadline_ms(10), count_call, &s, NULL), 0);
    while (s.count == 0) {
        ASSERT_GE(bx_loop_dispatch(outer, 10000), 0);
    }
    ASSERT_EQ(bx_loop_dispatch(outer, 0), 0);
    bx_source_free(bridge);
}

TEST(more_events_than_a_batch_are_all_told)
{
    _cleanup_loop_ struct bx_loop *loop = new_loop();
    enum { N = 150 };
    struct seen s[N];
    for (int i = 0; i < N; i++) {
        int p[2];
        ASSERT_EQ(bx_pipe(p), 0);
        bx_close(&p[1]);
        s[i] = (struct seen){.fd = p[0]};
        ASSERT_EQ(bx_loop_add_fd(loop, p[0], EPOLLIN, free_self_fd, &s[i], &s[i].self), 0);
    }
    int total = 0;
    for (int n; (n = bx_loop_dispatch(loop, 0)) > 0;) {
        total += n;
    }
    ASSERT_EQ(total, N);
    for (int i = 0; i < N; i++) {
        ASSERT_EQ(s[i].count, 1);
        bx_close(&s[i].fd);
    }
}

TEST(every_allocation_may_fail)
{
    int p[2];
    ASSERT_EQ(bx_pipe(p), 0);
    TORTURE
    {
        struct seen s = {0};
        struct bx_loop *loop = NULL;
        int r = bx_loop_new(&loop);
        r = r ? r : bx_loop_add_fd(loop, p[0], EPOLLIN, count_fd, &s, NULL);
        r = r ? r : bx_loop_add_timer(loop, 1, count_call, &s, NULL);
        r = r ? r : bx_loop_add_defer(loop, count_call, &s, NULL);
        ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 0);
        if (loop) {
            int n = bx_loop_dispatch(loop, 0);
            ASSERT_EQ(n, s.count);
        }
        bx_loop_free(loop);
    }
    bx_close(&p[0]);
    bx_close(&p[1]);
}
