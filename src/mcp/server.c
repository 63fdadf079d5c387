/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c: the MCP methods, for both eras: revisions up to 2025-11-25, which begin with initialize, and the stateless
 * 2026-07-28, where each request names its revision. A message's own _meta decides which one it is served by, so both
 * may come over one connection. Nothing slow happens before initialize, server/discover and tools/list are answered:
 * the library is opened by the first tool call. Bad input is answered with a JSON-RPC error and the session goes on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define CACHE_MS 3600000

/* The first line must make a model choose these tools: clients show only about 250 characters of it. */
static const char INSTRUCTIONS[] =
    "Run untrusted code and shell commands in an isolated Linux micro-VM (sandbox) instead of on the user's machine: "
    "execute_code runs Python, JavaScript, Go, C... and tests it; run_command runs any shell command.\n"
    "Files and installed packages stay in an environment between calls until this session ends. The host's files are "
    "not visible inside (but folders that the user allowed), and there is no network unless it was configured: bring files with "
    "write_file. A call that "
    "takes long returns running=true and a process name; follow it with read_output, which also shows what was left "
    "out of a long output. Use create_environment for another image or more memory.";

struct mcp_server {
    struct mcp_options options;
    mcp_send_fn send;
    void *send_data;
    struct mcp_environments *environments;
    boxlite_runtime *runtime;
    struct mcp_calls calls;
    struct mcp_jobs jobs;
    struct mcp_timer *timers;
    char client[64]; /* as it last said its name */
};

const struct mcp_options *mcp_server_options(const struct mcp_server *s)
{
    return &s->options;
}

struct mcp_environments *mcp_server_environments(struct mcp_server *s)
{
    return s->environments;
}

static void log_line(void *data, int level, const char *area, const char *message)
{
    (void)data;
    (void)level;
    fprintf(stderr, "boxlite-mcp-server: %s: %s\n", area, message);
}

boxlite_runtime *mcp_server_runtime(struct mcp_server *s, boxlite_error **err)
{
    if (!s->runtime) {
        boxlite_runtime_options o;
        boxlite_runtime_options_init(&o);
        o.home = s->options.home;
        o.log = log_line;
        o.log_level = s->options.verbose ? BOXLITE_LOG_DEBUG : BOXLITE_LOG_WARN;
        (void)boxlite_runtime_new(&o, &s->runtime, err);
    }
    return s->runtime;
}

int mcp_server_fd(const struct mcp_server *s)
{
    return s->runtime ? boxlite_runtime_fd(s->runtime) : -1;
}

void mcp_server_dispatch(struct mcp_server *s)
{
    if (s->runtime) {
        (void)boxlite_runtime_dispatch(s->runtime, 0, NULL);
    }
    mcp_environments_reap(s->environments);
}

const char *mcp_server_client(const struct mcp_server *s)
{
    return s->client;
}

/* What clients give their model of a result, and how long they wait for one, from measurements (docs/mcp.md). */
static const struct limits {
    const char *client; /* beginning of its name */
    size_t bytes;
    uint32_t yield_s; /* below the time after which it gives up or looks away */
} limits[] = {
    {"claude-code", 40000, 50}, /* its SDK waits 60 s */
    {"codex", 10000, 25},       /* code mode looks away after 30 s */
    {"", 10000, 25},
};

static const struct limits *limits_of(const struct mcp_server *s)
{
    size_t i = 0;
    while (strncmp(s->client, limits[i].client, strlen(limits[i].client)) != 0) {
        i++;
    }
    return &limits[i];
}

size_t mcp_server_budget(const struct mcp_server *s)
{
    size_t max = s->options.max_result;
    return max == 0 ? limits_of(s)->bytes : max < MCP_BUDGET_MIN ? MCP_BUDGET_MIN : max;
}

uint32_t mcp_server_yield_ms(const struct mcp_server *s)
{
    return 1000 * (s->options.yield_s > 0 ? s->options.yield_s : limits_of(s)->yield_s);
}

struct mcp_calls *mcp_server_calls(struct mcp_server *s)
{
    return &s->calls;
}

struct mcp_jobs *mcp_server_jobs(struct mcp_server *s)
{
    return &s->jobs;
}

struct mcp_timer **mcp_server_timers(struct mcp_server *s)
{
    return &s->timers;
}

/* ---- Answers */

static void send_message(struct mcp_server *s, const struct mcp_peer *peer, json_t *take_message)
{
    _cleanup_json_ json_t *message = take_message;
    if (message) {
        s->send(s->send_data, peer, message);
    }
}

static json_t *server_info(void)
{
    return json_pack("{s:s, s:s, s:s}", "name", "boxlite", "title", "BoxLite micro-VM sandbox", "version",
                     boxlite_version());
}

