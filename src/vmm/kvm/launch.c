/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.c: from a config to a running boxlite-vmm.
 *
 * Everything that the program needs is opened here and handed over at the places of proto.h; it never
 * opens anything by itself, so it may be another user, have no rights and see no files. Before its
 * code runs: a session of its own, an almost empty environment, no core dumps, few descriptors, no
 * file that grows beyond the largest writable disk, no_new_privs, no capabilities, and if the starter
 * is root a user number of the machine's own (jail.c).
 *
 * The kernel's words: no PIC, PIT, RTC or PCI is there to be looked for; a reset is the register that
 * the ACPI tables name.
 */
#include "vmm/kvm/launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/timeutil.h"
#include "config.h"
#include "vmm/handover.h"
#include "vmm/jail.h"
#include "vmm/kvm/proto.h"

#define FDS_MAX (BX_KVM_FD_DISK0 + BX_KVM_DISKS_MAX)
#define NOFILE 256
#define STAGES_MAX 4096
#define STAGES_MS 5000
#define CMDLINE_MAX 2047

static const char kernel_words[] =
    "console=ttyS0 quiet panic=-1 reboot=a pci=off no_timer_check rcupdate.rcu_expedited=1 "
    "cryptomgr.notests 8250.nr_uarts=1 random.trust_cpu=on";

/* ---- the program ------------------------------------------------------------------------------- */

/* Beside a file: in a build tree, an installation, a Python wheel. */
static char *beside(const char *file)
{
    static const char *const places[] = {BX_KVM_PROGRAM, "libexec/" BX_KVM_PROGRAM,
                                         "../libexec/boxlite/" BX_KVM_PROGRAM};
    _cleanup_free_ char *real = file ? realpath(file, NULL) : NULL;
    char *slash = real ? strrchr(real, '/') : NULL;

    if (!slash) {
        return NULL;
    }
    *slash = '\0';
    for (size_t i = 0; i < BX_ARRAY_SIZE(places); i++) {
        _cleanup_free_ char *path = bx_path_join(real, places[i]);
        if (path && access(path, X_OK) == 0) {
            return steal_ptr(&path);
        }
    }
    return NULL;
}

int bx_kvm_program(char **ret, boxlite_error **err)
{
    static const char anchor = 0;
    const char *asked = secure_getenv("BOXLITE_VMM");
    Dl_info info;
    char *path;

    if (asked) {
        path = access(asked, X_OK) == 0 ? strdup(asked) : NULL;
    } else {
        path = beside(dladdr(&anchor, &info) ? info.dli_fname : NULL);
        path = path ? path : beside("/proc/self/exe");
        path = path || access(BX_LIBEXECDIR "/" BX_KVM_PROGRAM, X_OK) < 0
                   ? path
                   : strdup(BX_LIBEXECDIR "/" BX_KVM_PROGRAM);
    }
    if (!path) {
        (void)bx_fail(err, BOXLITE_E_ENGINE, "the program %s was not found",
                      asked ? asked : BX_KVM_PROGRAM);
        bx_hint(err, "install BoxLite completely, or use the engine 'qemu'");
        return BOXLITE_E_ENGINE;
    }
    *ret = path;
    return 0;
}

