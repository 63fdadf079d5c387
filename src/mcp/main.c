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

enum { P_IN, P_OUT, P_LIB, P_SIGNAL, P_HTTP, P_GONE, P_COUNT };

struct process {
    struct mcp_server *server;
    struct mcp_transport *stdio; /* or */
    struct mcp_http *http;
    struct pollfd p[P_COUNT];
};

static void on_line(void *data, const char *line, size_t len)
{
    static const struct mcp_peer stdio;
    struct process *me = data;
    (void)mcp_server_receive(me->server, &stdio, line, len);
}

static void on_send(void *data, const struct mcp_peer *peer, const json_t *message)
{
    struct process *me = data;
    (void)peer;
    (void)mcp_transport_send(me->stdio, message);
}

static int shorter(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int wait_ms(const struct process *me)
{
    int ms = mcp_timers_wait_ms(me->server);
    return me->http ? shorter(ms, mcp_http_wait_ms(me->http)) : ms;
}

/* One turn: true while the session goes on. */
static bool turn(struct process *me)
{
    struct pollfd *p = me->p;

    p[P_OUT].events = me->stdio && mcp_transport_pending(me->stdio) ? POLLOUT : 0;
    p[P_LIB].fd = mcp_server_fd(me->server);
    if (poll(p, P_COUNT, wait_ms(me)) < 0) {
        return errno == EINTR;
    }
    if (p[P_SIGNAL].revents || p[P_OUT].revents & (POLLERR | POLLHUP)) {
        return false;
    }
    if (p[P_LIB].revents) {
        mcp_server_dispatch(me->server);
    }
    mcp_timers_run(me->server);
    if (me->http) {
        mcp_http_run(me->http);
        return true;
    }
    if (p[P_IN].revents && mcp_transport_read(me->stdio) <= 0) {
        (void)mcp_transport_flush(me->stdio);
        return false;
    }
    return mcp_transport_flush(me->stdio) == 0;
}

static int open_stdio(struct process *me, const struct mcp_options *options)
{
    int out = take_stdout();
    if (out < 0 || mcp_transport_new(STDIN_FILENO, out, on_line, me, &me->stdio) < 0 ||
        mcp_server_new(options, on_send, me, &me->server) < 0) {
        return -1;
    }
    if (!isatty(out)) { /* a terminal is shared with others, who would be surprised */
        (void)fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
    }
    me->p[P_IN] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    me->p[P_OUT].fd = out;
    return 0;
}

static int open_http(struct process *me, const struct mcp_options *options)
{
    if (mcp_http_new(options, &me->http) < 0 || mcp_server_new(options, mcp_http_send, me->http, &me->server) < 0) {
        return -1;
    }
    mcp_http_attach(me->http, me->server);
    me->p[P_HTTP] = (struct pollfd){.fd = mcp_http_fd(me->http), .events = POLLIN};
    me->p[P_GONE] = (struct pollfd){.fd = mcp_http_gone_fd(me->http), .events = POLLIN};
    return 0;
}

int main(int argc, char **argv)
{
    struct mcp_options options = {0};
    struct process me = {0};
    int r = mcp_options_parse(argc, argv, &options);

    if (r != 0) {
        return r == 1 ? 0 : r;
    }
    for (size_t i = 0; i < P_COUNT; i++) {
        me.p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    me.p[P_SIGNAL].fd = open_signals();
    r = me.p[P_SIGNAL].fd < 0 ? -1 : options.http ? open_http(&me, &options) : open_stdio(&me, &options);
    if (r < 0) {
        fprintf(stderr, "boxlite-mcp-server: cannot start\n");
    }
    while (r == 0 && turn(&me)) {
    }
    mcp_server_free(me.server);
    mcp_transport_free(me.stdio);
    mcp_http_free(me.http);
    mcp_options_done(&options);
    return r < 0 ? 125 : 0;
}
