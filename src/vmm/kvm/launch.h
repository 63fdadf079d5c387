/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h: the shim's side: finds boxlite-vmm and starts it for a config.
 */
#ifndef BX_VMM_KVM_LAUNCH_H
#define BX_VMM_KVM_LAUNCH_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"
#include "vmm/vmm.h"

struct bx_kvm_proc { /* all descriptors owned by whoever has the struct */
    pid_t pid;
    int pidfd;
    int control; /* SOCK_SEQPACKET, non-blocking */
    int console; /* socket: what the guest's serial port prints */
    int errors;  /* pipe: the program's own stdout and stderr */
};

/* The path of the program (caller frees): from BOXLITE_VMM, else beside the program or library that
 * this code is in, else where the installation put it. ENGINE with a hint if it is nowhere. */
int bx_kvm_program(char **ret, boxlite_error **err);
/* What the program can give up on this host: "not dumpable, Landlock, …", and what it cannot (either
 * may come out empty). Runs it for a moment. */
int bx_kvm_stages(struct bx_buf *on, struct bx_buf *off, boxlite_error **err);
/* The program's arguments into an empty vector. INVALID for what cannot be expressed. */
int bx_kvm_argv(const struct bx_vmm_config *config, struct bx_strv *ret, boxlite_error **err);
int bx_kvm_launch(const struct bx_vmm_config *config, struct bx_kvm_proc *ret, boxlite_error **err);

#endif
