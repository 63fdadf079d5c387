/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_jail.c: what the shim gives up, in stages, each with its reason. A kernel that does not
 * allow a stage is no failure: the stages are depth, the boundary is the VM.
 *
 * early, first thing in main:
 *   not dumpable          no ptrace, no core, /proc/PID of this process closed to others: it holds
 *                         the streams of every command in the box
 *   no core               a crash leaves no copy of them on disk
 *   descriptors           enough for 320 clients and the spools of 256 commands
 *   no new privileges     what the shim starts (engine, passt) gains nothing by set-uid files
 * late, when the guest's agent is ready: from here on its bytes are parsed for as long as the box
 * lives, and nothing is started any more.
 *   system calls          a list of those that streams, files of the box and the end of the engine
 *                         need. Above all there is no way to start a program, to open a socket, to
 *                         signal what is not held by a pidfd, or to look into another process. The
 *                         rest fails with EPERM
 * The filter is written out as BPF, so that no library for it is mapped into a process of which
 * there is one per box.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "box/shim.h"

#define NOFILE_WANTED 4096u

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* ---- early */

static int no_dump(void)
{
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static int no_core(void)
{
    const struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_CORE, &none);
}

static int more_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= NOFILE_WANTED) {
        return 0;
    }
    l.rlim_cur = l.rlim_max < NOFILE_WANTED ? l.rlim_max : NOFILE_WANTED;
    return setrlimit(RLIMIT_NOFILE, &l);
}

static int no_new_privileges(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* ---- late */

#if defined(ARCH) && !defined(__SANITIZE_ADDRESS__)

static const int allowed[] = {
    /* streams */
    __NR_read, __NR_write, __NR_readv, __NR_writev, __NR_pread64, __NR_pwrite64, __NR_recvfrom,
    __NR_recvmsg, __NR_sendto, __NR_sendmsg, __NR_accept4, __NR_shutdown, __NR_getsockopt,
    __NR_close, __NR_close_range, __NR_fcntl,
    /* the loop */
    __NR_epoll_pwait, __NR_epoll_ctl, __NR_ppoll, __NR_timerfd_settime,
#ifdef __NR_epoll_wait
    __NR_epoll_wait, __NR_poll,
#endif
    /* files of the box */
    __NR_openat, __NR_newfstatat, __NR_fstat, __NR_statx, __NR_lseek, __NR_ftruncate,
    __NR_fallocate, __NR_fsync, __NR_fdatasync, __NR_unlinkat, __NR_renameat2, __NR_mkdirat,
    __NR_getdents64, __NR_faccessat, __NR_faccessat2, __NR_readlinkat, __NR_renameat,
#ifdef __NR_open /* what a libc may use for them */
    __NR_open, __NR_stat, __NR_lstat, __NR_unlink, __NR_rmdir, __NR_rename, __NR_mkdir,
    __NR_access, __NR_readlink,
#endif
    /* the end of engine and network */
    __NR_pidfd_send_signal, __NR_waitid, __NR_wait4,
    /* memory, time, and what a libc does on its own */
    __NR_mmap, __NR_munmap, __NR_mremap, __NR_mprotect, __NR_madvise, __NR_brk, __NR_futex,
    __NR_clock_gettime, __NR_gettimeofday, __NR_getrandom, __NR_getpid, __NR_gettid,
    __NR_geteuid, __NR_getuid, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn,
    __NR_tgkill, __NR_restart_syscall, __NR_exit, __NR_exit_group, __NR_prlimit64, __NR_sysinfo,
#ifdef __NR_rseq
    __NR_rseq,
#endif
};

#define HEAD 4

static int few_system_calls(void)
{
    enum { n = BX_ARRAY_SIZE(allowed) };
    struct sock_filter code[HEAD + n + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    _Static_assert(n < 256, "a jump reaches 255 steps");
    for (size_t i = 0; i < n; i++) { /* a hit jumps to the last step */
        code[HEAD + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                      (uint32_t)allowed[i], (uint8_t)(n - i), 0);
    }
    code[HEAD + n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    code[HEAD + n + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = BX_ARRAY_SIZE(code), .filter = code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#else

/* A sanitizer's runtime needs what the list denies (and other machines have no list yet). */
static int few_system_calls(void)
{
    return 0;
}

#endif

/* ---- the stages */

struct stage {
    const char *name;
    int (*fn)(void);
};

static void run(const struct stage *stages, size_t n, const struct bx_log *log)
{
    for (size_t i = 0; i < n; i++) {
        if (stages[i].fn() < 0) {
            bx_info(log, "jail", "not possible here: %s: %s", stages[i].name, strerror(errno));
        }
    }
}

void bx_shim_jail_early(const struct bx_log *log)
{
    static const struct stage stages[] = {
        {"not dumpable", no_dump},
        {"no core", no_core},
        {"descriptors", more_files},
        {"no new privileges", no_new_privileges},
    };
    run(stages, BX_ARRAY_SIZE(stages), log);
}

void bx_shim_jail_late(const struct bx_log *log)
{
    static const struct stage stages[] = {{"system calls", few_system_calls}};
    run(stages, BX_ARRAY_SIZE(stages), log);
}
