/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h: the state of the agent, shared by its parts.
 *
 * The agent is PID 1 of the guest and must never end by itself: without it the kernel panics and the
 * user learns nothing. What cannot be repaired is told to the host and on the console, then the guest is
 * powered off (agent_fatal). Everything runs in one thread on one loop; nothing in it blocks but the
 * set-up and the shutdown, which have deadlines.
 */
#ifndef BX_GUEST_AGENT_H
#define BX_GUEST_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/loop.h"
#include "wire/conn.h"
#include "wire/conn_io.h"

struct exec;
struct shares;

struct container {
    pid_t pid;  /* its init, or 0 */
    int pidfd;  /* of its init */
    int ptsfd;  /* its /dev/pts */
    int boxfd;  /* cgroup of all that runs in it */
    bool nodev; /* nothing but its /dev can open devices */
    uint64_t exec_pids_max;
};

struct agent {
    struct bx_loop *loop;
    struct bx_conn *conn;
    struct bx_conn_io *io;
    struct bx_source *container_source;
    struct container container;
    int modules;  /* the initramfs' folder of modules, or -1 */
    int late_go;  /* see boot_modules_later() */
    int late_pid; /* pidfd of that process */
    struct bx_source *late_source;
    struct bx_source *late_timer;
    bool configuring; /* the container is being set up */
    bool configured;
    bool stopping;
    int report; /* the container's init tells how that went */
    struct bx_source *report_source;
    struct bx_source *deadline; /* of the set-up, of the shutdown */
    struct shares *shares;      /* NULL: none */
    char *hostname;
    struct exec *execs; /* running */
    size_t nexecs;
    struct bx_buf msg; /* the message being written */
};

/* A line on the console; it reaches the host's console log. */
void agent_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Queues a->msg. A peer that takes no messages has been lost. */
void agent_send(struct agent *a);
/* FAILED to the host, the same on the console, then power off. errnum: errno or 0. */
_Noreturn void agent_fatal(struct agent *a, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
