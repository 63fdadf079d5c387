/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c: the Streamable HTTP transport, by libmicrohttpd inside our own loop: one descriptor to poll, no threads.
 *
 * Each POST carries one message and is an exchange with a number, which is the message's peer. A request is answered in
 * the response of its own POST: as plain JSON, or, if its client takes one and there is progress to tell first, as an
 * event stream that ends with the answer. While nothing is to be sent the connection is suspended. The GET stream is not
 * offered. A session id is given out by initialize, only so that a client's cancellations find its own calls.
 *
 * The library does not look at suspended connections, so another epoll descriptor tells when a client of the stateless era
 * has gone, which cancels its request. In the era of initialize that means nothing (MCP, "Cancellation"): the work goes on,
 * and where its answer should go shows when there is one.
 *
 * Order of an exchange: headers checked -> body collected (bounded) -> message served -> [suspended] -> response queued
 * -> [events, suspended between them].
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "mcp/mcp.h"

struct exchange {
    struct exchange *next;
    struct mcp_http *http;
    struct MHD_Connection *connection;
    struct mcp_peer peer;
    char *body;
    size_t len;
    bool too_long, served, suspended, stateless;
    unsigned status; /* 0: there is no answer yet */
    char *answer;    /* NULL: an empty body; of a stream: events that wait to be sent */
    size_t sent;     /* of those */
    bool new_session;
    bool takes_events, streaming, streamed; /* streamed: the last event waits or was sent */
};

struct mcp_http {
    struct MHD_Daemon *daemon;
    int gone_fd; /* epoll: clients that have gone while their connection is suspended */
    struct mcp_server *server;
    const char *token;
    bool loopback;
    struct exchange *first;
    uint64_t serial;
};

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* ---- Responses */

static enum MHD_Result respond(struct MHD_Connection *c, unsigned status, const char *text, const char *session)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(text ? strlen(text) : 0, (void *)(text ? text : ""),
                                                             MHD_RESPMEM_MUST_COPY);
    enum MHD_Result done;

    if (!r) {
        return MHD_NO;
    }
    if (text) {
        MHD_add_response_header(r, "Content-Type", "application/json");
    }
    if (session) {
        MHD_add_response_header(r, "Mcp-Session-Id", session);
    }
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        MHD_add_response_header(r, "Allow", "POST");
    }
    if (status == MHD_HTTP_UNAUTHORIZED) {
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    }
    done = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, int code, const char *why)
{
    _cleanup_json_ json_t *v = json_pack("{s:s, s:n, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", "error", "code", code, "message",
                                         why);
    _cleanup_free_ char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    return respond(c, status, text, NULL);
}

/* The status for an answer: errors of the stateless era have their own. */
static unsigned status_of(const json_t *message, bool stateless)
{
    json_int_t code = json_integer_value(json_object_get(json_object_get(message, "error"), "code"));
    switch (code) {
    case MCP_RPC_PARSE_ERROR:
    case MCP_RPC_INVALID_REQUEST:
    case MCP_RPC_HEADER_MISMATCH:
    case MCP_RPC_UNSUPPORTED_REVISION:
        return MHD_HTTP_BAD_REQUEST;
    case MCP_RPC_METHOD_NOT_FOUND:
        return stateless ? MHD_HTTP_NOT_FOUND : MHD_HTTP_OK;
    default:
        return MHD_HTTP_OK;
    }
}

/* ---- Suspending */

static int socket_of(const struct exchange *x)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static void suspend(struct exchange *x)
{
    struct epoll_event watch = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = x};
    x->suspended = true;
    if (x->stateless) {
        (void)epoll_ctl(x->http->gone_fd, EPOLL_CTL_ADD, socket_of(x), &watch);
    }
    MHD_suspend_connection(x->connection);
}

static void resume(struct exchange *x)
{
    if (x->suspended) {
        x->suspended = false;
        if (x->stateless) {
            (void)epoll_ctl(x->http->gone_fd, EPOLL_CTL_DEL, socket_of(x), NULL);
        }
        MHD_resume_connection(x->connection);
    }
}

