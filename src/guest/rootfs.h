/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs.h: the container's root: the image (read-only) under a layer that takes the writes.
 */
#ifndef BX_GUEST_ROOTFS_H
#define BX_GUEST_ROOTFS_H

#include "guest/config.h"
#include "guest/text.h"

#define ROOTFS_MERGED "/box/merged"

int rootfs_mount(const struct config *cfg, struct failure *f);
/* Everything written reaches the disk. The processes in the container have ended. */
void rootfs_unmount(void);

#endif
