/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.c: QEMU's process is the first thing that a hostile guest would take over.
 *
 * 1. Started by root, it becomes a user of its own that owns nothing: a number from a range that no
 *    distribution hands out, drawn for each VM, so that two VMs cannot reach each other's process
 *    either. All it needs is already open. Only /dev/kvm is opened by name: its group is kept, and
 *    where root alone may open it, the uid stays.
 * 2. All capabilities are dropped, also where the uid had to stay (a user namespace that maps no
 *    other uid).
 * 3. The parent-death signal, which a change of uid clears, is set again: QEMU dies with its shim.
 */
#include "vmm/jail.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/random.h"

#define UID_BASE 0x70000000u
#define UID_BITS 0x00ffffffu

void bx_engine_jail_prepare(struct bx_engine_jail *jail, bool kvm)
{
    uint32_t random = 0;
    struct stat st;

    *jail = (struct bx_engine_jail){.parent = getpid(), .drop = geteuid() == 0};
    bx_random(&random, sizeof(random));
    jail->uid = UID_BASE + (random & UID_BITS);
    if (!kvm || stat("/dev/kvm", &st) < 0 || (st.st_mode & 0006) == 0006) {
        return;
    }
    jail->group = (st.st_mode & 0060) == 0060;
    jail->kvm_gid = st.st_gid;
    jail->drop = jail->drop && jail->group;
}

/* The raw calls: libc's would tell other threads, of which the child has only the memory. */
static int become(const struct bx_engine_jail *jail)
{
    gid_t kvm_gid = jail->kvm_gid;

    if (syscall(SYS_setgroups, jail->group ? 1 : 0, &kvm_gid) < 0 ||
        syscall(SYS_setresgid, jail->uid, jail->uid, jail->uid) < 0 ||
        syscall(SYS_setresuid, jail->uid, jail->uid, jail->uid) < 0) {
        return -errno;
    }
    return 0;
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

int bx_engine_jail_enter(void *data)
{
    const struct bx_engine_jail *jail = data;
    int r = jail->drop ? become(jail) : 0;

    if (r < 0 && r != -EINVAL && r != -EPERM) {
        return r;
    }
    r = drop_capabilities();
    if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
        r = -errno;
    }
    if (r == 0 && getppid() != jail->parent) {
        r = -ESRCH;
    }
    return r;
}