static void client_gone(struct exchange *x)
{
    struct mcp_call *call = mcp_call_of_peer(x->http->server, &x->peer);
    if (call) {
        mcp_call_cancel(call);
    }
    x->status = x->status ? x->status : MHD_HTTP_SERVICE_UNAVAILABLE; /* nobody reads it: the library finds the end */
    x->streamed = true;
    resume(x);
}

static void look_for_gone(struct mcp_http *h)
{
    struct epoll_event events[16];
    int n = epoll_wait(h->gone_fd, events, BX_ARRAY_SIZE(events), 0);
    for (int i = 0; i < n; i++) {
        client_gone(events[i].data.ptr);
    }
}

/* ---- Event streams */

static ssize_t read_events(void *data, uint64_t at, char *buf, size_t max)
{
    struct exchange *x = data;
    size_t n = x->answer ? strlen(x->answer) - x->sent : 0;

    (void)at;
    if (n == 0) {
        if (x->streamed) {
            return MHD_CONTENT_READER_END_OF_STREAM;
        }
        suspend(x);
        return 0;
    }
    n = n < max ? n : max;
    memcpy(buf, x->answer + x->sent, n);
    x->sent += n;
    return (ssize_t)n;
}

static enum MHD_Result respond_events(struct exchange *x)
{
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, read_events, x, NULL);
    enum MHD_Result done;

    if (!r) {
        return MHD_NO;
    }
    MHD_add_response_header(r, "Content-Type", "text/event-stream");
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    done = MHD_queue_response(x->connection, MHD_HTTP_OK, r);
    MHD_destroy_response(r);
    return done;
}

static void add_event(struct exchange *x, const json_t *message)
{
    _cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);
    char *all = text ? mcp_printf("%sevent: message\ndata: %s\n\n", x->answer ? x->answer + x->sent : "", text) : NULL;

    if (all) {
        free(x->answer);
        x->answer = all;
        x->sent = 0;
    }
}

void mcp_http_send(void *data, const struct mcp_peer *peer, const json_t *message)
{
    struct mcp_http *h = data;
    struct exchange *x = h->first;
    bool last = !json_object_get(message, "method");

    while (x && x->peer.number != peer->number) {
        x = x->next;
    }
    if (!x || x->status != 0 || (!last && !x->takes_events)) {
        return; /* the client has gone, or takes no notifications */
    }
    x->streaming |= !last;
    if (x->streaming) {
        add_event(x, message);
        x->streamed = last;
    } else {
        x->answer = json_dumps(message, JSON_COMPACT);
    }
    if (last) {
        x->status = !x->answer ? MHD_HTTP_INTERNAL_SERVER_ERROR : x->streaming ? MHD_HTTP_OK : status_of(message, x->stateless);
    }
    resume(x);
}

/* ---- What may come in */

/* NULL: it may; else why not, with the status. */
static const char *forbidden(const struct mcp_http *h, struct MHD_Connection *c, const char *url, const char *method,
                             unsigned *status)
{
    const char *origin = header(c, "Origin"), *type = header(c, "Content-Type"), *version = header(c, "MCP-Protocol-Version");

    *status = MHD_HTTP_FORBIDDEN;
    if (h->loopback && !mcp_http_host_good(header(c, "Host"))) {
        return "Host is not loopback";
    }
    if (origin && !mcp_http_origin_good(origin)) {
        return "Origin is not loopback";
    }
    *status = MHD_HTTP_UNAUTHORIZED;
    if (h->token && !mcp_http_token_good(header(c, "Authorization"), h->token)) {
        return "a bearer token is needed";
    }
    *status = MHD_HTTP_NOT_FOUND;
    if (strcmp(url, "/mcp") != 0 && strcmp(url, "/") != 0) {
        return "the endpoint is /mcp";
    }
    *status = MHD_HTTP_METHOD_NOT_ALLOWED;
    if (strcmp(method, "POST") != 0) {
        return "only POST";
    }
    *status = MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    if (!type || strncasecmp(type, "application/json", 16) != 0) {
        return "Content-Type is not application/json";
    }
    *status = MHD_HTTP_BAD_REQUEST;
    if (version && !mcp_revision_known(version) && !header(c, "Mcp-Method")) {
        return "MCP-Protocol-Version is not one that is spoken";
    }
    return NULL;
}

