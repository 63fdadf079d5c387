/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_world.c: the real outside of the shim: engines, passt, and its patience.
 */
#include "box/shim.h"
#include "box/shimproc.h"

#include <endian.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/error.h"

/* The cheap check of a squashfs that a kernel would refuse or run out of: magic, and bytes_used of
 * the super block against the file's size. bx_rootfs_check() looks closer, but would bring
 * libsquashfs into a process that there is one of for each box. */
static int check_rootfs(int fd, const char *what, boxlite_error **err)
{
    struct {
        uint32_t magic;
        uint8_t rest[36];
        uint64_t bytes_used;
    } super;
    struct stat st;
    _Static_assert(offsetof(__typeof__(super), bytes_used) == 40, "squashfs super block");
    if (fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "%s", what);
    }
    if (pread(fd, &super, sizeof(super), 0) != (ssize_t)sizeof(super) ||
        le32toh(super.magic) != 0x73717368 || le64toh(super.bytes_used) > (uint64_t)st.st_size) {
        int r = bx_fail(err, BOXLITE_E_INTEGRITY, "%s is not a whole squashfs image", what);
        bx_hint(err, "the image is damaged: remove it and load it again");
        return r;
    }
    return 0;
}

const struct bx_shim_world bx_shim_real_world = {
    .choose = bx_engine_choose,
    .passt_start = bx_passt_start,
    .passt_free = bx_passt_free,
    .rootfs_check = check_rootfs,
    .running = bx_shim_jail_late,
    .spool_max = BX_SPOOL_MAX,
    /* Without KVM, and with many boxes at once on few CPUs, a boot takes many times its usual
     * second. */
    .boot_quiet_ms = 60000,
    .boot_ms = 300000,
    .panic_ms = 500,
    .shutdown_ms = 10000,
    .kill_ms = 5000,
    .follow_ms = 10000,
    .drain_ms = 30000,
    .stuck_ms = 30000,
};
