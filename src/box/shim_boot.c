/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_boot.c: what a VM is started with, and what its agent is told first.
 *
 * Everything is opened here, by descriptor and below the home directory, so that the engine gets
 * nothing but ready descriptors and the one path of the kernel. Each thing that can be missing has
 * its own error and advice. Disks: /dev/vda the image's squashfs, read-only and shared by boxes;
 * /dev/vdb the box's own ext4.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/timeutil.h"
#include "box/shim.h"
#include "box/shim_share.h"

/* ---- files */

static int open_rootfs(const struct bx_shim *s, int *ret, boxlite_error **err)
{
    const char *path = s->config.rootfs;
    _cleanup_close_ int fd = openat(s->args.home_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int r = bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the root image %s", path);
        bx_hint(err, "the image %s was removed or damaged: load it again and create the box anew",
                s->config.image);
        return r;
    }
    int r = s->world.rootfs_check(fd, path, err);
    if (r < 0) {
        return r;
    }
    *ret = steal_fd(&fd);
    return 0;
}

static int open_upper(const struct bx_shim *s, int *ret, boxlite_error **err)
{
    struct stat st;
    _cleanup_close_ int fd = openat(s->args.box_fd, "upper.img", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int r = bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the box's disk");
        bx_hint(err, "the box is damaged: remove it and create it again");
        return r;
    }
    if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        int r = bx_fail(err, BOXLITE_E_INTEGRITY, "the box's disk upper.img is not a disk image");
        bx_hint(err, "the box is damaged: remove it and create it again");
        return r;
    }
    *ret = steal_fd(&fd);
    return 0;
}

/* The path behind the home descriptor: the engine opens the kernel by name. */
static char *home_path(const struct bx_shim *s)
{
    char link[64], path[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", s->args.home_fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0) {
        return NULL;
    }
    path[n] = '\0';
    return strdup(path);
}

static int kernel_file(const struct bx_shim *s, const char *home, const char *name, char **ret,
                       boxlite_error **err)
{
    _cleanup_free_ char *rel = bx_asprintf("kernels/%s/%s", s->config.kernel, name);
    _cleanup_free_ char *path = rel ? bx_asprintf("%s/%s", home, rel) : NULL;
    if (!path) {
        return bx_fail_oom(err);
    }
    if (faccessat(s->args.home_fd, rel, R_OK, 0) < 0) {
        int r = bx_fail_errno(err, BOXLITE_E_IO, errno, "kernel %s: %s", s->config.kernel, name);
        bx_hint(err, "import one with: boxlite kernel import FILE.deb (see boxlite doctor)");
        return r;
    }
    *ret = steal_ptr(&path);
    return 0;
}

/* ---- the VM */

struct parts {
    int rootfs, upper, net, agent_theirs, agent_ours, engine_log;
    char *home, *kernel, *initramfs;
};

static void parts_done(struct parts *p)
{
    int *fds[] = {&p->rootfs, &p->upper, &p->net, &p->agent_theirs, &p->agent_ours, &p->engine_log};
    for (size_t i = 0; i < BX_ARRAY_SIZE(fds); i++) {
        bx_close(fds[i]);
    }
    free(p->home);
    free(p->kernel);
    free(p->initramfs);
}

static int prepare(struct bx_shim *s, struct parts *p, boxlite_error **err)
{
    int r, pair[2];
    if ((r = open_rootfs(s, &p->rootfs, err)) < 0 || (r = open_upper(s, &p->upper, err)) < 0) {
        return r;
    }
    if (!(p->home = home_path(s))) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "finding the home directory");
    }
    if ((r = kernel_file(s, p->home, "vmlinux", &p->kernel, err)) < 0 ||
        (r = kernel_file(s, p->home, "initramfs", &p->initramfs, err)) < 0) {
        return r;
    }
    p->engine_log = openat(s->args.box_fd, "engine.log",
                           O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (p->engine_log < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "creating engine.log");
    }
    if ((r = bx_socketpair(SOCK_STREAM, pair)) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "making the agent's channel");
    }
    p->agent_ours = pair[0];
    p->agent_theirs = pair[1];
    return 0;
}

/* A network that ends under a running box leaves it without one; during the boot it ends the
 * start. */
static void passt_ended(void *data, const boxlite_error *error)
{
    struct bx_shim *s = data;
    const char *why = error ? boxlite_error_message(error) : "it ended";
    if (s->phase >= BX_PHASE_STOPPING) {
        return; /* as it should: it ends with the engine */
    }
    if (s->phase == BX_PHASE_RUNNING) {
        bx_warn(&s->log, "net", "the box has lost its network: %s", why);
        return;
    }
    _cleanup_error_ boxlite_error *err = NULL;
    bx_fail_copy(&err, error ? boxlite_error_code(error) : BOXLITE_E_ENGINE, 0, why,
                 error ? boxlite_error_hint(error) : NULL);
    bx_wrap(&err, "network");
    bx_shim_fail(s, &err);
}

