/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.c: from a config to a running QEMU process.
 *
 * The child gets exactly the descriptors of `enum child_fd`, an almost empty environment, and
 * limits: no core dumps, no file grown beyond the largest writable disk, few descriptors. See
 * jail.c for its rights and argv.c for its seccomp filter.
 *
 * QEMU reads kernel and initramfs by the names /proc/self/fd/N, and opening such a name checks the
 * file's mode once more. A file that others may not read is handed over as a copy in memory if the
 * process changes its user.
 */
#include "vmm/qemu/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/spawn.h"
#include "vmm/handover.h"
#include "vmm/jail.h"
#include "vmm/tsc.h"

#define FDS_MAX 16
#define NOFILE 128

/* Places in the child. */
enum child_fd {
    CHILD_QMP = 3,
    CHILD_CONSOLE,
    CHILD_AGENT,
    CHILD_NET,
    CHILD_KERNEL,
    CHILD_INITRAMFS,
    CHILD_DISK0,
};

/* The ends that the child gets; closed here once it has them. */
struct child_ends {
    int qmp, console, errors, kernel, initramfs;
};

static void close_ends(struct child_ends *e)
{
    bx_close(&e->qmp);
    bx_close(&e->console);
    bx_close(&e->errors);
    bx_close(&e->kernel);
    bx_close(&e->initramfs);
}

static void close_proc(struct bx_qemu_proc *p)
{
    bx_close(&p->pidfd);
    bx_close(&p->qmp);
    bx_close(&p->console);
    bx_close(&p->errors);
}

static int copy_to_memory(int fd, off_t size)
{
    _cleanup_close_ int copy = memfd_create("boxlite", MFD_CLOEXEC);
    off_t off = 0;

    if (copy < 0) {
        return -errno;
    }
    while (off < size) {
        ssize_t n = sendfile(copy, fd, &off, (size_t)(size - off));
        if (n <= 0) {
            return n < 0 ? -errno : -EIO;
        }
    }
    return steal_fd(&copy);
}

/* Opens a file that QEMU will read by descriptor. */
static int open_input(const char *path, const char *what, bool other_user, int *ret,
                      boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    struct stat st;
    int r = bx_engine_open_input(path, what, &fd, &st, err);

    if (r < 0) {
        return r;
    }
    if (other_user && !(st.st_mode & S_IROTH)) {
        int copy = copy_to_memory(fd, st.st_size);
        if (copy < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, copy, "copying the %s %s", what, path);
        }
        (void)close(fd);
        fd = copy;
    }
    *ret = steal_fd(&fd);
    return 0;
}

static int make_channels(struct child_ends *e, struct bx_qemu_proc *p, boxlite_error **err)
{
    int qmp[2] = {-1, -1}, console[2] = {-1, -1}, errors[2] = {-1, -1};
    int r = bx_socketpair(SOCK_STREAM, qmp);

    if (r == 0) {
        p->qmp = qmp[0];
        e->qmp = qmp[1];
        r = bx_socketpair(SOCK_STREAM, console);
    }
    if (r == 0) {
        p->console = console[0];
        e->console = console[1];
        r = bx_pipe(errors);
    }
    if (r == 0) {
        p->errors = errors[0];
        e->errors = errors[1];
        r = bx_set_nonblock(p->errors, true);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "making the engine's channels") : 0;
}

static size_t map_fds(const struct bx_vmm_config *c, const struct child_ends *e,
                      struct bx_spawn_fd *fds)
{
    const struct bx_spawn_fd fixed[] = {
        {e->errors, 1},
        {e->errors, 2},
        {e->qmp, CHILD_QMP},
        {e->console, CHILD_CONSOLE},
        {c->agent_fd, CHILD_AGENT},
        {c->net_fd, CHILD_NET},
        {e->kernel, CHILD_KERNEL},
        {e->initramfs, CHILD_INITRAMFS},
    };

    return bx_engine_map_fds(c, fixed, BX_ARRAY_SIZE(fixed), CHILD_DISK0, fds, FDS_MAX);
}

