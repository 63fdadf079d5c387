/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot.h: from the kernel's hands to a guest in which the agent can work: its own mounts, the modules of
 * the initramfs, the port to the host.
 */
#ifndef BX_GUEST_BOOT_H
#define BX_GUEST_BOOT_H

#include <stdint.h>

#include "guest/text.h"

/* Mounts /proc, /sys, /dev, cgroup2 on a root that can be pivoted away from; standard descriptors on the
 * console. */
int boot_mounts(struct failure *f);
/* Loads the folder's NAME.ko that begin with `stage`, in the order of their names. A module that does not load is told
 * on the console only: what is missing shows itself where it is needed. Stages: BOOT_ROOT is what the root needs. */
#define BOOT_ROOT '0'
#define BOOT_NET '1'
#define BOOT_LATER '2'
/* Loads one module, whatever its stage, if it is there and not loaded. */
void boot_module(int dirfd, const char *name);
void boot_modules(int dirfd, char stage);
/* Forks a process of low priority that loads the stages NET and LATER once *ret_go is closed. It must be made before the
 * container is, or it would land there. Its pidfd, or -errno. */
int boot_modules_later(int dirfd, int *ret_go);
/* Memory locked, exempt from the OOM killer, ahead of others for the CPU, enough descriptors. */
void boot_protect_self(void);
/* Opens the channel to the host, waiting until the host has its end open and `hello` is written. */
int boot_open_port(const void *hello, size_t len, uint64_t deadline, int *ret, struct failure *f);
/* Waits until a file (a device node) is there. 0 or -ETIMEDOUT, -errno. */
int boot_wait_file(const char *path, uint64_t deadline);

#endif