/* A stateless message and its headers say the same (MCP 2026-07-28, "Server Validation"); NULL: they do. */
static const char *mismatch(struct MHD_Connection *c, const struct mcp_message *m)
{
    const char *version = header(c, "MCP-Protocol-Version"), *method = header(c, "Mcp-Method"), *name = header(c, "Mcp-Name");
    const char *wanted = json_string_value(json_object_get(m->params, "name"));

    if (m->kind == MCP_BAD ? m->error != MCP_RPC_UNSUPPORTED_REVISION : m->kind != MCP_REQUEST) {
        return NULL;
    }
    if (!m->revision) {
        return version && strcmp(version, MCP_STATELESS_REVISION) == 0
                   ? "MCP-Protocol-Version names a revision that the body's _meta does not"
                   : NULL;
    }
    if (!version || strcmp(version, m->revision) != 0) {
        return "MCP-Protocol-Version is not what the body's _meta says";
    }
    if (!method || strcmp(method, m->method) != 0) {
        return "Mcp-Method is not the body's method";
    }
    if (strcmp(m->method, "tools/call") == 0 && wanted && (!name || strcmp(name, wanted) != 0)) {
        return "Mcp-Name is not the body's name";
    }
    return NULL;
}

/* ---- Exchanges */

static void serve(struct exchange *x)
{
    struct mcp_message m;
    const char *wrong;

    x->served = true;
    mcp_message_parse(x->too_long ? NULL : x->body ? x->body : "", x->len, &m);
    x->stateless = m.revision != NULL;
    wrong = mismatch(x->connection, &m);
    if (wrong) {
        mcp_server_refuse(x->http->server, &x->peer, m.id, MCP_RPC_HEADER_MISMATCH, wrong, NULL);
    } else {
        x->new_session = m.kind == MCP_REQUEST && !m.revision && strcmp(m.method, "initialize") == 0;
        if (!mcp_server_serve(x->http->server, &x->peer, &m)) {
            x->status = MHD_HTTP_ACCEPTED;
        }
    }
    mcp_message_done(&m);
}

static void take_body(struct exchange *x, const char *data, size_t n)
{
    char *p = x->too_long || x->len + n > MCP_LINE_MAX ? NULL : realloc(x->body, x->len + n + 1);
    if (!p) {
        x->too_long = true;
        return;
    }
    x->body = p;
    memcpy(p + x->len, data, n);
    x->len += n;
}

static struct exchange *exchange_new(struct mcp_http *h, struct MHD_Connection *c)
{
    const char *session = header(c, "Mcp-Session-Id"), *accept = header(c, "Accept");
    struct exchange *x = calloc(1, sizeof(*x));
    unsigned char random[16];

    if (!x || getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        free(x);
        return NULL;
    }
    *x = (struct exchange){.http = h, .connection = c, .next = h->first, .peer = {.number = ++h->serial},
                           .takes_events = accept && strstr(accept, "text/event-stream")};
    if (session) {
        snprintf(x->peer.session, sizeof(x->peer.session), "%s", session);
    } else { /* of its own: nobody else's cancellation can mean it */
        for (size_t i = 0; i < sizeof(random); i++) {
            snprintf(x->peer.session + 2 * i, 3, "%02x", random[i]);
        }
    }
    h->first = x;
    return x;
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct mcp_http *h = data;
    struct exchange *x = *state;
    unsigned status = 0;

