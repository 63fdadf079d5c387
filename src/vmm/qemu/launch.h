/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h: finds QEMU and starts its process for a config.
 */
#ifndef BX_VMM_QEMU_LAUNCH_H
#define BX_VMM_QEMU_LAUNCH_H

#include "vmm/qemu/argv.h"

#define BX_QEMU_PROGRAM "qemu-system-x86_64"
#define BX_QEMU_HINT                                                                               \
    "install QEMU: the package is called qemu-system-x86 on Debian and Ubuntu, "                   \
    "qemu-system-x86-core on Fedora"

/* The path of QEMU: $BOXLITE_QEMU if set, else found as bx_find_program() does (caller frees).
 * ENGINE with BX_QEMU_HINT if it is missing. */
int bx_qemu_program(char **ret, boxlite_error **err);

struct bx_qemu_proc { /* all descriptors owned by whoever has the struct */
    pid_t pid;
    int pidfd;
    int qmp;     /* socket */
    int console; /* socket: what the guest's serial port prints */
    int errors;  /* pipe: the program's own stdout and stderr */
};

/* ENGINE with a hint if the program is missing. */
int bx_qemu_launch(const struct bx_vmm_config *config, enum bx_qemu_accel accel,
                   struct bx_qemu_proc *ret, boxlite_error **err);

#endif
