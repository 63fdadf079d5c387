/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container_mounts.c: the file systems that a container sees, as Docker has them.
 *
 * Runs in the container's init, in its new namespaces. The root is changed first, so that every path
 * below is resolved inside the image: a hostile link in it leads nowhere but into itself. What is needed
 * of the agent's own tree (the device nodes) is carried over as detached mounts. All mounts but the
 * nodes and /dev/pts are nodev.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "guest/container.h"
#include "guest/rootfs.h"
#include "guest/share.h"

/* From <linux/mount.h>, which cannot share a file with <sys/mount.h> in every libc. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif

#define FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

struct mount_row {
    const char *type;
    const char *target;
    unsigned long flags;
    const char *options;
    bool optional; /* the kernel may lack it */
};

/* What lies in a tmpfs or a shared segment outlives the command that put it there, and no memory kill frees it. All of
 * it together stays below what the container may have, so that another command always finds memory. */
static const struct mount_row mount_rows[] = {
    {"proc", "/proc", FLAGS, NULL, false},
    {"sysfs", "/sys", FLAGS | MS_RDONLY, NULL, false},
    {"cgroup2", "/sys/fs/cgroup", FLAGS | MS_RDONLY, NULL, true},
    {"tmpfs", "/dev", MS_NOSUID | MS_NODEV | MS_STRICTATIME, "mode=755,size=2%", false},
    {"devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5",
     false},
    {"tmpfs", "/dev/shm", FLAGS, "mode=1777,size=50%", false},
    {"mqueue", "/dev/mqueue", FLAGS, NULL, true},
};
#define SEGMENTS_PART 8 /* of all memory, for shared segments (shmget) */

static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};

static const char *const links[][2] = {
    {"/proc/self/fd", "/dev/fd"},       {"/proc/self/fd/0", "/dev/stdin"},
    {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
    {"pts/ptmx", "/dev/ptmx"},          {"/proc/kcore", "/dev/core"},
};

static const char *const masked[] = {
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/asound",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
};

static const char *const read_only[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

static int clone_nodes(int fds[], struct failure *f)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(nodes); i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/dev/%s", nodes[i]);
        fds[i] = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (fds[i] < 0) {
            return failure_set(f, errno, "taking %s along", path);
        }
    }
    return 0;
}

static int change_root(struct failure *f)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(ROOTFS_MERGED) < 0 ||
        syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) {
        return failure_set(f, errno, "changing to the container's root");
    }
    return 0;
}

static int mount_rows_all(struct failure *f)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(mount_rows); i++) {
        const struct mount_row *m = &mount_rows[i];
        (void)mkdir(m->target, 0755);
        if (mount(m->type, m->target, m->type, m->flags, m->options) < 0 && !m->optional) {
            return failure_set(f, errno, "mounting the container's %s", m->target);
        }
    }
    return 0;
}

static void limit_segments(void)
{
    char text[32];
    long pages = sysconf(_SC_PHYS_PAGES);
    _cleanup_close_ int fd = open("/proc/sys/kernel/shmall", O_WRONLY | O_CLOEXEC);
    int len = snprintf(text, sizeof(text), "%ld", pages / SEGMENTS_PART);
    if (fd < 0 || pages <= 0 || bx_write_full(fd, text, (size_t)len) < 0) {
        agent_say("shared memory segments have no limit: %s", strerror(errno));
    }
}

static int place_nodes(int fds[], struct failure *f)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(nodes); i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/dev/%s", nodes[i]);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 ||
            syscall(SYS_move_mount, fds[i], "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
            return failure_set(f, errno, "placing the container's %s", path);
        }
        bx_close(&fds[i]);
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(links); i++) {
        if (symlink(links[i][0], links[i][1]) < 0) {
            return failure_set(f, errno, "making %s", links[i][1]);
        }
    }
    return 0;
}

static int mask(const char *path, struct failure *f)
{
    struct stat st;
    if (lstat(path, &st) < 0) {
        return 0; /* this kernel has none */
    }
    int r = S_ISDIR(st.st_mode)
                ? mount("tmpfs", path, "tmpfs", FLAGS | MS_RDONLY, "size=0,nr_inodes=2")
                : mount("/dev/null", path, NULL, MS_BIND, NULL);
    return r < 0 ? failure_set(f, errno, "masking %s", path) : 0;
}

static int make_read_only(const char *path, struct failure *f)
{
    if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0) {
        return errno == ENOENT ? 0 : failure_set(f, errno, "binding %s", path);
    }
    if (mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | FLAGS, NULL) < 0) {
        return failure_set(f, errno, "making %s read-only", path);
    }
    return 0;
}

static int restrict_paths(struct failure *f)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(masked); i++) {
        r = mask(masked[i], f);
    }
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(read_only); i++) {
        r = make_read_only(read_only[i], f);
    }
    return r;
}

static bool same_content(const struct config_file *file)
{
    _cleanup_close_ int fd = open(file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != (off_t)file->len) {
        return false;
    }
    _cleanup_free_ uint8_t *data = malloc(file->len + 1);
    return data && bx_read_full(fd, data, file->len) == (ssize_t)file->len &&
           memcmp(data, file->data, file->len) == 0;
}

/* Replaces whatever is there (an image's link to a resolver's folder, say) by a plain file. */
static int write_file(const struct config_file *file, struct failure *f)
{
    if (same_content(file)) {
        return 0; /* a second start leaves no new trace in the upper layer */
    }
    _cleanup_free_ char *dir = strdup(file->path);
    if (!dir) {
        return failure_set(f, ENOMEM, "writing %s", file->path);
    }
    for (char *slash = dir + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        (void)mkdir(dir, 0755);
        *slash = '/';
    }
    (void)unlink(file->path);
    _cleanup_close_ int fd =
        open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : bx_write_full(fd, file->data, file->len);
    return r < 0 ? failure_set(f, r, "writing the container's %s", file->path) : 0;
}

int container_setup(const struct config *cfg, struct failure *f)
{
    int fds[BX_ARRAY_SIZE(nodes)];
    (void)umask(0);
    struct share_trees trees;
    int r = clone_nodes(fds, f);
    r = r < 0 ? r : share_take(cfg, &trees, f);
    r = r < 0 ? r : change_root(f);
    r = r < 0 ? r : mount_rows_all(f);
    r = r < 0 ? r : place_nodes(fds, f);
    limit_segments();
    r = r < 0 ? r : restrict_paths(f);
    if (r < 0) {
        return r;
    }
    (void)mkdir("/tmp", 01777);
    (void)umask(022);
    for (size_t i = 0; r == 0 && i < cfg->nfiles; i++) {
        r = write_file(&cfg->files[i], f);
    }
    r = r < 0 ? r : share_place(cfg, &trees, f);
    if (r == 0 && cfg->hostname && sethostname(cfg->hostname, strlen(cfg->hostname)) < 0) {
        r = failure_set(f, errno, "setting the host name");
    }
    return r;
}
