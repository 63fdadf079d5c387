/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h: guest kernels of a home: kernels/NAME/{vmlinux, modules.cpio, initramfs, kernel.json}.
 *
 * Import makes such a folder from a Debian kernel package, a vmlinuz with its modules folder, or a
 * vmlinux, under a temporary name, and renames it into place. The initramfs is modules.cpio with the
 * agent behind it; opening a kernel renews it when it does not hold the agent of this installation,
 * so an upgrade of BoxLite never boots an old agent.
 */
#ifndef BX_BOOT_KERNEL_H
#define BX_BOOT_KERNEL_H

#include <boxlite.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "state/home.h"

#define BX_KERNEL_DEFAULT "default"

struct bx_kernel {
    char *name;
    char *release;   /* "6.1.0-50-cloud-amd64" */
    char *vmlinux;   /* path */
    char *initramfs; /* path */
    uint64_t size;   /* bytes of both files */
};

/* source: FILE.deb, a vmlinuz or a vmlinux. modules_dir: its /lib/modules/VERSION, or NULL (a package
 * has its own; a kernel with everything built in needs none). name NULL: "default". Replaces a kernel
 * of that name. INVALID, NOT_FOUND, INTEGRITY (damaged or not a kernel), UNSUPPORTED. */
int bx_kernel_import(const struct bx_home *home, const char *source, const char *modules_dir,
                     const char *agent_path, const char *name, boxlite_error **err);
/* A kernel ready for booting. NOT_FOUND with a hint if it was never imported. */
int bx_kernel_open(int home_fd, const char *name, const char *agent_path, struct bx_kernel **ret,
                   boxlite_error **err);
/* NULL-terminated, sorted by name, caller frees with bx_kernel_list_free(). Damaged ones are left out. */
int bx_kernel_list(int home_fd, struct bx_kernel ***ret, size_t *ret_n, boxlite_error **err);
int bx_kernel_remove(int home_fd, const char *name, boxlite_error **err);

void bx_kernel_free(struct bx_kernel *k);
void bx_kernel_list_free(struct bx_kernel **list);
BX_DEFINE_CLEANUP(struct bx_kernel *, bx_kernel_free, bx_cleanup_kernel);
#define _cleanup_kernel_ _cleanup_(bx_cleanup_kernel)

#endif
