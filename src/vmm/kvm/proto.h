/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto.h: between the shim and boxlite-vmm: descriptors at fixed places, options as arguments, and
 * short messages on a SOCK_SEQPACKET socket (one message a packet, so there is nothing to frame).
 *
 * The VMM is the first thing that a hostile guest would take over: the shim believes none of what it
 * says beyond "the guest has ended" and text to show.
 */
#ifndef BX_VMM_KVM_PROTO_H
#define BX_VMM_KVM_PROTO_H

#include <stddef.h>
#include <stdint.h>

#define BX_KVM_PROGRAM "boxlite-vmm"
#define BX_KVM_AGENT_PORT "org.boxlite.agent"
#define BX_KVM_DISKS_MAX 4

/* Where the program finds its descriptors. What is not used is not open. */
enum bx_kvm_fd {
    BX_KVM_FD_CONTROL = 3,
    BX_KVM_FD_CONSOLE, /* stream socket: what the serial port prints */
    BX_KVM_FD_KVM,     /* /dev/kvm */
    BX_KVM_FD_AGENT,   /* stream socket */
    BX_KVM_FD_NET,
    BX_KVM_FD_KERNEL,
    BX_KVM_FD_INITRAMFS,
    BX_KVM_FD_STATE,  /* of a snapshot, when one is restored */
    BX_KVM_FD_MEMORY, /* of a snapshot */
    BX_KVM_FD_DISK0,
};

enum bx_kvm_type {
    /* From the shim. */
    BX_KVM_PAUSE = 1,
    BX_KVM_RESUME,
    BX_KVM_STATS,    /* answered by STATS_TEXT */
    BX_KVM_SNAPSHOT, /* two descriptors: state, memory; while paused; answered by SNAPSHOT_DONE */
    BX_KVM_BALLOON,  /* value: MiB that the guest shall give away */
    /* From the VMM. */
    BX_KVM_RUNNING = 32, /* the vCPUs run */
    BX_KVM_PAUSED,
    BX_KVM_RESUMED,
    BX_KVM_ENDED, /* the last one; value: enum bx_kvm_end; text */
    BX_KVM_STATS_TEXT,
    BX_KVM_SNAPSHOT_DONE, /* text: empty, or why not */
};

enum bx_kvm_end {
    BX_KVM_END_OFF = 1, /* the guest wrote to the sleep register */
    BX_KVM_END_RESET,   /* the guest wrote to the reset register */
    BX_KVM_END_TRIPLE,  /* a fault that its processor could not deliver */
    BX_KVM_END_CRASH,   /* the guest told KVM that it has crashed */
    BX_KVM_END_FAILED,  /* the VMM cannot go on: text */
};

#define BX_KVM_TEXT_MAX 16384

struct bx_kvm_msg {
    uint32_t type;
    uint32_t value;
    char text[BX_KVM_TEXT_MAX]; /* as long as the packet; without NUL */
};
#define BX_KVM_MSG_HEAD offsetof(struct bx_kvm_msg, text)

#endif