static int spawn(const struct bx_vmm_config *c, const char *program, char *const *argv,
                 struct child_ends *e, struct bx_engine_jail *jail, struct bx_qemu_proc *p,
                 boxlite_error **err)
{
    static const char *const env[] = {"LC_ALL=C", "HOME=/", NULL};
    rlim_t largest = bx_engine_file_limit(c, 0);
    const struct bx_spawn_limit limits[] = {
        {RLIMIT_CORE, {0, 0}},
        {RLIMIT_NOFILE, {NOFILE, NOFILE}},
        {RLIMIT_FSIZE, {largest, largest}},
    };
    struct bx_spawn_fd fds[FDS_MAX];
    const struct bx_spawn spec = {
        .path = program,
        .argv = (const char *const *)argv,
        .envp = env,
        .fds = fds,
        .nfds = map_fds(c, e, fds),
        .limits = limits,
        .nlimits = BX_ARRAY_SIZE(limits),
        .death_signal = SIGKILL,
        .new_session = true,
        .no_new_privs = true,
        .child = bx_engine_jail_enter,
        .child_data = jail,
    };

    return bx_spawn(&spec, &p->pid, &p->pidfd, err);
}

static int launch(const struct bx_vmm_config *c, enum bx_qemu_accel accel, const char *program,
                  struct child_ends *e, struct bx_qemu_proc *p, boxlite_error **err)
{
    _cleanup_strv_ struct bx_strv argv = {0};
    struct bx_engine_jail jail;

    bx_engine_jail_prepare(&jail, accel == BX_QEMU_KVM);
    int r = open_input(c->kernel, "kernel", jail.drop, &e->kernel, err);
    if (r == 0 && c->initramfs) {
        r = open_input(c->initramfs, "initramfs", jail.drop, &e->initramfs, err);
    }
    if (r < 0) {
        return r;
    }
    const struct bx_qemu_args args = {
        .program = program,
        .accel = accel,
        .config = c,
        .fds = {.qmp = CHILD_QMP,
                .console = CHILD_CONSOLE,
                .agent = CHILD_AGENT,
                .net = c->net_fd >= 0 ? CHILD_NET : -1,
                .kernel = CHILD_KERNEL,
                .initramfs = e->initramfs >= 0 ? CHILD_INITRAMFS : -1,
                .disk0 = CHILD_DISK0},
        .tsc_khz = accel == BX_QEMU_TCG ? bx_tsc_khz() : 0,
    };
    r = bx_qemu_argv(&args, &argv, err);
    if (r == 0) {
        r = make_channels(e, p, err);
    }
    return r < 0 ? r : spawn(c, program, argv.v, e, &jail, p, err);
}

int bx_qemu_program(char **ret, boxlite_error **err)
{
    const char *asked = secure_getenv("BOXLITE_QEMU");
    char *path = !asked                     ? bx_find_program(BX_QEMU_PROGRAM)
                 : access(asked, X_OK) == 0 ? strdup(asked)
                                            : NULL;

    if (!path) {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "%s is not installed",
                      asked ? asked : BX_QEMU_PROGRAM);
        bx_hint(err, BX_QEMU_HINT);
        return BOXLITE_E_ENGINE;
    }
    *ret = path;
    return 0;
}

int bx_qemu_launch(const struct bx_vmm_config *config, enum bx_qemu_accel accel,
                   struct bx_qemu_proc *ret, boxlite_error **err)
{
    struct bx_qemu_proc proc = {.pidfd = -1, .qmp = -1, .console = -1, .errors = -1};
    struct child_ends ends = {-1, -1, -1, -1, -1};
    _cleanup_free_ char *program = NULL;
    int r = bx_qemu_program(&program, err);

    if (r == 0) {
        r = launch(config, accel, program, &ends, &proc, err);
    }
    close_ends(&ends);
    if (r < 0) {
        close_proc(&proc);
        return r;
    }
    *ret = proc;
    return 0;
}
