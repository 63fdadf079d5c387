/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_start.c: starting a box: a shim is spawned, and its connection followed until it says
 * RUNNING.
 *
 * Of several that start a box at the same time one shim gets the lock; the others end with STATE,
 * and their starters join the one that runs. Starting a box that runs is 0.
 *
 * An attached box' shim is a child of this process, reaped by its pidfd. A detached one must
 * outlive the runtime, when nobody here would reap it: it is handed to init by a second fork.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "box/box.h"
#include "box/op.h"
#include "box/shimfind.h"
#include "box/shimproc.h"

#define JOIN_MS 3000
#define JOIN_RETRY_MS 5

enum { FD_BOX = 3, FD_HOME, FD_CONTROL, FD_OWNER };

/* ---- The program ----------------------------------------------------------------------------- */

/* Runs in the child before exec: system calls only. */
static int hand_to_init(void *data)
{
    long pid = syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0) {
        return -errno;
    }
    if (pid > 0) {
        _exit(0);
    }
    return 0;
}

struct shim_fds {
    int control, log, owner;
};

static int spawn_with(boxlite_box *box, const char *program, const struct shim_fds *fds,
                      int *ret_pidfd, boxlite_error **err)
{
    char level[16];
    const char *const argv[] = {program,
                                "--box-fd",
                                "3",
                                "--home-fd",
                                "4",
                                "--control-fd",
                                "5",
                                "--log-level",
                                level,
                                "--quiet",
                                box->quiet ? "1" : "0",
                                fds->owner >= 0 ? "--owner-pidfd" : NULL,
                                "6",
                                NULL};
    const struct bx_spawn_fd map[] = {{box->fd, FD_BOX},
                                      {box->rt->home->fd, FD_HOME},
                                      {fds->control, FD_CONTROL},
                                      {fds->log, STDERR_FILENO},
                                      {fds->owner, FD_OWNER}};
    struct bx_spawn spec = {.path = program,
                            .argv = argv,
                            .fds = map,
                            .new_session = true,
                            .nfds = BX_ARRAY_SIZE(map) - (fds->owner >= 0 ? 0 : 1),
                            .child = fds->owner >= 0 ? NULL : hand_to_init};
    pid_t pid;

    (void)snprintf(level, sizeof(level), "%d", box->rt->log.level);
    return bx_spawn(&spec, &pid, ret_pidfd, err);
}

/* *ret_pidfd: of the shim when it is our child, else -1. */
static int spawn_shim(boxlite_box *box, int *ret_control, int *ret_pidfd, boxlite_error **err)
{
    _cleanup_free_ char *dir = NULL, *program = NULL;
    _cleanup_close_ int ours = -1, theirs = -1, log = -1, owner = -1, pidfd = -1;
    siginfo_t status;
    int pair[2];
    int r = bx_libexec_find(box->rt->libexec_asked, &dir, err);

    r = r < 0 ? r : bx_box_check_kernel(box->rt, box->config.kernel, err);
    if (r < 0) {
        return r;
    }
    program = bx_path_join(dir, BX_SHIM_PROGRAM);
    if (!program) {
        return bx_fail_oom(err);
    }
    r = bx_socketpair(SOCK_STREAM, pair);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "a socket pair");
    }
    ours = pair[0];
    theirs = pair[1];
    log = openat(box->fd, "shim.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening shim.log");
    }
    const bool detached = box->config.detached && !box->quiet;
    owner = detached ? -1 : bx_pidfd_open(getpid());
    if (owner < 0 && !detached) {
        return bx_fail_errno(err, BOXLITE_E_IO, owner, "a pidfd of this process");
    }
    r = spawn_with(box, program, &(struct shim_fds){theirs, log, owner}, &pidfd, err);
    if (r < 0) {
        return r;
    }
    if (detached) {
        /* The one in between ends as soon as it has forked. */
        while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &status, WEXITED) < 0 && errno == EINTR) {
        }
        bx_close(&pidfd);
    }
    *ret_control = steal_fd(&ours);
    *ret_pidfd = steal_fd(&pidfd);
    return 0;
}

static int spawn_client(boxlite_box *box, struct bx_client **ret, boxlite_error **err)
{
    struct bx_client *c;
    int control = -1, pidfd = -1;
    int r = spawn_shim(box, &control, &pidfd, err);

    if (r == 0) {
        r = bx_client_new(box->rt, box->row.id, box->fd, control, pidfd, &c, err);
    }
    if (r < 0) {
        return r;
    }
    if (!box->config.detached || box->quiet) {
        bx_client_own(c, box->config.auto_remove && !box->quiet);
    }
    *ret = c;
    return 0;
}