/* ---- arguments ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void add(struct bx_strv *sv, int *error,
                                                      const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;

    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (*error == 0) {
        *error = n < 0 ? -ENOMEM : bx_strv_add(sv, text);
    }
    if (n >= 0) {
        free(text);
    }
}

static int add_cmdline(const struct bx_vmm_config *c, struct bx_strv *sv, boxlite_error **err)
{
    int error = 0;
    size_t len = strlen(kernel_words) + (c->cmdline ? 1 + strlen(c->cmdline) : 0);

    if (len > CMDLINE_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "engine: the kernel command line is over %d bytes",
                       CMDLINE_MAX);
    }
    add(sv, &error, "cmdline=%s%s%s", kernel_words, c->cmdline ? " " : "",
        c->cmdline ? c->cmdline : "");
    return error < 0 ? bx_fail_oom(err) : 0;
}

int bx_kvm_argv(const struct bx_vmm_config *c, struct bx_strv *ret, boxlite_error **err)
{
    char disks[BX_KVM_DISKS_MAX + 1] = "";
    int error = 0;

    if (c->ndisks > BX_KVM_DISKS_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "engine: %zu disks: at most %d", c->ndisks,
                       BX_KVM_DISKS_MAX);
    }
    for (size_t i = 0; i < c->ndisks; i++) {
        disks[i] = c->disks[i].read_only ? 'r' : 'w';
    }
    add(ret, &error, "%s", BX_KVM_PROGRAM);
    add(ret, &error, "name=%s", c->name);
    add(ret, &error, "cpus=%" PRIu32, c->cpus);
    add(ret, &error, "memory=%" PRIu64, c->memory >> 20 << 20);
    add(ret, &error, "disks=%s", disks);
    add(ret, &error, "flags=%s%s%s", c->initramfs ? "i" : "", c->restore ? "s" : "",
        secure_getenv("BOXLITE_TRACE_BOOT") ? "t" : "");
    add(ret, &error, "started=%" PRIu64, bx_now_mono());
    if (c->net_fd >= 0) {
        add(ret, &error, "mac=%s", c->mac ? c->mac : "");
    }
    return error < 0 ? bx_fail_oom(err) : add_cmdline(c, ret, err);
}

/* ---- the process -------------------------------------------------------------------------------- */

/* The ends that the child gets; closed here once it has them. */
struct child_ends {
    int control, console, errors, kvm, kernel, initramfs;
};

static void close_ends(struct child_ends *e)
{
    int *const fds[] = {&e->control, &e->console, &e->errors, &e->kvm, &e->kernel, &e->initramfs};

    for (size_t i = 0; i < BX_ARRAY_SIZE(fds); i++) {
        bx_close(fds[i]);
    }
}

static int open_inputs(const struct bx_vmm_config *c, struct child_ends *e, boxlite_error **err)
{
    e->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (e->kvm < 0) {
        int r = bx_fail_errno(err, BOXLITE_E_ENGINE, errno, "opening /dev/kvm");
        bx_hint(err, "see what boxlite doctor says about KVM");
        return r;
    }
    if (c->restore) { /* kernel and initramfs are in its memory */
        return 0;
    }
    int r = bx_engine_open_input(c->kernel, "kernel", &e->kernel, NULL, err);
    return r < 0 || !c->initramfs
               ? r
               : bx_engine_open_input(c->initramfs, "initramfs", &e->initramfs, NULL, err);
}

static int make_channels(struct child_ends *e, struct bx_kvm_proc *p, boxlite_error **err)
{
    int control[2] = {-1, -1}, console[2] = {-1, -1}, errors[2] = {-1, -1};
    int r = bx_socketpair(SOCK_SEQPACKET, control);

    if (r == 0) {
        p->control = control[0];
        e->control = control[1];
        r = bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, console);
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
    if (r == 0) {
        r = bx_set_nonblock(p->control, true);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "making the engine's channels") : 0;
}

static size_t map_fds(const struct bx_vmm_config *c, const struct child_ends *e,
                      struct bx_spawn_fd *fds)
{
    const struct bx_spawn_fd fixed[] = {
        {e->errors, 1},
        {e->errors, 2},
        {e->control, BX_KVM_FD_CONTROL},
        {e->console, BX_KVM_FD_CONSOLE},
        {e->kvm, BX_KVM_FD_KVM},
        {c->agent_fd, BX_KVM_FD_AGENT},
        {c->net_fd, BX_KVM_FD_NET},
        {e->kernel, BX_KVM_FD_KERNEL},
        {e->initramfs, BX_KVM_FD_INITRAMFS},
        {c->restore ? c->state_fd : -1, BX_KVM_FD_STATE},
        {c->restore ? c->memory_fd : -1, BX_KVM_FD_MEMORY},
    };

