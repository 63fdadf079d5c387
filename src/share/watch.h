/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h: what the host changes in folders that the guest knows.
 *
 * With it the guest's kernel may keep what it was told for long, because it is called back when that is no
 * longer so. A folder that cannot be watched (a limit, a file system of another machine) is simply told
 * with a short life. One inotify instance serves all trees of a process.
 */
#ifndef BX_SHARE_WATCH_H
#define BX_SHARE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct bx_watch;

/* In folder `dir` of a tree something happened to `name` (NULL: to the folder itself). mask: IN_*.
 * IN_Q_OVERFLOW, with dir 0: events of any folder of any tree were lost. */
typedef void (*bx_watch_fn)(void *data, uint64_t dir, const char *name, uint32_t mask);

int bx_watch_new(struct bx_watch **ret); /* 0 or -errno */
void bx_watch_free(struct bx_watch *w);
int bx_watch_fd(const struct bx_watch *w); /* readable: drain it */
/* Adds a folder by its descriptor: its watch, over 0, or -errno. Events come to fn. */
int bx_watch_add(struct bx_watch *w, int fd, uint64_t dir, bx_watch_fn fn, void *data);
void bx_watch_remove(struct bx_watch *w, int wd, uint64_t dir, const void *data);
/* Tells all events that there are. */
void bx_watch_drain(struct bx_watch *w);

#endif
