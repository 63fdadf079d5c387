/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine.c: the process' own stages of confinement, before there is a guest.
 *
 * The starter has taken away all rights already (launch.c). What is left is what any program of an
 * ordinary user could do, and this is taken away here, in stages:
 *
 *   not dumpable     no ptrace and no /proc/PID/mem: the guest's memory is this process' memory
 *   user namespace   the only way to the next two for a process without rights
 *   namespaces       mounts, network, IPC and host name of its own: no interface and no abstract socket
 *                    is there to be reached. (Not pids: those count only for children, and there are
 *                    none)
 *   empty root       a file system with nothing in it, read-only
 *   no capabilities  the user namespace gave a set of them: gone again
 *   Landlock         where the kernel has it: no file may be opened at all, should the root not be
 *                    empty
 *
 * Hosts differ in what they allow (user namespaces off, restricted as in Ubuntu 24.04, a container's
 * own filter): each stage works without the others, and the lists of system calls (jail.c), which come
 * last, work everywhere and deny what all of these would hide.
 */
#include "vmm/kvm/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_restrict_self 446
#endif
#define LANDLOCK_V1 ((1ull << 13) - 1) /* every right of Landlock's first version */

static int not_dumpable(void)
{
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static int user_namespace(void)
{
    return unshare(CLONE_NEWUSER);
}

static int other_namespaces(void)
{
    return unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
}

/* The new root is mounted over a folder that every system has, becomes the root, and the old one goes. */
static int empty_root(void)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/tmp", "tmpfs", flags, "size=4k") < 0 || chdir("/tmp") < 0) {
        return -1;
    }
    if (syscall(SYS_pivot_root, ".", ".") < 0) {
        return chroot("."); /* an initramfs cannot be pivoted away from */
    }
    return umount2(".", MNT_DETACH) < 0 ? -1 : chdir("/");
}

static int no_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    return (int)syscall(SYS_capset, &head, none);
}

static int landlock(void)
{
    const struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_V1};
    _cleanup_close_ int fd =
        (int)syscall(__NR_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);

    if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return -1;
    }
    return (int)syscall(__NR_landlock_restrict_self, fd, 0);
}

void bx_confine(void (*told)(const char *name, bool on))
{
    static const struct {
        const char *name;
        int (*fn)(void);
    } stages[] = {
        {"not dumpable", not_dumpable},       {"user namespace", user_namespace},
        {"namespaces", other_namespaces},     {"empty root", empty_root},
        {"no capabilities", no_capabilities}, {"Landlock", landlock},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(stages); i++) {
        bool on = stages[i].fn() == 0;

        if (told) {
            told(stages[i].name, on);
        }
    }
}
