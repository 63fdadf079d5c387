/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c: see share.h. Records on the channels are u32 number of the mount, then a FUSE message, whose
 * first u32 is its length (docs/wire.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "guest/boot.h"
#include "guest/openat2.h"
#include "guest/rootfs.h"
#include "guest/share.h"
#include "guest/users.h"
#include "wire/proto.h"

#define PREFIX 4u
#define MESSAGE_MAX (512u << 10) /* more than any request or answer */
#define READS_MAX 16             /* requests in a row before others get their turn */
#define PASSWD_MAX (4u << 20)
#define NOTIFY_PIPE (1 << 20)
#define NOTIFY_MAX 512 /* a name is shorter; less than PIPE_BUF, so written whole or not */

struct share {
    struct agent *agent;
    struct bx_source *source;
    int fd; /* /dev/fuse, -1: gone */
    uint32_t number;
};

struct shares {
    int notifier; /* to the process that calls names back */
    struct share *v;
    size_t n;
    bool full;     /* the channel takes no more: requests wait in the kernel */
    size_t out_at; /* of the record under way, in out */
    size_t out_len;
    size_t in_len; /* of the answer that is coming in, in in */
    uint8_t out[PREFIX + MESSAGE_MAX];
    uint8_t in[PREFIX + MESSAGE_MAX];
};

/* ---- requests: kernel to host */

static void watch_all(struct shares *s, bool on)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].source) {
            (void)bx_source_set_events(s->v[i].source, on ? EPOLLIN : 0);
        }
    }
}

/* Sends what is left of the record. False: the channel is full, writable() comes. */
static bool push(struct agent *a)
{
    struct shares *s = a->shares;
    ssize_t n =
        bx_conn_send(a->conn, BX_CHANNEL_SHARE_REQUEST, s->out + s->out_at, s->out_len - s->out_at);
    if (n < 0) {
        s->out_at = s->out_len = 0; /* the link is over, or the host has ended the channel */
        return true;
    }
    s->out_at += (size_t)n;
    if (s->out_at == s->out_len) {
        s->out_at = s->out_len = 0;
        return true;
    }
    return false;
}

static void lose(struct share *sh)
{
    bx_source_free(steal_ptr(&sh->source));
    bx_close(&sh->fd);
}

/* One request. False: there is none, or no room for it. */
static bool carry(struct share *sh)
{
    struct agent *a = sh->agent;
    struct shares *s = a->shares;
    ssize_t n = read(sh->fd, s->out + PREFIX, MESSAGE_MAX);
    if (n < 0) {
        if (errno == ENODEV) { /* unmounted, or aborted */
            lose(sh);
        }
        return errno == ENOENT || errno == EINTR; /* ENOENT: the asker has been killed */
    }
    bx_put_le32(s->out, sh->number);
    s->out_len = PREFIX + (size_t)n;
    if (!push(a)) {
        s->full = true;
        watch_all(s, false);
    }
    return !s->full;
}

static void on_request(void *data, uint32_t events)
{
    struct share *sh = data;
    struct agent *a = sh->agent;
    for (int i = 0; i < READS_MAX && sh->fd >= 0 && !a->shares->full; i++) {
        if (!carry(sh)) {
            break;
        }
    }
    bx_conn_io_kick(a->io);
}

void share_writable(struct agent *a)
{
    struct shares *s = a->shares;
    if (s && s->full && push(a)) {
        s->full = false;
        watch_all(s, true);
    }
}

/* ---- answers: host to kernel */

static bool calls_a_name_back(const uint8_t *record, size_t len)
{
    struct fuse_out_header head;
    memcpy(&head, record + PREFIX, sizeof(head));
    return head.unique == 0 && head.error == FUSE_NOTIFY_INVAL_ENTRY && len <= PREFIX + NOTIFY_MAX;
}

