/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.h: what QEMU's process gives up before its program starts, beside limits, no_new_privs and
 * its own seccomp filter.
 */
#ifndef BX_VMM_JAIL_H
#define BX_VMM_JAIL_H

#include <stdbool.h>
#include <sys/types.h>

struct bx_engine_jail {
    pid_t parent;
    bool drop;  /* change to uid, else stay */
    uid_t uid;  /* and gid of the same number */
    bool group; /* keep one supplementary group: kvm_gid */
    gid_t kvm_gid;
};

/* Decides, in the parent. kvm: the process must be able to open /dev/kvm. */
void bx_engine_jail_prepare(struct bx_engine_jail *jail, bool kvm);
/* Enters it, in the child (bx_spawn.child): system calls only. 0 or -errno. */
int bx_engine_jail_enter(void *data);

#endif