    return bx_engine_map_fds(c, fixed, BX_ARRAY_SIZE(fixed), BX_KVM_FD_DISK0, fds, FDS_MAX);
}

static int spawn(const struct bx_vmm_config *c, const char *program, const struct bx_strv *argv,
                 const struct child_ends *e, struct bx_kvm_proc *p, boxlite_error **err)
{
    static const char *const env[] = {NULL};
    rlim_t largest = bx_engine_file_limit(c, c->memory /* a snapshot's */);
    const struct bx_spawn_limit limits[] = {
        {RLIMIT_CORE, {0, 0}},
        {RLIMIT_NOFILE, {NOFILE, NOFILE}},
        {RLIMIT_FSIZE, {largest, largest}},
    };
    struct bx_spawn_fd fds[FDS_MAX];
    struct bx_engine_jail jail;

    bx_engine_jail_prepare(&jail, false);
    const struct bx_spawn spec = {
        .path = program,
        .argv = (const char *const *)argv->v,
        .envp = env,
        .fds = fds,
        .nfds = map_fds(c, e, fds),
        .limits = limits,
        .nlimits = BX_ARRAY_SIZE(limits),
        .death_signal = SIGKILL,
        .new_session = true,
        .no_new_privs = true,
        .child = bx_engine_jail_enter,
        .child_data = &jail,
    };

    return bx_spawn(&spec, &p->pid, &p->pidfd, err);
}

int bx_kvm_stages(struct bx_buf *on, struct bx_buf *off, boxlite_error **err)
{
    _cleanup_free_ char *program = NULL;
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(STAGES_MAX);
    struct bx_engine_jail jail;
    int status = 0;
    int r = bx_kvm_program(&program, err);

    bx_engine_jail_prepare(&jail, false);
    const char *const argv[] = {BX_KVM_PROGRAM, "flags=j", NULL}, *const env[] = {NULL};
    const struct bx_spawn spec = {.path = program,
                                  .argv = argv,
                                  .envp = env,
                                  .death_signal = SIGKILL,
                                  .no_new_privs = true,
                                  .child = bx_engine_jail_enter,
                                  .child_data = &jail};
    r = r < 0 ? r : bx_run(&spec, &out, NULL, bx_deadline_ms(STAGES_MS), &status, err);
    if (r < 0) {
        return r;
    }
    char *rest = (char *)bx_buf_data(&out), *line;
    while ((line = strsep(&rest, "\n"))) {
        struct bx_buf *to = line[0] == '+' ? on : line[0] == '-' ? off : NULL;
        if (to && line[1] == ' ' &&
            bx_buf_appendf(to, "%s%s", to->len > 0 ? ", " : "", line + 2) < 0) {
            return bx_fail_oom(err);
        }
    }
    return 0;
}

int bx_kvm_launch(const struct bx_vmm_config *config, struct bx_kvm_proc *ret, boxlite_error **err)
{
    struct bx_kvm_proc proc = {.pidfd = -1, .control = -1, .console = -1, .errors = -1};
    struct child_ends ends = {-1, -1, -1, -1, -1, -1};
    _cleanup_free_ char *program = NULL;
    _cleanup_strv_ struct bx_strv argv = {0};
    int r;

    if ((r = bx_kvm_program(&program, err)) == 0 && (r = bx_kvm_argv(config, &argv, err)) == 0 &&
        (r = open_inputs(config, &ends, err)) == 0 && (r = make_channels(&ends, &proc, err)) == 0) {
        r = spawn(config, program, &argv, &ends, &proc, err);
    }
    close_ends(&ends);
    if (r < 0) {
        bx_close(&proc.control);
        bx_close(&proc.console);
        bx_close(&proc.errors);
        return r;
    }
    *ret = proc;
    return 0;
}
