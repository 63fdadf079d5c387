/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs.c: see rootfs.h.
 *
 * /box/image is the read-only image, /box/upper the disk (or tmpfs) with the folders `upper` and `work`
 * that overlayfs wants on one file system, /box/merged their union. The upper folder is thus exactly the
 * list of what the box has changed. The union is mounted nodev: a device node that is made in the
 * container cannot be opened there, so its root cannot reach the disks below its own file system.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/timeutil.h"
#include "guest/agent.h"
#include "guest/boot.h"
#include "guest/rootfs.h"

#define IMAGE "/box/image"
#define UPPER "/box/upper"
#define DEVICE_WAIT_MS 10000

static int mount_device(const char *dev, const char *type, const char *target, unsigned long flags,
                        const char *options, struct failure *f)
{
    int r = boot_wait_file(dev, bx_deadline_ms(DEVICE_WAIT_MS));
    if (r < 0) {
        return failure_set(f, r, "waiting for the disk %s", dev);
    }
    if (mount(dev, target, type, flags, options) < 0) {
        return failure_set(f, errno, "mounting %s (%s)", dev, type);
    }
    return 0;
}

static int make_dir(const char *path, struct failure *f)
{
    return mkdir(path, 0755) < 0 && errno != EEXIST ? failure_set(f, errno, "mkdir %s", path) : 0;
}

static int mount_upper(const struct config *cfg, struct failure *f)
{
    int r;
    if (cfg->upper_dev) {
        /* A crash of the host loses what was not synced, as on any machine; a broken journal is
         * told by the kernel and is an error here. */
        r = mount_device(cfg->upper_dev, cfg->upper_type, UPPER, MS_NOATIME, NULL, f);
    } else {
        r = mount("tmpfs", UPPER, "tmpfs", MS_NOATIME, "mode=0755") < 0
                ? failure_set(f, errno, "mounting the writable layer")
                : 0;
    }
    r = r < 0 ? r : make_dir(UPPER "/upper", f);
    return r < 0 ? r : make_dir(UPPER "/work", f);
}

static int mount_union(struct failure *f)
{
    /* redirect_dir makes renames of image folders cheap; both need kernel support, so fall back. */
    static const char *const options[] = {
        "lowerdir=" IMAGE ",upperdir=" UPPER "/upper,workdir=" UPPER
        "/work,redirect_dir=on,metacopy=off",
        "lowerdir=" IMAGE ",upperdir=" UPPER "/upper,workdir=" UPPER "/work",
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(options); i++) {
        if (mount("overlay", ROOTFS_MERGED, "overlay", MS_NODEV | MS_NOATIME, options[i]) == 0) {
            return 0;
        }
    }
    return failure_set(f, errno, "joining the image and the writable layer (overlayfs)");
}

int rootfs_mount(const struct config *cfg, struct failure *f)
{
    static const char *const dirs[] = {"/box", IMAGE, UPPER, ROOTFS_MERGED};
    int r = 0;
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(dirs); i++) {
        r = make_dir(dirs[i], f);
    }
    r = r < 0 ? r
              : mount_device(cfg->root_dev, cfg->root_type, IMAGE, MS_RDONLY | MS_NOATIME, NULL, f);
    r = r < 0 ? r : mount_upper(cfg, f);
    return r < 0 ? r : mount_union(f);
}

void rootfs_unmount(void)
{
    sync();
    if (access(UPPER "/upper", F_OK) < 0) {
        return; /* it never came so far */
    }
    (void)umount2(ROOTFS_MERGED, MNT_DETACH);
    if (umount2(UPPER, 0) < 0 && mount(NULL, UPPER, NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0) {
        agent_say("unmounting the writable layer: %s", strerror(errno));
        sync();
    }
}
