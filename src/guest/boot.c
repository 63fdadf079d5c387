/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot.c: see boot.h.
 *
 * The kernel starts the agent on the initramfs, a root that pivot_root(2) refuses to replace. So a tmpfs
 * is moved over it first, and the container's own mount namespace pivots away from that one: nothing of
 * the agent's tree is left there. Devices appear when their drivers have probed them, which may be later
 * than their modules' loading: the kernel's uevents wake whoever waits for a node.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "guest/agent.h"
#include "guest/boot.h"
#include "wire/proto.h"

#define NOFILE 65536

struct boot_mount {
    const char *type;
    const char *target;
    unsigned long flags;
    const char *options;
};

static const struct boot_mount boot_mounts_table[] = {
    {"proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL},
    {"sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL},
    {"devtmpfs", "/dev", MS_NOSUID | MS_NOEXEC, "mode=0755"},
    {"cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL},
};

static void open_console(void)
{
    int fd = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, 0);
        (void)dup2(null, 1);
    }
    if (fd >= 0 || null >= 0) {
        (void)dup2(fd >= 0 ? fd : null, 2);
    }
    if (null > 2) {
        (void)close(null);
    }
    if (fd > 2) {
        (void)close(fd);
    }
}

/* A tmpfs as root. The initramfs stays below it, out of reach by path. */
static int leave_initramfs(struct failure *f)
{
    if (mkdir("/root", 0755) < 0 && errno != EEXIST) {
        return failure_set(f, errno, "making a new root");
    }
    if (mount("tmpfs", "/root", "tmpfs", MS_NOSUID, "mode=0755,size=16m") < 0 ||
        chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
        chdir("/") < 0) {
        return failure_set(f, errno, "moving to a new root");
    }
    return 0;
}

int boot_mounts(struct failure *f)
{
    int r = leave_initramfs(f);
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(boot_mounts_table); i++) {
        const struct boot_mount *m = &boot_mounts_table[i];
        (void)mkdir(m->target, 0755);
        if (mount(m->type, m->target, m->type, m->flags, m->options) < 0) {
            r = failure_set(f, errno, "mounting %s", m->target);
        }
        if (i == 2 || r < 0) {
            open_console();
        }
    }
    return r;
}

static int is_module(const struct dirent *d)
{
    return bx_endswith(d->d_name, ".ko");
}

static void load_module(int dirfd, const char *name)
{
    _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return; /* the other loader was here */
    }
    if ((fd < 0 || syscall(SYS_finit_module, fd, "", 0) < 0) && errno != EEXIST) {
        agent_say("module %s: %s", name, strerror(errno));
    }
    (void)unlinkat(dirfd, name, 0); /* its memory is the guest's */
}

typedef bool (*pick_fn)(const char *file, const void *what);

static bool of_stage(const char *file, const void *what)
{
    return file[0] == *(const char *)what;
}

/* "NNN-NAME.ko" */
static bool of_name(const char *file, const void *what)
{
    const char *dash = strchr(file, '-');
    size_t n = strlen(what);
    return dash && strncmp(dash + 1, what, n) == 0 && bx_streq(dash + 1 + n, ".ko");
}

static void load_picked(int dirfd, pick_fn pick, const void *what)
{
    char path[64];
    struct dirent **names;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dirfd);
    int n = scandir(path, &names, is_module, alphasort);
    for (int i = 0; i < n; i++) {
        if (pick(names[i]->d_name, what)) {
            load_module(dirfd, names[i]->d_name);
        }
        free(names[i]);
    }
    if (n >= 0) {
        free(names);
    }
}

void boot_modules(int dirfd, char stage)
{
    load_picked(dirfd, of_stage, &stage);
}

void boot_module(int dirfd, const char *name)
{
    load_picked(dirfd, of_name, name);
}

int boot_modules_later(int dirfd, int *ret_go)
{
    int fds[2];
    char c;
    int r = bx_pipe(fds);
    if (r < 0) {
        return r;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[1]);
        (void)setpriority(PRIO_PROCESS, 0, 19);
        (void)!read(fds[0], &c, 1); /* its end is the word to go */
        boot_modules(dirfd, BOOT_NET);
        boot_modules(dirfd, BOOT_LATER);
        _exit(0);
    }
    r = pid < 0 ? -errno : bx_pidfd_open(pid);
    (void)close(fds[0]);
    if (r < 0) {
        (void)close(fds[1]); /* a loader that runs without us to watch it does no harm */
        return r;
    }
    *ret_go = fds[1];
    return r;
}

