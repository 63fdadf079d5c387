/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c: see watch.h. Two trees may hold the same folder, and then share its watch: a watch's number
 * leads to a list of those who want its events.
 */
#include "share/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "share/node.h"

#define EVENTS                                                                                     \
    (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM |              \
     IN_MOVED_TO | IN_DELETE_SELF)
#define BUCKETS 4096u
#define BUFFER (64u << 10)
#define WATCHES_MAX 16384u /* the user's editors want some of the host's, too */

struct want {
    struct want *next;
    int wd;
    uint64_t dir;
    bx_watch_fn fn;
    void *data;
};

struct bx_watch {
    int fd;
    unsigned n;
    struct want *buckets[BUCKETS];
    uint8_t buffer[BUFFER];
};

int bx_watch_new(struct bx_watch **ret)
{
    struct bx_watch *w = calloc(1, sizeof(*w));
    if (!w) {
        return -ENOMEM;
    }
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0) {
        int r = -errno;
        free(w);
        return r;
    }
    *ret = w;
    return 0;
}

void bx_watch_free(struct bx_watch *w)
{
    for (size_t i = 0; w && i < BUCKETS; i++) {
        for (struct want *x = w->buckets[i], *next; x; x = next) {
            next = x->next;
            free(x);
        }
    }
    if (w) {
        (void)close(w->fd);
    }
    free(w);
}

int bx_watch_fd(const struct bx_watch *w)
{
    return w->fd;
}

int bx_watch_add(struct bx_watch *w, int fd, uint64_t dir, bx_watch_fn fn, void *data)
{
    char path[BX_PROC_PATH];
    struct want *x = w->n < WATCHES_MAX ? calloc(1, sizeof(*x)) : NULL;
    if (!x) {
        return w->n < WATCHES_MAX ? -ENOMEM : -ENOSPC;
    }
    int wd = inotify_add_watch(w->fd, bx_proc_path(fd, path), EVENTS | IN_ONLYDIR | IN_EXCL_UNLINK);
    if (wd < 0) {
        int r = -errno;
        free(x);
        return r;
    }
    struct want **head = &w->buckets[(unsigned)wd % BUCKETS];
    *x = (struct want){.next = *head, .wd = wd, .dir = dir, .fn = fn, .data = data};
    *head = x;
    w->n++;
    return wd;
}

void bx_watch_remove(struct bx_watch *w, int wd, uint64_t dir, const void *data)
{
    bool others = false;
    struct want **p = &w->buckets[(unsigned)wd % BUCKETS];
    while (*p) {
        struct want *x = *p;
        if (x->wd == wd && x->dir == dir && x->data == data) {
            *p = x->next;
            w->n--;
            free(x);
        } else {
            others |= x->wd == wd;
            p = &x->next;
        }
    }
    if (!others) {
        (void)inotify_rm_watch(w->fd, wd); /* its folder may be gone, and the watch with it */
    }
}

/* fn may remove any of the wants: the list is gone through anew after each. */
static void tell(struct bx_watch *w, const struct inotify_event *e)
{
    const char *name = e->len > 0 ? e->name : NULL;
    struct want *x = w->buckets[(unsigned)e->wd % BUCKETS];
    for (unsigned done = 0, at; x; done++) {
        for (at = 0, x = w->buckets[(unsigned)e->wd % BUCKETS]; x; x = x->next) {
            if (x->wd == e->wd && at++ == done) {
                break;
            }
        }
        if (x) {
            x->fn(x->data, x->dir, name, e->mask);
        }
    }
}

static void tell_overflow(struct bx_watch *w)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct want *x = w->buckets[i]; x; x = x->next) {
            x->fn(x->data, x->dir, NULL, IN_Q_OVERFLOW);
        }
    }
}

void bx_watch_drain(struct bx_watch *w)
{
    for (;;) {
        ssize_t n = read(w->fd, w->buffer, sizeof(w->buffer));
        if (n <= 0) {
            return;
        }
        for (size_t at = 0; at < (size_t)n;) {
            const struct inotify_event *e = (const struct inotify_event *)(w->buffer + at);
            at += sizeof(*e) + e->len;
            if (e->mask & IN_Q_OVERFLOW) {
                tell_overflow(w);
            } else {
                tell(w, e);
            }
        }
    }
}