    (void)version;
    if (!x) {
        const char *why = forbidden(h, c, url, method, &status);
        if (why && status == MHD_HTTP_METHOD_NOT_ALLOWED && strcmp(method, "DELETE") == 0) {
            return respond(c, MHD_HTTP_OK, NULL, NULL); /* the end of a session: there is nothing to end */
        }
        if (why) {
            return refuse(c, status, MCP_RPC_INVALID_REQUEST, why);
        }
        *state = x = exchange_new(h, c);
        return x ? MHD_YES : MHD_NO;
    }
    if (*upload_size > 0) {
        take_body(x, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    if (!x->served) {
        serve(x);
    }
    if (x->streaming) {
        return respond_events(x);
    }
    if (x->status == 0) {
        suspend(x);
        return MHD_YES;
    }
    return respond(c, x->too_long ? MHD_HTTP_CONTENT_TOO_LARGE : x->status, x->answer,
                   x->new_session ? x->peer.session : NULL);
}

static void on_completed(void *data, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode how)
{
    struct mcp_http *h = data;
    struct exchange *x = *state;

    (void)c;
    (void)how;
    for (struct exchange **p = &h->first; *p; p = &(*p)->next) {
        if (*p == x) {
            *p = x->next;
            free(x->body);
            free(x->answer);
            free(x);
            break;
        }
    }
    *state = NULL;
}

/* ---- The daemon */

static int resolve(const char *host, uint16_t port, struct sockaddr_storage *ret)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    char service[8];

    snprintf(service, sizeof(service), "%u", port);
    if (strcasecmp(host, "localhost") == 0) {
        host = "127.0.0.1";
    }
    if (getaddrinfo(host, service, &hints, &found) != 0) {
        return -1;
    }
    memcpy(ret, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

static int complain(const char *what, const char *value)
{
    fprintf(stderr, "boxlite-mcp-server: --http %s: %s\n", value, what);
    return -EINVAL;
}

int mcp_http_new(const struct mcp_options *options, struct mcp_http **ret)
{
    char host[256];
    uint16_t port;
    struct sockaddr_storage address = {0};
    struct mcp_http *h;
    const union MHD_DaemonInfo *info;

    if (!mcp_http_address(options->http, host, sizeof(host), &port)) {
        return complain("not ADDR:PORT", options->http);
    }
    if (!mcp_http_is_loopback(host) && !options->http_token) {
        return complain("an address that is not loopback needs --http-token (or $BOXLITE_MCP_HTTP_TOKEN)", options->http);
    }
    if (resolve(host, port, &address) < 0) {
        return complain("no such address", options->http);
    }
    h = calloc(1, sizeof(*h));
    if (!h) {
        return -ENOMEM;
    }
    h->token = options->http_token;
    h->loopback = mcp_http_is_loopback(host);
    h->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
                                     (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0),
                                 port, NULL, NULL, on_request, h, MHD_OPTION_SOCK_ADDR, &address,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_CONNECTION_LIMIT, 128u,
                                 MHD_OPTION_CONNECTION_TIMEOUT, 60u, MHD_OPTION_END);
    h->gone_fd = h->daemon ? epoll_create1(EPOLL_CLOEXEC) : -1;
    if (h->gone_fd < 0) {
        int r = errno;
        MHD_stop_daemon(h->daemon);
        free(h);
        return complain(strerror(r), options->http);
    }
    info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    fprintf(stderr, "boxlite-mcp-server: listening on http://%s%s%s:%u/mcp\n", strchr(host, ':') ? "[" : "", host,
            strchr(host, ':') ? "]" : "", info ? info->port : port);
    *ret = h;
    return 0;
}

void mcp_http_attach(struct mcp_http *h, struct mcp_server *s)
{
    h->server = s;
}

void mcp_http_free(struct mcp_http *h)
{
    if (!h) {
        return;
    }
    for (struct exchange *x = h->first; x; x = x->next) { /* the daemon cannot end with suspended ones */
        x->status = x->status ? x->status : MHD_HTTP_SERVICE_UNAVAILABLE;
        x->streamed = true;
        resume(x);
    }
    MHD_stop_daemon(h->daemon);
    close(h->gone_fd);
    free(h);
}

int mcp_http_fd(const struct mcp_http *h)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

int mcp_http_wait_ms(const struct mcp_http *h)
{
    MHD_UNSIGNED_LONG_LONG ms;
    return MHD_get_timeout(h->daemon, &ms) == MHD_YES ? (int)(ms < 60000 ? ms : 60000) : -1;
}

int mcp_http_gone_fd(const struct mcp_http *h)
{
    return h->gone_fd;
}

void mcp_http_run(struct mcp_http *h)
{
    look_for_gone(h);
    (void)MHD_run(h->daemon);
}