/* ---- The call -------------------------------------------------------------------------------- */

static void start_check(struct bx_op *op);

static void start_fail(struct bx_op *op, int code, const char *message, const char *hint)
{
    boxlite_error *error = NULL;
    (void)bx_fail_copy(&error, code, 0, message, hint);
    bx_wrap(&error, "starting box %s", op->name);
    bx_op_finish(op, code, error);
}

/* While the op waits to join, its own shim's last changes mean nothing. */
static void joining_check(struct bx_op *op)
{
}

static void try_join(void *data)
{
    struct bx_op *op = data;
    struct bx_client *c;

    if (op->finished) {
        return;
    }
    if (bx_client_connect(op->rt, op->id, op->box_fd, &c, NULL) == 0) {
        bx_op_follow(op, c, start_check);
        start_check(op); /* a shared one may have told its state already */
    } else if (bx_now_mono() < op->join_by && bx_shim_running(op->box_fd) == 1) {
        bx_source_set_deadline(op->timer, bx_deadline_ms(JOIN_RETRY_MS));
    } else {
        start_fail(op, BOXLITE_E_BUSY, "another process is just starting or ending it",
                   "try again");
    }
}

/* Another one's shim has the box: join that. It has the lock a moment before it listens. */
static void join_other(struct bx_op *op)
{
    op->retried = true;
    op->check = joining_check;
    op->join_by = bx_deadline_ms(JOIN_MS);
    if (bx_loop_add_timer(op->rt->loop, BX_NEVER, try_join, op, &op->timer) < 0) {
        start_fail(op, BOXLITE_E_NO_MEMORY, "out of memory", NULL);
        return;
    }
    try_join(op);
}

static void start_over(struct bx_op *op)
{
    const boxlite_error *failure = bx_client_failure(op->client);
    if (!failure) {
        start_fail(op, BOXLITE_E_STATE, "it was stopped before it was up", NULL);
    } else if (boxlite_error_code(failure) == BOXLITE_E_STATE && !op->retried) {
        join_other(op);
    } else {
        start_fail(op, boxlite_error_code(failure), boxlite_error_message(failure),
                   boxlite_error_hint(failure));
    }
}

static void start_check(struct bx_op *op)
{
    switch (bx_client_state(op->client)) {
    case BOXLITE_BOX_RUNNING:
        bx_op_finish(op, 0, NULL);
        return;
    case BOXLITE_BOX_PAUSED:
        start_fail(op, BOXLITE_E_STATE, "it is paused", "resume it");
        return;
    case BOXLITE_BOX_STOPPING:
        if (op->retried) {
            start_fail(op, BOXLITE_E_STATE, "it is just stopping", "try again");
        }
        return; /* our own shim: the failure comes with STOPPED */
    default:
        if (bx_client_over(op->client)) {
            start_over(op);
        }
    }
}

int bx_box_start_async(boxlite_box *box, boxlite_done_fn fn, void *data, boxlite_error **err)
{
    _cleanup_client_ struct bx_client *c = NULL;
    struct bx_op *op;
    bool joined = false;
    int r = bx_box_need_config(box, err);

    if (r == 0) {
        r = bx_box_need_folder(box, err);
    }
    if (r < 0) {
        return r;
    }
    if (bx_client_lookup(box->rt, box->row.id) || bx_shim_running(box->fd) == 1) {
        joined = bx_client_connect(box->rt, box->row.id, box->fd, &c, NULL) == 0;
    }
    if (!joined) {
        r = spawn_client(box, &c, err);
        if (r < 0) {
            bx_wrap(err, "starting box %s", box->row.name);
            return r;
        }
    }
    r = bx_op_new(box->rt, box->row.id, box->row.name, box->fd, fn, data, &op, err);
    if (r < 0) {
        return r;
    }
    op->retried = joined;
    bx_client_unref(box->client);
    box->client = bx_client_ref(c);
    bx_op_follow(op, steal_ptr(&c), start_check);
    start_check(op); /* a joined one may be there already */
    return 0;
}

static int begin_start(void *arg, boxlite_done_fn fn, void *data, boxlite_error **err)
{
    return bx_box_start_async(arg, fn, data, err);
}

int bx_box_start(boxlite_box *box, boxlite_error **err)
{
    return bx_op_run(box->rt, begin_start, box, "starting the box", err);
}
