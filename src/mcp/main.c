/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c: boxlite-mcp-server over stdio: the process around the server.
 *
 * Standard output is moved to a descriptor of our own at once and descriptor 1 becomes stderr, so that nothing else, no
 * library and no child, can ever write between the JSON-RPC lines. The loop waits for stdin, stdout when answers are
 * queued, the library, timers and signals. At end of input, SIGTERM, SIGINT or SIGHUP it ends at once; the boxes are
 * attached and end with it even if it is killed half-way.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "mcp/mcp.h"

/* fd 1 becomes stderr; the JSON-RPC stream gets a descriptor of its own. */
static int take_stdout(void)
{
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (out >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        close(out);
        return -1;
    }
    return out;
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

enum { P_IN, P_OUT, P_LIB, P_SIGNAL, P_COUNT };

/* One turn: true while the session goes on. */
static bool turn(struct mcp_server *s, struct pollfd p[P_COUNT])
{
    struct mcp_transport *t = mcp_server_transport(s);

    p[P_OUT].events = mcp_transport_pending(t) ? POLLOUT : 0;
    p[P_LIB].fd = mcp_server_fd(s);
    if (poll(p, P_COUNT, mcp_timers_wait_ms(s)) < 0) {
        return errno == EINTR;
    }
    if (p[P_SIGNAL].revents || p[P_OUT].revents & (POLLERR | POLLHUP)) {
        return false;
    }
    if (p[P_LIB].revents) {
        mcp_server_dispatch(s);
    }
    mcp_timers_run(s);
    if (p[P_IN].revents && mcp_transport_read(t) <= 0) {
        (void)mcp_transport_flush(t);
        return false;
    }
    return mcp_transport_flush(t) == 0;
}

int main(int argc, char **argv)
{
    struct mcp_options options = {0};
    struct mcp_server *server = NULL;
    int r = mcp_options_parse(argc, argv, &options);
    int out, signals;

    if (r != 0) {
        return r == 1 ? 0 : r;
    }
    signals = open_signals();
    out = take_stdout();
    if (signals < 0 || out < 0 || mcp_server_new(&options, STDIN_FILENO, out, &server) < 0) {
        fprintf(stderr, "boxlite-mcp-server: cannot start: %s\n", strerror(errno));
        return 125;
    }
    if (!isatty(out)) { /* a terminal is shared with others, who would be surprised */
        (void)fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
    }
    struct pollfd p[P_COUNT] = {
        [P_IN] = {.fd = STDIN_FILENO, .events = POLLIN},
        [P_OUT] = {.fd = out},
        [P_LIB] = {.fd = -1, .events = POLLIN},
        [P_SIGNAL] = {.fd = signals, .events = POLLIN},
    };
    while (turn(server, p)) {
    }
    mcp_server_free(server);
    return 0;
}