void boot_protect_self(void)
{
    struct rlimit nofile = {NOFILE, NOFILE};
    (void)setrlimit(RLIMIT_NOFILE, &nofile);
    (void)setpriority(PRIO_PROCESS, 0, -10);
    _cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || bx_write_full(fd, "-1000", 5) < 0) {
        agent_say("oom_score_adj: %s", strerror(errno));
    }
    /* The program itself lies in the initramfs, which is never reclaimed; what is touched later is locked when it is. */
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0) {
        agent_say("mlockall: %s", strerror(errno));
    }
}

/* ---- waiting for devices ----------------------------------------------------------------------- */

static int uevents_open(void)
{
    struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = 1};
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    return fd < 0 ? -errno : fd;
}

/* Sleeps until the kernel tells of a device. An overflow (ENOBUFS) counts as news. */
static int uevents_wait(int fd, uint64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = poll(&p, 1, bx_deadline_left_ms(deadline));
    if (n == 0) {
        return -ETIMEDOUT;
    }
    char event[4096];
    while (recv(fd, event, sizeof(event), 0) > 0) {
    }
    return 0;
}

typedef int (*find_fn)(const char *what, char *path, size_t size); /* 1: found, 0: not yet */

/* Looks, and looks again after each event. Events are listened for before the first look. */
static int wait_until(find_fn find, const char *what, char *path, size_t size, uint64_t deadline)
{
    if (find(what, path, size)) {
        return 0;
    }
    _cleanup_close_ int fd = uevents_open();
    if (fd < 0) {
        return fd;
    }
    while (!find(what, path, size)) {
        int r = uevents_wait(fd, deadline);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int find_file(const char *what, char *path, size_t size)
{
    return access(what, F_OK) == 0;
}

int boot_wait_file(const char *path, uint64_t deadline)
{
    return wait_until(find_file, path, NULL, 0, deadline);
}

/* /dev/vportNpM whose name in sysfs is `what`. */
static int find_port(const char *what, char *path, size_t size)
{
    _cleanup_closedir_ DIR *dir = opendir("/sys/class/virtio-ports");
    struct dirent *d;
    while (dir && (d = readdir(dir))) {
        char name[64];
        struct bx_buf text = BX_BUF_INIT(256);
        (void)snprintf(path, size, "/sys/class/virtio-ports/%.32s/name", d->d_name);
        int r = d->d_name[0] == '.' ? -ENOENT : bx_read_file(AT_FDCWD, path, &text);
        (void)snprintf(name, sizeof(name), "%.60s", bx_buf_str(&text));
        bx_buf_done(&text);
        name[strcspn(name, "\n")] = 0;
        if (r == 0 && bx_streq(name, what)) {
            (void)snprintf(path, size, "/dev/%.32s", d->d_name);
            return access(path, F_OK) == 0;
        }
    }
    return 0;
}

/* A guest without virtio ports (user-mode Linux) names another byte stream on the kernel's command line:
 * boxlite.channel=/dev/ttyS1. */
static bool named_channel(char *path, size_t size)
{
    struct bx_buf cmdline = BX_BUF_INIT(16384);
    bool found = false;
    if (bx_read_file(AT_FDCWD, "/proc/cmdline", &cmdline) == 0) {
        const char *p = strstr(bx_buf_str(&cmdline), "boxlite.channel=/");
        if (p) {
            p += strlen("boxlite.channel=");
            (void)snprintf(path, size, "%.*s", (int)strcspn(p, " \n"), p);
            found = true;
        }
    }
    bx_buf_done(&cmdline);
    return found;
}

int boot_open_port(const void *hello, size_t len, uint64_t deadline, int *ret, struct failure *f)
{
    char path[128];
    if (!named_channel(path, sizeof(path))) {
        int r = wait_until(find_port, BX_AGENT_PORT, path, sizeof(path), deadline);
        if (r < 0) {
            return failure_set(f, r, "waiting for the virtio port %s", BX_AGENT_PORT);
        }
    }
    _cleanup_close_ int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return failure_set(f, errno, "opening %s", path);
    }
    struct termios tio;
    if (tcgetattr(fd, &tio) == 0) { /* a serial line: bytes as they are */
        cfmakeraw(&tio);
        (void)tcsetattr(fd, TCSANOW, &tio);
    }
    /* A virtio port reads as ended while the host has not opened its end, but a blocking write waits
     * for that: the first words are said this way. */
    int r = bx_write_full(fd, hello, len);
    if (r < 0) {
        return failure_set(f, r, "writing to %s", path);
    }
    *ret = steal_fd(&fd);
    return 0;
}