static void answer(struct agent *a, const uint8_t *record, size_t len)
{
    struct shares *s = a->shares;
    uint32_t number = bx_get_le32(record);
    if (number < s->n && calls_a_name_back(record, len)) {
        /* When too many wait, this one is old after a minute. */
        (void)!write(s->notifier, record, len);
        return;
    }
    /* One whose asker was killed meanwhile is refused: ENOENT. */
    if (number < s->n && s->v[number].fd >= 0 &&
        write(s->v[number].fd, record + PREFIX, len - PREFIX) < 0 && errno == EINVAL) {
        agent_say("the kernel refuses an answer for the shared folder %u", number);
    }
}

/* The length of the record that begins here; 0: not known yet. */
static size_t record_length(const uint8_t *p, size_t len)
{
    return len < PREFIX + 4 ? 0 : PREFIX + (size_t)bx_get_le32(p + PREFIX);
}

/* Calling a name back takes the lock of its folder, whose holder may wait for an answer that comes through
 * here: so another process does it. */
static int notifier_start(struct shares *s)
{
    int fds[2];
    uint8_t record[PREFIX + NOTIFY_MAX];
    int r = bx_pipe(fds);
    if (r < 0) {
        return r;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[1]);
        (void)prctl(PR_SET_NAME, "share-notify", 0, 0, 0);
        while (bx_read_full(fds[0], record, PREFIX + 4) == PREFIX + 4) {
            size_t len = record_length(record, PREFIX + 4);
            if (bx_read_full(fds[0], record + PREFIX + 4, len - PREFIX - 4) < 0) {
                break;
            }
            (void)!write(s->v[bx_get_le32(record)].fd, record + PREFIX, len - PREFIX);
        }
        _exit(0);
    }
    (void)close(fds[0]);
    if (pid < 0) {
        (void)close(fds[1]);
        return -ECHILD;
    }
    (void)fcntl(fds[1], F_SETPIPE_SZ, NOTIFY_PIPE);
    s->notifier = fds[1];
    return bx_set_nonblock(fds[1], true);
}

static bool good_length(size_t n)
{
    return n >= PREFIX + sizeof(struct fuse_out_header) && n <= PREFIX + MESSAGE_MAX;
}

/* Takes bytes to the answer that is coming in, until it is whole: how many. */
static size_t collect(struct agent *a, const uint8_t *p, size_t len)
{
    struct shares *s = a->shares;
    size_t want = record_length(s->in, s->in_len);
    want = want ? want : PREFIX + 4;
    size_t n = want - s->in_len < len ? want - s->in_len : len;
    memcpy(s->in + s->in_len, p, n);
    s->in_len += n;
    want = record_length(s->in, s->in_len);
    if (want && !good_length(want)) {
        agent_fatal(a, EPROTO, "the host's answer for a shared folder makes no sense");
    }
    if (want && s->in_len == want) {
        answer(a, s->in, want);
        s->in_len = 0;
    }
    return n;
}

void share_bytes(struct agent *a, const uint8_t *p, size_t len)
{
    struct shares *s = a->shares;
    size_t left = len;
    while (s && left > 0) {
        size_t whole = s->in_len == 0 ? record_length(p, left) : 0;
        size_t n = whole;
        if (whole && whole <= left && good_length(whole)) {
            answer(a, p, whole); /* without a copy */
        } else {
            n = collect(a, p, left);
        }
        p += n;
        left -= n;
    }
    (void)bx_conn_consumed(a->conn, BX_CHANNEL_SHARE_ANSWER, len);
}

/* ---- mounting */

static void send_owner(struct agent *a, const struct config *cfg)
{
    struct bx_buf passwd = BX_BUF_INIT(PASSWD_MAX), group = BX_BUF_INIT(PASSWD_MAX);
    static const char *const files[] = {"etc/passwd", "etc/group"};
    struct bx_buf *texts[] = {&passwd, &group};
    struct failure f = {0};
    static struct user u;
    uint8_t record[PREFIX + 16];
    _cleanup_close_ int root = open(ROOTFS_MERGED, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < 2; i++) {
        char path[32];
        _cleanup_close_ int fd = open_in_root(root, files[i], O_RDONLY | O_NONBLOCK, 0);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        users_read(path, texts[i]);
    }
    /* A user that the image lacks is told when the first command wants to be it. */
    if (users_resolve(cfg->user ? cfg->user : "", bx_buf_str(&passwd), bx_buf_str(&group), &u, &f) <
        0) {
        u.uid = u.gid = 0;
    }
    bx_buf_done(&passwd);
    bx_buf_done(&group);
    bx_put_le32(record, BX_SHARE_CONTROL_NUMBER);
    bx_put_le32(record + 4, 16);
    bx_put_le32(record + 8, BX_SHARE_CONTROL_OWNER);
    bx_put_le32(record + 12, u.uid);
    bx_put_le32(record + 16, u.gid);
    (void)bx_conn_send(a->conn, BX_CHANNEL_SHARE_REQUEST, record, sizeof(record));
}

