/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passt.c: one passt process, and the relay in front of it.
 *
 *   engine ──socket── relay (filter.c) ──socket── passt ── the host user's network
 *
 * passt gets its socket as a descriptor, so there is no name that anyone else could connect to, and
 * ends with it. It forwards no port inwards, maps no address onto the host, and jails itself;
 * started by root it becomes nobody (which clears a parent-death signal, but not the end of the
 * socket). Addresses are fixed and the same for every guest: nothing is to be negotiated at boot.
 * DNS goes to an address of passt's own, which asks the host's first resolver. IPv4 only.
 */
#include "net/passt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/random.h"
#include "base/spawn.h"
#include "base/str.h"
#include "net/addresses.h"
#include "net/relay.h"

#define PROGRAM "passt"
#define GUEST "10.0.2.15"
#define PREFIX "24"
#define GATEWAY "10.0.2.2"
#define RESOLVER "10.0.2.3"
#define MTU 65520
#define STR_(x) #x
#define STR(x) STR_(x)
#define CHILD_SOCKET 3
#define OUTPUT_TAIL 4096
#define OUTPUT_COPY_MAX 65536

struct bx_passt {
    int pidfd;
    int output; /* passt's own words */
    int copy_fd;
    size_t copied;
    struct bx_source *child, *output_source;
    struct bx_buf tail;
    struct bx_relay *relay;
    struct bx_addresses *addresses;
    bx_passt_ended_fn ended;
    void *data;
    const struct bx_log *log;
};

void bx_passt_free(struct bx_passt *p)
{
    if (!p) {
        return;
    }
    bx_source_free(p->child);
    if (p->pidfd >= 0) { /* not reaped by the loop yet */
        siginfo_t status;

        (void)bx_pidfd_signal(p->pidfd, SIGKILL);
        while (waitid(P_PIDFD, (id_t)p->pidfd, &status, WEXITED) < 0 && errno == EINTR) {
        }
    }
    bx_source_free(p->output_source);
    bx_addresses_free(p->addresses);
    bx_relay_free(p->relay);
    bx_close(&p->pidfd);
    bx_close(&p->output);
    bx_close(&p->copy_fd);
    bx_buf_done(&p->tail);
    free(p);
}

/* Reads what passt says. False when there is no more now. */
static bool read_output(struct bx_passt *p)
{
    uint8_t buf[1024];
    ssize_t n = read(p->output, buf, sizeof(buf));

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            bx_source_free(steal_ptr(&p->output_source));
        }
        return false;
    }
    (void)bx_buf_append_tail(&p->tail, buf, (size_t)n);
    size_t room = OUTPUT_COPY_MAX - p->copied;
    size_t len = (size_t)n < room ? (size_t)n : room;
    if (p->copy_fd >= 0 && len > 0 && bx_write_full(p->copy_fd, buf, len) == 0) {
        p->copied += len;
    }
    return true;
}

static void on_output(void *data, uint32_t events)
{
    (void)read_output(data);
}

/* Passt's last line that tells something: without a system logger it complains about that, too. */
static char *last_words(const struct bx_buf *tail)
{
    const char *line = bx_buf_str(tail), *found = NULL;
    size_t found_len = 0;

    while (*line) {
        size_t len = strcspn(line, "\n");

        if (len > 0 && !bx_startswith(line, "Failed to send") &&
            !bx_startswith(line, "Don't run as root")) {
            found = line;
            found_len = len;
        }
        line += len + (line[len] == '\n');
    }
    return found ? bx_escape(found, found_len, 200) : NULL;
}

static void on_child(void *data, const siginfo_t *status)
{
    _cleanup_error_ boxlite_error *err = NULL;
    struct bx_passt *p = data;

    bx_source_free(steal_ptr(&p->child));
    bx_close(&p->pidfd); /* it is reaped */
    while (p->output_source && read_output(p)) {
    }
    _cleanup_free_ char *words = last_words(&p->tail);
    (void)bx_fail(&err, BOXLITE_E_NETWORK, "passt %s %d%s%s",
                  status->si_code == CLD_EXITED ? "ended with status" : "was killed by signal",
                  status->si_status, words ? ": " : "", words ? words : "");
    bx_hint(&err, "the guest has no network any more; '--network none' does without");
    bx_debug(p->log, "passt", "%s", boxlite_error_message(err));
    if (p->ended) {
        p->ended(p->data, err);
    }
}

static int spawn(const char *program, int socket, int output, int *ret_pidfd, boxlite_error **err)
{
    static const char *const argv[] = {
        PROGRAM,         "--foreground", "--quiet",
        "--ipv4-only",   "--fd",         STR(CHILD_SOCKET),
        "--tcp-ports",   "none",         "--udp-ports",
        "none",          "--no-map-gw",  "--no-dhcp",
        "--address",     GUEST,          "--netmask",
        PREFIX,          "--gateway",    GATEWAY,
        "--dns-forward", RESOLVER,       "--mtu",
        STR(MTU),        NULL,
    };
    static const char *const env[] = {"LC_ALL=C", NULL};
    const struct bx_spawn_fd fds[] = {{output, 1}, {output, 2}, {socket, CHILD_SOCKET}};
    const struct bx_spawn_limit limits[] = {{RLIMIT_CORE, {0, 0}}};
    const struct bx_spawn spec = {
        .path = program,
        .argv = argv,
        .envp = env,
        .fds = fds,
        .nfds = BX_ARRAY_SIZE(fds),
        .limits = limits,
        .nlimits = BX_ARRAY_SIZE(limits),
        .death_signal = SIGKILL,
        .new_session = true,
        .no_new_privs = true,
    };
    pid_t pid;

    return bx_spawn(&spec, &pid, ret_pidfd, err);
}

