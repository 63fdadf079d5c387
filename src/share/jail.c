/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.c: see jail.h. In this order:
 *   not dumpable, no core   nobody looks in, nothing of the files is left behind by a crash
 *   no new privileges       needed for the next two
 *   Landlock                of all file systems only the shared trees, the read-only ones to be read. What
 *                           leads out of them does not exist, whatever a bug in here would try
 *   system calls            files by descriptor, the one socket, memory. No program, no socket, no signal,
 *                           no look into another process
 */
#include "share/jail.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

unsigned bx_share_jail_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0) {
        return 256;
    }
    l.rlim_cur = l.rlim_max < 65536 ? l.rlim_max : 65536;
    (void)setrlimit(RLIMIT_NOFILE, &l);
    return (unsigned)l.rlim_cur;
}

/* ---- Landlock */

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define MAKE                                                                                       \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                              \
     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |    \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM)
/* Never: to run a file, to make a device. */
#define NEVER                                                                                      \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define WRITE LANDLOCK_ACCESS_FS_WRITE_FILE
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ull << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ull << 14)
#endif

int bx_share_landlock_version(void)
{
    long v = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return v > 0 ? (int)v : 0;
}

static int allow(int ruleset, int fd, uint64_t access)
{
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
               ? -errno
               : 0;
}

static int only_the_trees(const struct bx_export_options *trees, size_t n)
{
    int version = bx_share_landlock_version();
    if (version < 2) {
        return -ENOSYS; /* the first knows no renaming between folders */
    }
    uint64_t change = WRITE | LANDLOCK_ACCESS_FS_REFER;
    change |= version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
    const uint64_t of_files = READ | WRITE | LANDLOCK_ACCESS_FS_TRUNCATE;
    const struct landlock_ruleset_attr attr = {.handled_access_fs = READ | MAKE | NEVER | change};
    _cleanup_close_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0) {
        return -errno;
    }
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        uint64_t access = trees[i].read_only ? READ : READ | MAKE | change;
        if (fstat(trees[i].root_fd, &st) < 0) {
            return -errno;
        }
        if (!S_ISDIR(st.st_mode)) {
            access &= of_files & ~(uint64_t)LANDLOCK_ACCESS_FS_READ_DIR;
        }
        int r = allow(ruleset, trees[i].root_fd, access & attr.handled_access_fs);
        if (r < 0) {
            return r;
        }
    }
    return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}

/* ---- system calls */

#if defined(ARCH) && !defined(__SANITIZE_ADDRESS__)

static const int allowed[] = {
    __NR_read,
    __NR_write,
    __NR_sendmsg,
    __NR_pread64,
    __NR_pwrite64,
    __NR_close,
    __NR_fcntl,
    __NR_openat,
    __NR_openat2,
    __NR_statx,
    __NR_newfstatat,
    __NR_fstat,
    __NR_fstatfs,
    __NR_getdents64,
    __NR_readlinkat,
    __NR_faccessat,
    __NR_faccessat2,
    __NR_lseek,
    __NR_ftruncate,
    __NR_fallocate,
    __NR_copy_file_range,
    __NR_fsync,
    __NR_fdatasync,
    __NR_fchmod,
    __NR_fchmodat,
    __NR_utimensat,
    __NR_mkdirat,
    __NR_mknodat,
    __NR_symlinkat,
    __NR_linkat,
    __NR_unlinkat,
    __NR_renameat2,
    __NR_getxattr,
    __NR_setxattr,
    __NR_listxattr,
    __NR_removexattr,
    __NR_mmap,
    __NR_munmap,
    __NR_mremap,
    __NR_mprotect,
    __NR_madvise,
    __NR_brk,
    __NR_futex,
    __NR_clock_gettime,
    __NR_rt_sigreturn,
    __NR_restart_syscall,
    __NR_exit,
    __NR_exit_group,
    __NR_getrandom,
    __NR_inotify_add_watch,
    __NR_inotify_rm_watch,
    __NR_ppoll,
#ifdef __NR_poll
    __NR_poll,
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
    for (size_t i = 0; i < n; i++) { /* a hit jumps to the last step */
        code[HEAD + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                      (uint32_t)allowed[i], (uint8_t)(n - i), 0);
    }
    code[HEAD + n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    code[HEAD + n + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = BX_ARRAY_SIZE(code), .filter = code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

#else

/* A sanitizer's runtime needs what the list denies (and other machines have no list yet). */
static int few_system_calls(void)
{
    return 0;
}

#endif

int bx_share_jail(const struct bx_export_options *trees, size_t n, const char **missing)
{
    const struct rlimit none = {0, 0};
    *missing = NULL;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return -errno;
    }
    int r = only_the_trees(trees, n);
    if (r < 0) {
        *missing = "Landlock";
    }
    r = few_system_calls();
    if (r < 0) {
        *missing = "seccomp";
    }
    return 0;
}
