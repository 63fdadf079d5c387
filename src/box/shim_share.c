/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_share.c: see shim_share.h.
 *
 * boxlite-share is a process of its own, jailed to the shared trees, because it interprets what a hostile
 * guest sends; the shim moves bytes and does not look into them. Both directions are bounded by the
 * channels' credit: requests wait here only until the server's socket takes them, answers are read only
 * as far as the channel has room. When the server ends under a running box, the guest's mounts do, too.
 */
#include "box/shim_share.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/spawn.h"
#include "share/shareproc.h"

#define READS_MAX 16 /* in a row before other sources get their turn */

struct bx_shim_share {
    int fd; /* the stream to the server, -1: it has ended */
    int pidfd;
    struct bx_source *source, *child;
    struct bx_buf in; /* requests that the socket did not take yet */
    bool want_out, no_room;
    bool is_file[BX_SHARE_TREES_MAX];
};

_Static_assert(BX_SHARE_TREES_MAX == BX_BOX_MOUNTS_MAX, "one bound");

/* ---- the stream */

static void watch(struct bx_shim_share *sh)
{
    if (sh->source) {
        (void)bx_source_set_events(sh->source, (sh->no_room ? 0u : (uint32_t)EPOLLIN) |
                                                   (sh->want_out ? (uint32_t)EPOLLOUT : 0u));
    }
}

static void end(struct bx_shim *s)
{
    struct bx_shim_share *sh = s->share;
    bx_source_free(steal_ptr(&sh->source));
    bx_close(&sh->fd);
    bx_buf_clear(&sh->in);
    if (s->agent && s->phase < BX_PHASE_STOPPING) {
        bx_warn(&s->log, "share", "the file server has ended: the box has lost its shared folders");
        (void)bx_conn_send_eof(s->agent, BX_CHANNEL_SHARE_ANSWER);
        (void)bx_conn_send_reset(s->agent, BX_CHANNEL_SHARE_REQUEST);
        bx_conn_io_kick(s->agent_io);
    }
}

/* How many bytes the server takes now. */
static size_t give(struct bx_shim *s, const uint8_t *p, size_t len)
{
    ssize_t n = send(s->share->fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        end(s);
        return 0;
    }
    size_t taken = n < 0 ? 0 : (size_t)n;
    if (taken > 0 && s->agent) {
        (void)bx_conn_consumed(s->agent, BX_CHANNEL_SHARE_REQUEST, taken);
    }
    return taken;
}

void bx_shim_share_bytes(struct bx_shim *s, const uint8_t *p, size_t len)
{
    struct bx_shim_share *sh = s->share;
    if (!sh || sh->fd < 0) {
        return;
    }
    size_t taken = sh->in.len == 0 ? give(s, p, len) : 0;
    if (sh->fd < 0 || taken == len) {
        return;
    }
    if (bx_buf_append(&sh->in, p + taken, len - taken) < 0) {
        end(s);
        return;
    }
    sh->want_out = true;
    watch(sh);
}

static void push(struct bx_shim *s)
{
    struct bx_shim_share *sh = s->share;
    size_t taken = sh->in.len > 0 ? give(s, bx_buf_data(&sh->in), sh->in.len) : 0;
    if (sh->fd >= 0) {
        bx_buf_consume(&sh->in, taken);
        sh->want_out = sh->in.len > 0;
        watch(sh);
    }
}

/* Answers to the guest. */
static void pull(struct bx_shim *s)
{
    struct bx_shim_share *sh = s->share;
    for (int i = 0; i < READS_MAX && sh->fd >= 0; i++) {
        size_t len = 0;
        void *p = s->agent ? bx_conn_reserve(s->agent, BX_CHANNEL_SHARE_ANSWER, &len) : NULL;
        if (!p) {
            sh->no_room = true;
            watch(sh);
            break;
        }
        ssize_t n = recv(sh->fd, p, len, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        }
        if (n <= 0) {
            end(s);
            return;
        }
        bx_conn_commit(s->agent, BX_CHANNEL_SHARE_ANSWER, (size_t)n);
    }
    if (s->agent_io) {
        bx_conn_io_kick(s->agent_io);
    }
}

void bx_shim_share_writable(struct bx_shim *s)
{
    if (s->share && s->share->no_room) {
        s->share->no_room = false;
        watch(s->share);
    }
}

static void on_stream(void *data, uint32_t events)
{
    struct bx_shim *s = data;
    if (events & EPOLLOUT) {
        push(s);
    }
    if (s->share->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        pull(s);
    }
}

static void on_child(void *data, const siginfo_t *status)
{
    struct bx_shim *s = data;
    bx_source_free(steal_ptr(&s->share->child));
    bx_close(&s->share->pidfd);
    if (s->share->fd >= 0) {
        end(s);
    }
}

/* ---- the start */

/* The place of the server: beside this program. */
static char *program(const struct bx_shim *s)
{
    char path[PATH_MAX];
    if (s->world.share_program) {
        return strdup(s->world.share_program);
    }
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0) {
        return NULL;
    }
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    *(slash ? slash : path) = '\0';
    return bx_path_join(path, BX_SHARE_PROGRAM);
}

/* The path was resolved when the box was made: a link in its last part is a new one. */
static int open_tree(const struct bx_box_mount *m, bool *ret_is_file, int *ret, boxlite_error **err)
{
    struct stat st;
    _cleanup_close_ int fd = open(m->host, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int r = bx_fail_errno(err, BOXLITE_E_IO, errno, "sharing %.400s", m->host);
        bx_hint(err,
                "the folder was there when the box was made: bring it back, or make a new box");
        return r;
    }
    bool workspace = bx_streq(m->kind, BX_MOUNT_WORKSPACE);
    if (!S_ISDIR(st.st_mode) && (workspace || !S_ISREG(st.st_mode))) {
        return bx_fail(err, BOXLITE_E_INVALID, "sharing %.400s: it is not a folder%s any more",
                       m->host, workspace ? "" : " or plain file");
    }
    *ret_is_file = S_ISREG(st.st_mode);
    *ret = steal_fd(&fd);
    return 0;
}