static char *find_program(void)
{
    const char *asked = secure_getenv("BOXLITE_PASST");

    return !asked ? bx_find_program(PROGRAM) : access(asked, X_OK) == 0 ? strdup(asked) : NULL;
}

/* The process, with the near ends of its socket (to be closed by the caller) and of its output. */
static int start_process(struct bx_passt *p, int *ret_socket, boxlite_error **err)
{
    _cleanup_free_ char *program = find_program();
    int pair[2] = {-1, -1}, output[2] = {-1, -1};

    if (!program) {
        (void)bx_fail(err, BOXLITE_E_ENGINE, PROGRAM " is not installed");
        bx_hint(err, "install the package passt, or use '--network none'");
        return BOXLITE_E_ENGINE;
    }
    int r = bx_socketpair(SOCK_STREAM, pair);
    _cleanup_close_ int near = pair[0], far = pair[1];
    if (r == 0) {
        r = bx_pipe(output);
    }
    _cleanup_close_ int far_output = output[1];
    p->output = output[0];
    if (r < 0 || (r = bx_set_nonblock(p->output, true)) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "making the channels of passt");
    }
    r = spawn(program, far, far_output, &p->pidfd, err);
    if (r == 0) {
        *ret_socket = steal_fd(&near);
    }
    return r;
}

static void on_addresses(void *data, const uint32_t *own, size_t n)
{
    struct bx_passt *p = data;
    if (!own) {
        bx_warn(p->log, "net", "the host's addresses cannot be read: the box is cut off");
    }
    bx_relay_set_own(p->relay, own, n);
}

/* Puts the relay between the process and the engine's end, which is stored in *ret_fd. */
static int join(struct bx_loop *loop, struct bx_passt *p, int take_socket, int *ret_fd,
                boxlite_error **err)
{
    _cleanup_close_ int socket = take_socket;
    struct bx_net_filter filter;
    struct in_addr guest, router;
    int pair[2] = {-1, -1};

    if (inet_pton(AF_INET, GUEST, &guest) != 1 || inet_pton(AF_INET, GATEWAY, &router) != 1) {
        return bx_fail(err, BOXLITE_E_INTERNAL, "not an address: " GUEST " or " GATEWAY);
    }
    /* First to be told of changes, then what is there: none is missed in between. */
    int r = bx_addresses_new(loop, on_addresses, p, &p->addresses);
    r = r < 0 ? r : bx_net_filter_init(&filter, ntohl(guest.s_addr), ntohl(router.s_addr));
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading the host's addresses");
    }
    r = bx_socketpair(SOCK_STREAM, pair);
    _cleanup_close_ int near = pair[0], far = pair[1];
    if (r == 0) {
        r = bx_relay_new(loop, steal_fd(&near), steal_fd(&socket), &filter, &p->relay);
    }
    if (r == 0) {
        r = bx_loop_add_child(loop, p->pidfd, on_child, p, &p->child);
    }
    if (r == 0) {
        r = bx_loop_add_fd(loop, p->output, EPOLLIN, on_output, p, &p->output_source);
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "joining passt to the engine");
    }
    *ret_fd = steal_fd(&far);
    return 0;
}

/* A locally administered address, as QEMU's own, of this guest alone. */
static void make_net(struct bx_passt_net *ret)
{
    uint8_t tail[3];

    *ret = (struct bx_passt_net){
        .addr = GUEST "/" PREFIX, .gateway = GATEWAY, .dns = RESOLVER, .mtu = MTU};
    bx_random(tail, sizeof(tail));
    (void)snprintf(ret->mac, sizeof(ret->mac), "52:54:00:%02x:%02x:%02x", tail[0], tail[1],
                   tail[2]);
}

int bx_passt_start(struct bx_loop *loop, const struct bx_log *log, int log_fd,
                   bx_passt_ended_fn ended, void *data, struct bx_passt **ret, int *ret_fd,
                   struct bx_passt_net *ret_net, boxlite_error **err)
{
    struct bx_passt *p = calloc(1, sizeof(*p));
    int socket = -1;

    if (!p) {
        return bx_fail_oom(err);
    }
    *p = (struct bx_passt){.pidfd = -1,
                           .output = -1,
                           .copy_fd = -1,
                           .tail = BX_BUF_INIT(OUTPUT_TAIL),
                           .ended = ended,
                           .data = data,
                           .log = log};
    int r = start_process(p, &socket, err);
    if (r == 0) {
        r = join(loop, p, socket, ret_fd, err);
    }
    if (r < 0) {
        bx_passt_free(p);
        return r;
    }
    if (log_fd >= 0) {
        p->copy_fd = fcntl(log_fd, F_DUPFD_CLOEXEC, 3);
    }
    make_net(ret_net);
    *ret = p;
    return 0;
}
