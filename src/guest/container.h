/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container.h: the place where commands run: namespaces of their own, whose init belongs to the agent.
 */
#ifndef BX_GUEST_CONTAINER_H
#define BX_GUEST_CONTAINER_H

#include "guest/agent.h"
#include "guest/config.h"
#include "guest/text.h"

/* Makes it; *ret_report becomes readable when it stands or has failed. Meanwhile the loop has to go on:
 * what is set up may lie on shared folders. */
#define CONTAINER_SETUP_MS 20000
int container_start(struct agent *a, const struct config *cfg, int *ret_report, struct failure *f);
/* After that the agent's own children are born in its PID namespace (and stay children of the agent). */
int container_finish(struct agent *a, int report, struct failure *f);
/* What a child of the agent does first to be inside: mount, UTS, IPC and cgroup namespaces; its root
 * and working directory are the container's. */
int container_enter(const struct container *c, struct failure *f);
/* Kills everything in it and waits for that, at most until the deadline. */
void container_kill(struct container *c, uint64_t deadline);

/* In the new namespaces: mounts, files, host name (container_mounts.c). */
int container_setup(const struct config *cfg, struct failure *f);

#endif
