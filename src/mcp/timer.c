/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer.c: one-shot timers of the server, in an unsorted list: there are at most a few per running call. A timer that
 * fires is off the list before its function is called, so that this may arm it again or free what holds it.
 */
#include <limits.h>

#include "mcp/mcp.h"

void mcp_timer_cancel(struct mcp_server *s, struct mcp_timer *timer)
{
    for (struct mcp_timer **p = mcp_server_timers(s); *p; p = &(*p)->next) {
        if (*p == timer) {
            *p = timer->next;
            return;
        }
    }
}

void mcp_timer_arm(struct mcp_server *s, struct mcp_timer *timer, uint64_t ms, void (*fn)(void *data), void *data)
{
    struct mcp_timer **list = mcp_server_timers(s);
    mcp_timer_cancel(s, timer);
    *timer = (struct mcp_timer){
        .next = *list, .due_ns = mcp_now_ns() + ms * UINT64_C(1000000), .fn = fn, .data = data};
    *list = timer;
}

int mcp_timers_wait_ms(struct mcp_server *s)
{
    uint64_t now = mcp_now_ns(), first = UINT64_MAX;
    for (struct mcp_timer *t = *mcp_server_timers(s); t; t = t->next) {
        first = t->due_ns < first ? t->due_ns : first;
    }
    if (first == UINT64_MAX) {
        return -1;
    }
    first = first > now ? (first - now) / 1000000 + 1 : 0;
    return first < INT_MAX ? (int)first : INT_MAX;
}

static struct mcp_timer *due(struct mcp_server *s)
{
    uint64_t now = mcp_now_ns();
    struct mcp_timer *t = *mcp_server_timers(s);
    while (t && t->due_ns > now) {
        t = t->next;
    }
    return t;
}

void mcp_timers_run(struct mcp_server *s)
{
    struct mcp_timer *t;
    while ((t = due(s)) != NULL) {
        mcp_timer_cancel(s, t);
        t->fn(t->data);
    }
}
