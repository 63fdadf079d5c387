/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h: the event loop: descriptors, deadlines, children, deferred calls, wake-up from anywhere.
 *
 * One epoll descriptor carries it all (deadlines by one timerfd, wake-up by one eventfd, children by
 * pidfd), so a loop nests in any other loop: poll bx_loop_fd(), then dispatch with time-out 0.
 * Sources may be freed or changed in any callback, their own included; a freed source's callback is
 * never called again. Needs libc only: the agent uses it too. Not thread-safe but bx_loop_wakeup().
 */
#ifndef BX_BASE_LOOP_H
#define BX_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/cleanup.h"

struct bx_loop;
struct bx_source;

typedef void (*bx_fd_fn)(void *data,
                         uint32_t events); /* EPOLLIN | EPOLLOUT | EPOLLHUP | EPOLLERR */
typedef void (*bx_call_fn)(void *data);
typedef void (*bx_child_fn)(void *data, const siginfo_t *status);

int bx_loop_new(struct bx_loop **ret);   /* 0 or -errno, as all here */
void bx_loop_free(struct bx_loop *loop); /* frees remaining sources (not their descriptors) */
int bx_loop_fd(const struct bx_loop *loop);
/* Waits at most timeout_ms (-1: for ever) and handles one batch of events: their number (0 also when a
 * signal handler ran), or -errno. Deferred calls made before it are run first and make it not wait.
 * Not from a callback: -EDEADLK. */
int bx_loop_dispatch(struct bx_loop *loop, int timeout_ms);
/* Makes a running or the next dispatch return. Async-signal-safe, any thread. */
void bx_loop_wakeup(struct bx_loop *loop);
/* True once after a wake-up was seen. */
bool bx_loop_woken(struct bx_loop *loop);

/* ret may be NULL in all of these: the source then lives as long as the loop.
 * fd is borrowed and must stay open while the source lives; it can be in a loop only once (-EEXIST);
 * regular files cannot be watched (-EPERM). */
int bx_loop_add_fd(struct bx_loop *loop, int fd, uint32_t events, bx_fd_fn fn, void *data,
                   struct bx_source **ret);
int bx_source_set_events(struct bx_source *src, uint32_t events); /* 0: none, not even hang-ups */
/* Fires once when the monotonic clock passes the deadline (BX_NEVER: armed later). */
int bx_loop_add_timer(struct bx_loop *loop, uint64_t deadline, bx_call_fn fn, void *data,
                      struct bx_source **ret);
void bx_source_set_deadline(struct bx_source *src, uint64_t deadline);
/* Calls fn once with the status of the child, which is reaped; si_pid is 0 if somebody else reaped it.
 * pidfd borrowed. */
int bx_loop_add_child(struct bx_loop *loop, int pidfd, bx_child_fn fn, void *data,
                      struct bx_source **ret);
/* Calls fn once in the next dispatch. Freed by itself after the call (so *ret is stale then) unless
 * freed before. */
int bx_loop_add_defer(struct bx_loop *loop, bx_call_fn fn, void *data, struct bx_source **ret);
void bx_source_free(struct bx_source *src); /* accepts NULL */

BX_DEFINE_CLEANUP(struct bx_loop *, bx_loop_free, bx_cleanup_loop);
#define _cleanup_loop_ _cleanup_(bx_cleanup_loop)

#endif