static int make_point(const char *path, bool is_file, struct failure *f)
{
    int fd = is_file ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (is_file ? fd < 0 : mkdir(path, 0755) < 0 && errno != EEXIST) {
        return failure_set(f, errno, "making %s", path);
    }
    bx_close(&fd);
    return 0;
}

static int mount_one(struct agent *a, struct share *sh, const struct config_mount *m,
                     struct failure *f)
{
    char path[64], options[128];
    bool is_file = m->flags & BX_MOUNT_FILE;
    (void)snprintf(path, sizeof(path), SHARE_DIR "/%u", sh->number);
    sh->fd = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (sh->fd < 0) {
        return failure_set(f, errno,
                           "opening /dev/fuse (the kernel needs fuse for shared folders)");
    }
    int r = make_point(path, is_file, f);
    if (r < 0) {
        return r;
    }
    (void)snprintf(options, sizeof(options),
                   "fd=%d,rootmode=%o,user_id=0,group_id=0,allow_other,max_read=%u", sh->fd,
                   is_file ? S_IFREG : S_IFDIR, BX_SHARE_IO_MAX);
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOATIME;
    flags |= m->flags & BX_MOUNT_READ_ONLY ? MS_RDONLY : 0;
    if (mount("boxlite", path, "fuse.boxlite", flags, options) < 0) {
        return failure_set(f, errno, "mounting the shared folder %.100s", m->guest);
    }
    r = bx_loop_add_fd(a->loop, sh->fd, EPOLLIN, on_request, sh, &sh->source);
    return r < 0 ? failure_set(f, r, "watching /dev/fuse") : 0;
}

static int open_channels(struct agent *a, struct failure *f)
{
    int r = bx_conn_open(a->conn, BX_CHANNEL_SHARE_REQUEST);
    r = r < 0 ? r : bx_conn_open(a->conn, BX_CHANNEL_SHARE_ANSWER);
    return r < 0 ? failure_set(f, r, "opening the channels of shared folders") : 0;
}

int share_mount_all(struct agent *a, const struct config *cfg, struct failure *f)
{
    static struct shares shares;
    if (cfg->nmounts == 0) {
        return 0;
    }
    if (a->modules >= 0) {
        boot_module(a->modules, "fuse");
    }
    a->shares = &shares;
    shares.v = calloc(cfg->nmounts, sizeof(*shares.v));
    if (!shares.v || mkdir(SHARE_DIR, 0700) < 0) {
        return failure_set(f, errno, "making " SHARE_DIR);
    }
    int r = open_channels(a, f);
    if (r == 0) {
        send_owner(a, cfg);
    }
    for (size_t i = 0; r == 0 && i < cfg->nmounts; i++) {
        shares.v[i] = (struct share){.agent = a, .fd = -1, .number = (uint32_t)i};
        shares.n = i + 1;
        r = mount_one(a, &shares.v[i], &cfg->mounts[i], f);
    }
    if (r == 0 && (r = notifier_start(&shares)) < 0) {
        r = failure_set(f, r, "starting a process for shared folders");
    }
    return r;
}

/* ---- the end */

void share_abort(struct agent *a)
{
    for (size_t i = 0; a->shares && i < a->shares->n; i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), SHARE_DIR "/%zu", i);
        (void)umount2(path, MNT_FORCE | MNT_DETACH);
        lose(&a->shares->v[i]);
    }
}

void share_eof(struct agent *a)
{
    agent_say("the host's server of shared folders has ended");
    share_abort(a);
}
