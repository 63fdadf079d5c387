/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h: folders and files of the host in the guest: FUSE mounts whose server is on the host.
 *
 * The agent only carries: what the kernel asks at /dev/fuse goes to the host over one channel for all
 * mounts, the answers come back over another. So nothing in the agent's own thread may ever touch such a
 * mount: it would wait for itself. A read or write under way holds a process in the kernel until it is
 * answered, so the carrying goes on while the container is set up, and until it is gone.
 */
#ifndef BX_GUEST_SHARE_H
#define BX_GUEST_SHARE_H

#include "guest/agent.h"
#include "guest/config.h"
#include "guest/text.h"

#define SHARE_DIR "/box/share"      /* N: the mount of that number */
#define SHARE_UNION_DIR "/box/ws"   /* N: a workspace, joined */
#define SHARE_UPPER "/box/upper/ws" /* N/upper, N/work: what a workspace's writes are */

/* Mounts all, and begins to carry. The image is mounted (for the owner's name). */
int share_mount_all(struct agent *a, const struct config *cfg, struct failure *f);
/* From the link: the host's answers. */
void share_bytes(struct agent *a, const uint8_t *p, size_t len);
void share_writable(struct agent *a);
void share_eof(struct agent *a);
/* Everything that waits for an answer fails now. */
void share_abort(struct agent *a);

/* In the container's init, before and after the change of the root (share_place.c). */
struct share_trees {
    int fds[CONFIG_MOUNTS_MAX];
};
int share_take(const struct config *cfg, struct share_trees *t, struct failure *f);
int share_place(const struct config *cfg, struct share_trees *t, struct failure *f);

#endif
