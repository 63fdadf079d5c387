/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h: starts a program. Everything is prepared before the fork and only async-signal-safe calls
 * are made in the child, so it is safe in a process with threads. A failed exec is reported as the
 * call's own error. The child gets default signal dispositions, an empty mask, and just the
 * descriptors it is given. It is watched by pidfd, never by SIGCHLD.
 */
#ifndef BX_BASE_SPAWN_H
#define BX_BASE_SPAWN_H

#include <boxlite.h>

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

struct bx_spawn_fd {
    int from; /* here; borrowed */
    int to;   /* there */
};
struct bx_spawn_limit {
    int resource;
    struct rlimit limit;
};

struct bx_spawn {
    const char *path;              /* searched in PATH if it has no slash */
    const char *const *argv;       /* NULL-terminated */
    const char *const *envp;       /* NULL: this process' */
    const struct bx_spawn_fd *fds; /* 0, 1, 2 not named here become /dev/null */
    size_t nfds;
    const struct bx_spawn_limit *limits;
    size_t nlimits;
    int death_signal; /* sent when the calling thread ends; 0: none */
    bool new_session; /* setsid */
    bool no_new_privs;
    int (*child)(
        void *data); /* last step in the child before exec, async-signal-safe: 0 or -errno */
    void *child_data;
};

/* Starts it: pid and pidfd (caller closes, reaps with waitid(P_PIDFD)). */
int bx_spawn(const struct bx_spawn *spec, pid_t *ret_pid, int *ret_pidfd, boxlite_error **err);
/* Runs to the end; collects at most out->max bytes of stdout and of stderr (either may be NULL).
 * deadline: monotonic, BX_NEVER; past it the child is killed: TIMEOUT. *ret_status: exit code, or
 * 128 + signal. */
struct bx_buf;
int bx_run(const struct bx_spawn *spec, struct bx_buf *out, struct bx_buf *errout,
           uint64_t deadline, int *ret_status, boxlite_error **err);
/* Looks a program up in PATH, then in the system folders that a user's PATH may lack (/usr/sbin,
 * /sbin, …): its path (caller frees) or NULL. */
char *bx_find_program(const char *name);

#endif