static int start_network(struct bx_shim *s, int *ret_fd, boxlite_error **err)
{
    if (s->config.network != BOXLITE_NETWORK_USER) {
        return 0;
    }
    int r = s->world.passt_start(s->loop, &s->log, STDERR_FILENO, passt_ended, s, &s->passt, ret_fd,
                                 &s->net, err);
    if (r < 0) {
        bx_wrap(err, "network");
        return r;
    }
    s->have_net = true;
    return 0;
}

static int choose_engine(struct bx_shim *s, boxlite_error **err)
{
    /* The probe's verdict is the same for all boxes of this home until the host boots again. */
    _cleanup_close_ int cache = openat(s->args.home_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->world.choose(s->config.engine, cache, &s->engine, err);
}

int bx_shim_boot(struct bx_shim *s, const struct bx_vmm_events *events, int *ret_agent_fd,
                 boxlite_error **err)
{
    _cleanup_(parts_done) struct parts p = {-1, -1, -1, -1, -1, -1, NULL, NULL, NULL};
    int r;
    if ((r = choose_engine(s, err)) < 0 || (r = prepare(s, &p, err)) < 0 ||
        (r = start_network(s, &p.net, err)) < 0 || (r = bx_shim_share_start(s, err)) < 0) {
        return r;
    }
    const struct bx_vmm_disk disks[] = {{.fd = p.rootfs, .read_only = true}, {.fd = p.upper}};
    const struct bx_vmm_config config = {
        .name = s->config.id,
        .kernel = p.kernel,
        .initramfs = p.initramfs,
        .cpus = s->config.cpus,
        .memory = s->config.memory,
        .disks = disks,
        .ndisks = BX_ARRAY_SIZE(disks),
        .agent_fd = p.agent_theirs,
        .net_fd = p.net,
        .mac = s->have_net ? s->net.mac : NULL,
        .console_fd = p.engine_log,
        .work_fd = s->args.box_fd,
        .log = &s->log,
    };
    if ((r = s->engine->start(s->loop, &config, events, s, &s->vm, err)) < 0) {
        bx_wrap(err, "engine %s", s->engine->name);
        return r;
    }
    *ret_agent_fd = steal_fd(&p.agent_ours);
    return 0;
}

/* ---- the agent's first message */

static int put_file(struct bx_buf *msg, const char *path, const char *content)
{
    _cleanup_(bx_buf_done) struct bx_buf b = BX_BUF_INIT(4096);
    int r = bx_buf_append(&b, path, strlen(path) + 1);
    if (r == 0) {
        r = bx_buf_appends(&b, content);
    }
    return r < 0 ? r : bx_msg_bytes(msg, BX_T_FILE, bx_buf_data(&b), b.len);
}

static int put_files(const struct bx_shim *s, struct bx_buf *msg)
{
    const char *name = s->config.hostname;
    char own[64] = "127.0.1.1";
    if (s->have_net) { /* the address without its "/24" */
        (void)snprintf(own, sizeof(own), "%.*s", (int)strcspn(s->net.addr, "/"), s->net.addr);
    }
    _cleanup_free_ char *hosts = bx_asprintf("127.0.0.1\tlocalhost\n"
                                             "::1\tlocalhost ip6-localhost ip6-loopback\n"
                                             "%s\t%s\n",
                                             own, name);
    _cleanup_free_ char *hostname = bx_asprintf("%s\n", name);
    _cleanup_free_ char *resolv =
        s->have_net && s->net.dns[0] ? bx_asprintf("nameserver %s\n", s->net.dns) : strdup("");
    if (!hosts || !hostname || !resolv) {
        return -ENOMEM;
    }
    int r;
    if ((r = put_file(msg, "/etc/hosts", hosts)) < 0 ||
        (r = put_file(msg, "/etc/hostname", hostname)) < 0) {
        return r;
    }
    return put_file(msg, "/etc/resolv.conf", resolv);
}

int bx_shim_configure_msg(const struct bx_shim *s, struct bx_buf *msg)
{
    int r;
    if ((r = bx_msg_begin(msg, BX_AG_CONFIGURE)) < 0 ||
        (r = bx_msg_str(msg, BX_T_ROOT_DEV, "/dev/vda")) < 0 ||
        (r = bx_msg_str(msg, BX_T_ROOT_TYPE, "squashfs")) < 0 ||
        (r = bx_msg_str(msg, BX_T_UPPER_DEV, "/dev/vdb")) < 0 ||
        (r = bx_msg_str(msg, BX_T_UPPER_TYPE, "ext4")) < 0 ||
        (r = bx_msg_str(msg, BX_T_HOSTNAME, s->config.hostname)) < 0 ||
        (r = bx_msg_u64(msg, BX_T_CLOCK_NS, bx_now_real())) < 0 || (r = put_files(s, msg)) < 0 ||
        (r = bx_shim_share_configure(s, msg)) < 0) {
        return r;
    }
    if (!s->have_net) {
        return 0;
    }
    if ((r = bx_msg_str(msg, BX_T_NET_ADDR, s->net.addr)) < 0 ||
        (r = bx_msg_str(msg, BX_T_NET_GATEWAY, s->net.gateway)) < 0) {
        return r;
    }
    return bx_msg_u64(msg, BX_T_NET_MTU, s->net.mtu);
}
