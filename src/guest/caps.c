/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caps.c: see caps.h.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/caps.h"

#define BIT(cap) (UINT64_C(1) << (cap))

static const uint64_t default_caps =
    BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FSETID) | BIT(CAP_FOWNER) | BIT(CAP_MKNOD) |
    BIT(CAP_NET_RAW) | BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_SETFCAP) | BIT(CAP_SETPCAP) |
    BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_SYS_CHROOT) | BIT(CAP_KILL) | BIT(CAP_AUDIT_WRITE);

static int set(uint64_t caps)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    for (size_t i = 0; i < BX_ARRAY_SIZE(data); i++) {
        uint32_t part = (uint32_t)(caps >> (32 * i));
        data[i].effective = part;
        data[i].permitted = part;
    }
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

int caps_bound(struct failure *f)
{
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if (!(default_caps & BIT(cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            return failure_set(f, errno, "dropping capability %d", cap);
        }
    }
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return 0;
}

int caps_root(struct failure *f)
{
    int r = set(default_caps);
    return r < 0 ? failure_set(f, r, "setting capabilities") : 0;
}

int caps_drop_all(void)
{
    return set(0);
}