void mcp_server_answer(struct mcp_server *s, const struct mcp_peer *peer, const json_t *id, bool stateless,
                       json_t *take_result)
{
    if (stateless && take_result) {
        json_object_set_new(take_result, "resultType", json_string("complete"));
        json_object_set_new(take_result, "_meta",
                            json_pack("{s:o}", "io.modelcontextprotocol/serverInfo", server_info()));
    }
    send_message(s, peer, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", take_result));
}

void mcp_server_notify(struct mcp_server *s, const struct mcp_peer *peer, const char *method, json_t *take_params)
{
    send_message(s, peer, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", take_params));
}

void mcp_server_refuse(struct mcp_server *s, const struct mcp_peer *peer, const json_t *id, int code,
                       const char *message, json_t *take_data)
{
    _cleanup_json_ json_t *null_id = json_null();
    send_message(s, peer, json_pack("{s:s, s:O, s:{s:i, s:s, s:o*}}", "jsonrpc", "2.0", "id", id ? id : null_id, "error",
                              "code", code, "message", message, "data", take_data));
}

/* ---- Methods */

static void remember_client(struct mcp_server *s, const char *name)
{
    if (name) {
        snprintf(s->client, sizeof(s->client), "%s", name);
    }
}

static json_t *revisions(void)
{
    json_t *list = json_array();
    for (size_t i = 0; mcp_revisions[i]; i++) {
        json_array_append_new(list, json_string(mcp_revisions[i]));
    }
    return list;
}

static void on_initialize(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m)
{
    const char *asked = json_string_value(json_object_get(m->params, "protocolVersion"));
    bool legacy = mcp_revision_known(asked) && strcmp(asked, MCP_STATELESS_REVISION) != 0;

    remember_client(s, json_string_value(json_object_get(json_object_get(m->params, "clientInfo"), "name")));
    mcp_server_answer(s, peer, m->id, false,
                      json_pack("{s:s, s:{s:{s:b}}, s:o, s:s}", "protocolVersion", legacy ? asked : MCP_LATEST_REVISION,
                                "capabilities", "tools", "listChanged", 0, "serverInfo", server_info(),
                                "instructions", INSTRUCTIONS));
}

/* What a list or description may be cached for: it changes with the options, that is, never in this process. */
static json_t *cacheable(json_t *take_result)
{
    if (take_result) {
        json_object_set_new(take_result, "ttlMs", json_integer(CACHE_MS));
        json_object_set_new(take_result, "cacheScope", json_string("private"));
    }
    return take_result;
}

static void on_discover(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m)
{
    mcp_server_answer(s, peer, m->id, true,
                      cacheable(json_pack("{s:o, s:{s:{s:b}}, s:s}", "supportedVersions", revisions(), "capabilities",
                                          "tools", "listChanged", 0, "instructions", INSTRUCTIONS)));
}

static void on_ping(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m)
{
    mcp_server_answer(s, peer, m->id, false, json_object());
}

static void on_tools_list(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m)
{
    json_t *result = json_pack("{s:o}", "tools", mcp_tools_list(&s->options));
    mcp_server_answer(s, peer, m->id, m->revision != NULL, m->revision ? cacheable(result) : result);
}

static void on_cancelled(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m)
{
    struct mcp_call *call = mcp_call_find(s, peer, json_object_get(m->params, "requestId"));
    if (call) {
        mcp_call_cancel(call);
    }
}

/* In which era a method exists. */
enum { LEGACY = 1, STATELESS = 2, BOTH = 3 };
static const struct {
    const char *name;
    enum mcp_kind kind;
    int eras;
    void (*fn)(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m);
} methods[] = {
    {"initialize", MCP_REQUEST, LEGACY, on_initialize},
    {"server/discover", MCP_REQUEST, BOTH, on_discover},
    {"ping", MCP_REQUEST, LEGACY, on_ping},
    {"tools/list", MCP_REQUEST, BOTH, on_tools_list},
    {"tools/call", MCP_REQUEST, BOTH, mcp_call_begin},
    {"notifications/cancelled", MCP_NOTIFICATION, BOTH, on_cancelled},
};

static void serve(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m)
{
    int era = m->revision ? STATELESS : LEGACY;

    remember_client(s, m->client);
    for (size_t i = 0; i < BX_ARRAY_SIZE(methods); i++) {
        if (strcmp(methods[i].name, m->method) == 0 && methods[i].kind == m->kind && (methods[i].eras & era)) {
            methods[i].fn(s, peer, m);
            return;
        }
    }
    if (m->kind == MCP_REQUEST) {
        mcp_server_refuse(s, peer, m->id, MCP_RPC_METHOD_NOT_FOUND, "method not found", NULL);
    }
}

bool mcp_server_serve(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m)
{
    if (m->kind == MCP_BAD) {
        json_t *details = m->error == MCP_RPC_UNSUPPORTED_REVISION
                              ? json_pack("{s:o, s:s}", "supported", revisions(), "requested", m->revision)
                              : NULL;
        mcp_server_refuse(s, peer, m->id, m->error, m->why, details);
    } else if (m->kind != MCP_ANSWER) {
        serve(s, peer, m);
    }
    return m->kind == MCP_BAD || m->kind == MCP_REQUEST;
}

bool mcp_server_receive(struct mcp_server *s, const struct mcp_peer *peer, const char *line, size_t len)
{
    struct mcp_message m;
    bool answered;

    mcp_message_parse(line, len, &m);
    answered = mcp_server_serve(s, peer, &m);
    mcp_message_done(&m);
    return answered;
}

int mcp_server_new(const struct mcp_options *options, mcp_send_fn send, void *data, struct mcp_server **ret)
{
    struct mcp_server *s = calloc(1, sizeof(*s));
    if (!s) {
        return -ENOMEM;
    }
    s->options = *options;
    s->send = send;
    s->send_data = data;
    s->environments = mcp_environments_new(s);
    if (!s->environments) {
        mcp_server_free(s);
        return -ENOMEM;
    }
    *ret = s;
    return 0;
}

void mcp_server_free(struct mcp_server *s)
{
    if (!s) {
        return;
    }
    while (s->calls.first) {
        mcp_call_cancel(s->calls.first);
    }
    mcp_jobs_free(s);
    mcp_environments_free(s->environments);
    boxlite_runtime_free(s->runtime);
    free(s);
}
