/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h: file names inside kernels/NAME, shared by import and opening.
 */
#ifndef BX_BOOT_STORE_H
#define BX_BOOT_STORE_H

#include <boxlite.h>

#include "base/buf.h"

#define BX_KERNEL_VMLINUX "vmlinux"
#define BX_KERNEL_MODULES "modules.cpio" /* an archive without its end, see kernel.c */
#define BX_KERNEL_INITRAMFS "initramfs"
#define BX_KERNEL_JSON "kernel.json"
#define BX_INITRAMFS_MAX (256u << 20)
/* Readable by all, in a home that is not: an engine that runs as a user of its own gets descriptors of
 * them, and opens them anew by /proc/self/fd. There is nothing secret in them. */
#define BX_KERNEL_MODE 0644

/* Reads the agent and checks that it is an ELF program. */
int bx_kernel_read_agent(const char *path, struct bx_buf *ret, boxlite_error **err);
/* Appends /init and the archive's end: what follows modules.cpio in an initramfs. */
int bx_kernel_append_agent(struct bx_buf *cpio, const struct bx_buf *agent, boxlite_error **err);
/* A file name that is fit to be a kernel's: INVALID with the rule. */
int bx_kernel_check_name(const char *name, boxlite_error **err);

#endif
