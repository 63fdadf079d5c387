/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power.c: see power.h.
 *
 * A micro-VM has no power switch that all kernels know, but every engine ends at a reset (QEMU runs with
 * -no-reboot), so the guest restarts itself; the kernel's command line (reboot=t) makes that a triple
 * fault, the fastest way on x86.
 */
#include <linux/reboot.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "base/timeutil.h"
#include "guest/container.h"
#include "guest/power.h"
#include "guest/rootfs.h"
#include "guest/share.h"

#define KILL_MS 2000

_Noreturn void power_off(void)
{
    sync();
    (void)reboot(LINUX_REBOOT_CMD_RESTART);
    (void)reboot(LINUX_REBOOT_CMD_POWER_OFF);
    for (;;) {
        (void)pause();
    }
}

_Noreturn void power_shutdown(struct agent *a)
{
    share_abort(a); /* nobody carries any more: what waits for the host would never end */
    container_kill(&a->container, bx_deadline_ms(KILL_MS));
    rootfs_unmount();
    power_off();
}