static const char *kind_of(const struct bx_box_mount *m)
{
    return bx_streq(m->kind, BX_MOUNT_WORKSPACE) ? BX_SHARE_WS
           : m->read_only                        ? BX_SHARE_RO
                                                 : BX_SHARE_RW;
}

static int spawn_server(struct bx_shim *s, const int *trees, int theirs, boxlite_error **err)
{
    const struct bx_box_mount *m = bx_box_mounts(&s->config);
    size_t n = s->config.mounts.n;
    const char *argv[BX_SHARE_TREES_MAX + 3] = {BX_SHARE_PROGRAM, "1"};
    struct bx_spawn_fd fds[BX_SHARE_TREES_MAX + 3] = {{theirs, BX_SHARE_FD_STREAM},
                                                      {s->args.home_fd, BX_SHARE_FD_HIDE},
                                                      {STDERR_FILENO, STDERR_FILENO}};
    for (size_t i = 0; i < n; i++) {
        argv[2 + i] = kind_of(&m[i]);
        fds[3 + i] = (struct bx_spawn_fd){trees[i], BX_SHARE_FD_TREES + (int)i};
    }
    _cleanup_free_ char *path = program(s);
    if (!path) {
        return bx_fail_oom(err);
    }
    const struct bx_spawn spec = {.path = path,
                                  .argv = argv,
                                  .fds = fds,
                                  .nfds = 3 + n,
                                  .death_signal = SIGKILL,
                                  .no_new_privs = true};
    pid_t pid;
    int r = bx_spawn(&spec, &pid, &s->share->pidfd, err);
    if (r < 0) {
        bx_wrap(err, "the file server of shared folders");
    }
    return r;
}

static int watch_server(struct bx_shim *s, boxlite_error **err)
{
    struct bx_shim_share *sh = s->share;
    int r = bx_loop_add_fd(s->loop, sh->fd, EPOLLIN, on_stream, s, &sh->source);
    r = r < 0 ? r : bx_loop_add_child(s->loop, sh->pidfd, on_child, s, &sh->child);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "watching the file server") : 0;
}

int bx_shim_share_start(struct bx_shim *s, boxlite_error **err)
{
    const struct bx_box_mount *m = bx_box_mounts(&s->config);
    size_t n = s->config.mounts.n;
    int trees[BX_SHARE_TREES_MAX], pair[2], r = 0;
    if (n == 0) {
        return 0;
    }
    s->share = calloc(1, sizeof(*s->share));
    if (!s->share) {
        return bx_fail_oom(err);
    }
    *s->share = (struct bx_shim_share){.fd = -1, .pidfd = -1, .in = BX_BUF_INIT(BX_WIRE_WINDOW)};
    size_t opened = 0;
    for (; r == 0 && opened < n; opened += r == 0) {
        r = open_tree(&m[opened], &s->share->is_file[opened], &trees[opened], err);
    }
    if (r == 0 && (r = bx_socketpair(SOCK_STREAM, pair)) < 0) {
        r = bx_fail_errno(err, BOXLITE_E_IO, r, "making the file server's stream");
    } else if (r == 0) {
        s->share->fd = pair[0];
        r = spawn_server(s, trees, pair[1], err);
        (void)close(pair[1]);
    }
    for (size_t i = 0; i < opened; i++) {
        (void)close(trees[i]);
    }
    return r < 0 ? r : watch_server(s, err);
}

int bx_shim_share_configure(const struct bx_shim *s, struct bx_buf *msg)
{
    const struct bx_box_mount *m = bx_box_mounts(&s->config);
    int r = s->config.mounts.n > 0 ? bx_msg_str(msg, BX_T_USER, s->config.user) : 0;
    for (size_t i = 0; r == 0 && i < s->config.mounts.n; i++) {
        bool workspace = bx_streq(m[i].kind, BX_MOUNT_WORKSPACE);
        char bits = (char)((m[i].read_only || workspace ? BX_MOUNT_READ_ONLY : 0) |
                           (workspace ? BX_MOUNT_UNION : 0) |
                           (s->share && s->share->is_file[i] ? BX_MOUNT_FILE : 0));
        _cleanup_free_ char *field = bx_asprintf(".%s", m[i].guest);
        if (!field) {
            return -ENOMEM;
        }
        field[0] = bits;
        r = bx_msg_bytes(msg, BX_T_MOUNT, field, 1 + strlen(m[i].guest));
    }
    return r;
}

int bx_shim_share_open(struct bx_shim *s)
{
    if (!s->share) {
        return 0;
    }
    int r = bx_conn_open(s->agent, BX_CHANNEL_SHARE_REQUEST);
    return r < 0 ? r : bx_conn_open(s->agent, BX_CHANNEL_SHARE_ANSWER);
}

void bx_shim_share_stop(struct bx_shim *s)
{
    struct bx_shim_share *sh = steal_ptr(&s->share);
    if (!sh) {
        return;
    }
    bx_source_free(sh->source);
    bx_source_free(sh->child);
    bx_close(&sh->fd); /* ends it */
    if (sh->pidfd >= 0) {
        (void)bx_pidfd_signal(sh->pidfd, SIGKILL);
        (void)waitid(P_PIDFD, (id_t)sh->pidfd, &(siginfo_t){0}, WEXITED);
        bx_close(&sh->pidfd);
    }
    bx_buf_done(&sh->in);
    free(sh);
}
