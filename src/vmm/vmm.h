/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm.h: the engine interface: one virtual machine from a config whose descriptors are ready.
 *
 * An engine is a separate, jailed process that opens nothing by itself after its start and dies
 * with the process that started it. The shim is the only user. All calls are non-blocking; what
 * happens is told through events from the loop. An engine never decides policy, and never trusts
 * the guest. The agent's channel is a plain byte stream (a connected stream socket); nothing here
 * may need more.
 */
#ifndef BX_VMM_VMM_H
#define BX_VMM_VMM_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/loop.h"

struct bx_vmm;

struct bx_vmm_disk {
    int fd; /* raw image; borrowed */
    bool read_only;
};

struct bx_vmm_config {
    const char *name;      /* the box's id, for process titles */
    const char *kernel;    /* path of vmlinux; opened before the jail closes */
    const char *initramfs; /* or NULL */
    const char *cmdline;   /* more words for the kernel command line, or NULL */
    uint32_t cpus;
    uint64_t memory;                 /* bytes */
    const struct bx_vmm_disk *disks; /* /dev/vda, /dev/vdb, … in this order */
    size_t ndisks;
    int agent_fd; /* the engine's end of the agent channel, a stream socket; borrowed */
    int net_fd; /* Ethernet frames, each with its length (u32, big-endian) first, or -1; borrowed */
    const char *mac; /* "52:54:00:…" with net_fd */
    int console_fd;  /* what the engine's own program prints is copied here, or -1; borrowed */
    /* The two files of a snapshot: the machine goes on from there instead of booting. Not used unless
     * `restore`; the memory file is mapped copy-on-write and must stay as it is. */
    bool restore;
    int state_fd, memory_fd; /* borrowed */
    int work_fd; /* a folder of the box for files that the engine needs by name; borrowed */
    const struct bx_log *log;
};

enum bx_vmm_end {
    BX_VMM_OFF,    /* the guest powered off or rebooted */
    BX_VMM_PANIC,  /* the guest kernel panicked or triple-faulted */
    BX_VMM_KILLED, /* by bx_vmm_kill() */
    BX_VMM_FAILED, /* the engine's process ended by itself: see the error */
};

/* Borrowed for the machine's life. Each callback may free it. All but `ended` may be NULL. */
struct bx_vmm_events {
    void (*running)(void *data);                               /* vCPUs run */
    void (*console)(void *data, const uint8_t *p, size_t len); /* what the guest's console prints */
    /* Once, last. error is not NULL for PANIC and FAILED; borrowed. */
    void (*ended)(void *data, enum bx_vmm_end how, const boxlite_error *error);
    void (*paused)(void *data, bool paused);               /* a pause or resume took effect */
    void (*saved)(void *data, const boxlite_error *error); /* the answer to `snapshot` */
    /* The answer to `stats`: a JSON object, as the engine's process says; not to be trusted. */
    void (*stats)(void *data, const char *json);
};

struct bx_vmm_ops {
    const char *name; /* "qemu-tcg", "qemu-kvm", "kvm" */
    int (*start)(struct bx_loop *loop, const struct bx_vmm_config *config,
                 const struct bx_vmm_events *events, void *data, struct bx_vmm **ret,
                 boxlite_error **err);
    /* Asked for now, told by `paused`. STATE before `running`. */
    int (*pause)(struct bx_vmm *vm, boxlite_error **err);
    int (*resume)(struct bx_vmm *vm, boxlite_error **err);
    /* Writes a paused machine to two empty files (borrowed), told by `saved`; NULL: not supported. */
    int (*snapshot)(struct bx_vmm *vm, int state_fd, int memory_fd, boxlite_error **err);
    int (*stats)(struct bx_vmm *vm, boxlite_error **err); /* told by `stats`; NULL: has none */
    void (*kill)(struct bx_vmm *vm);
    pid_t (*pid)(const struct bx_vmm *vm);
    void (*free)(struct bx_vmm *vm); /* kills and reaps what still runs; no events any more */
};

/* Chooses: "auto", "qemu" (best accelerator), "qemu-tcg", "qemu-kvm", "kvm". auto probes KVM
 * (verdict cached per boot below cache_fd, -1: no cache). ENGINE or UNSUPPORTED with a hint when
 * there is none. */
int bx_engine_choose(const char *asked, int cache_fd, const struct bx_vmm_ops **ret,
                     boxlite_error **err);

#endif
