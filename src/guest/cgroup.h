/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h: control groups (version 2) of the guest.
 *
 *   /            the agent, which no limit concerns
 *   /box         everything of the container: limits leave the agent memory, tasks and CPU time
 *   /box/init    the container's init
 *   /box/eN      exec N
 *
 * A kernel without a controller loses only what it does: its files' absence is not an error.
 */
#ifndef BX_GUEST_CGROUP_H
#define BX_GUEST_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

#include "guest/agent.h"
#include "guest/text.h"

/* Makes /box and stores its descriptor and limits in c. */
int cgroup_make_box(struct container *c, struct failure *f);
/* Moves the container's init out of /box itself (a group with children has no members) and gives the
 * execs' groups their controllers. */
int cgroup_settle_init(struct container *c, struct failure *f);
/* A new group for exec `id`: its descriptor or -errno. */
int cgroup_make_exec(const struct container *c, uint32_t id);
/* SIGKILL to every process of exec `id`, also while they fork. 0, -ENOENT: no such group. */
int cgroup_kill_exec(const struct container *c, uint32_t id);
/* 0, or -EBUSY: processes live on in it. */
int cgroup_remove_exec(const struct container *c, uint32_t id);
/* A number in a file of a group: "pids.current", or the value after key in "cpu.stat". */
int cgroup_read(int dirfd, const char *file, const char *key, uint64_t *ret);
/* The number behind a word of that line: "total=" of "some" in "memory.pressure". */
int cgroup_read_word(int dirfd, const char *file, const char *key, const char *word, uint64_t *ret);

#endif
