/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c: JSON-RPC 2.0 and the MCP methods (revisions 2025-06-18 and 2025-11-25). Nothing slow happens before
 * initialize and tools/list are answered: the library is opened by the first tool call.
 *
 * A tools/call becomes a struct mcp_call in the server's list. It is answered once: by its tool, or, when
 * notifications/cancelled names it, never (MCP, "Cancellation"). Bad input is answered with a JSON-RPC error and the
 * session goes on; bad arguments of a tool are answered as results with isError, which a model can read and mend.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define RPC_PARSE_ERROR (-32700)
#define RPC_INVALID_REQUEST (-32600)
#define RPC_METHOD_NOT_FOUND (-32601)
#define RPC_INVALID_PARAMS (-32602)

#define LATEST_REVISION "2025-11-25"

/* The first line must make a model choose these tools: clients show only about 250 characters of it. */
static const char INSTRUCTIONS[] =
    "Run untrusted code and shell commands in an isolated Linux micro-VM (sandbox) instead of on the user's machine: "
    "execute_code runs Python, JavaScript, bash and tests it; run_command runs any shell command.\n"
    "Files and installed packages stay in an environment between calls until this session ends. The host's files are "
    "not visible inside, and there is no network unless it was configured. Use create_environment for another image "
    "or more memory.";

struct mcp_server {
    struct mcp_options options;
    struct mcp_transport *transport;
    struct mcp_environments *environments;
    boxlite_runtime *runtime;
    struct mcp_call *calls;
    unsigned ncalls;
};

struct mcp_transport *mcp_server_transport(struct mcp_server *s)
{
    return s->transport;
}

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

/* ---- Answers */

static void send_message(struct mcp_server *s, json_t *take_message)
{
    _cleanup_json_ json_t *message = take_message;
    if (message) {
        (void)mcp_transport_send(s->transport, message);
    }
}

static void answer(struct mcp_server *s, const json_t *id, json_t *take_result)
{
    send_message(s, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", take_result));
}

static void answer_error(struct mcp_server *s, const json_t *id, int code, const char *message)
{
    _cleanup_json_ json_t *null_id = json_null();
    send_message(s, json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id ? id : null_id, "error",
                              "code", code, "message", message));
}

/* ---- Calls */

static void call_unlink(struct mcp_call *call)
{
    struct mcp_server *s = call->server;
    for (struct mcp_call **p = &s->calls; *p; p = &(*p)->next) {
        if (*p == call) {
            *p = call->next;
            s->ncalls--;
            return;
        }
    }
}

static void call_free(struct mcp_call *call)
{
    call_unlink(call);
    json_decref(call->id);
    json_decref(call->arguments);
    free(call);
}

void mcp_call_finish(struct mcp_call *call, json_t *take_structured, char *take_text, bool is_error)
{
    _cleanup_free_ char *text = take_text;
    json_t *result = json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text",
                               text ? text : "out of memory", "isError", is_error);
    if (result && take_structured) {
        json_object_set_new(result, "structuredContent", take_structured);
    } else {
        json_decref(take_structured);
    }
    answer(call->server, call->id, result);
    call_free(call);
}

void mcp_call_fail(struct mcp_call *call, int code, const char *message, const char *hint)
{
    json_t *v = json_pack("{s:s, s:s}", "error", message, "code", boxlite_error_name(code));
    if (v && hint) {
        json_object_set_new(v, "hint", json_string(hint));
    }
    mcp_call_finish(call, v, mcp_printf("error: %s%s%s", message, hint ? "\nhint: " : "", hint ? hint : ""),
                    true);
}

void mcp_call_fail_error(struct mcp_call *call, const boxlite_error *err)
{
    if (!err) {
        mcp_call_fail(call, BOXLITE_E_NO_MEMORY, "out of memory", NULL);
        return;
    }
    mcp_call_fail(call, boxlite_error_code(err), boxlite_error_message(err), boxlite_error_hint(err));
}

const char *mcp_arg_str(const struct mcp_call *call, const char *name, const char *fallback)
{
    const char *v = json_string_value(json_object_get(call->arguments, name));
    return v ? v : fallback;
}

int64_t mcp_arg_int(const struct mcp_call *call, const char *name, int64_t fallback)
{
    const json_t *v = json_object_get(call->arguments, name);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : fallback;
}

static struct mcp_call *find_call(struct mcp_server *s, const json_t *id)
{
    struct mcp_call *call = s->calls;
    while (call && !json_equal(call->id, id)) {
        call = call->next;
    }
    return call;
}

static void cancel_call(struct mcp_call *call)
{
    if (call->cancel) {
        call->cancel(call);
    }
    call_free(call);
}

/* ---- Methods */

static void on_initialize(struct mcp_server *s, const json_t *id, const json_t *params)
{
    static const char *const known[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
    const char *asked = json_string_value(json_object_get(params, "protocolVersion"));
    const char *revision = LATEST_REVISION;

    for (size_t i = 0; asked && i < BX_ARRAY_SIZE(known); i++) {
        if (strcmp(asked, known[i]) == 0) {
            revision = known[i];
        }
    }
    answer(s, id,
           json_pack("{s:s, s:{s:{s:b}}, s:{s:s, s:s, s:s}, s:s}", "protocolVersion", revision, "capabilities",
                     "tools", "listChanged", 0, "serverInfo", "name", "boxlite", "title", "BoxLite micro-VM sandbox",
                     "version", boxlite_version(), "instructions", INSTRUCTIONS));
}

static void on_ping(struct mcp_server *s, const json_t *id, const json_t *params)
{
    (void)params;
    answer(s, id, json_object());
}

static void on_tools_list(struct mcp_server *s, const json_t *id, const json_t *params)
{
    (void)params;
    answer(s, id, json_pack("{s:o}", "tools", mcp_tools_list(&s->options)));
}

static struct mcp_call *call_new(struct mcp_server *s, const json_t *id, const struct mcp_tool *tool,
                                 const json_t *arguments)
{
    struct mcp_call *call = calloc(1, sizeof(*call));
    if (!call) {
        return NULL;
    }
    *call = (struct mcp_call){
        .server = s,
        .tool = tool,
        .id = json_deep_copy(id),
        .arguments = arguments ? json_deep_copy(arguments) : json_object(),
        .started_ns = mcp_now_ns(),
        .next = s->calls,
    };
    s->calls = call;
    s->ncalls++;
    return call;
}

static void on_tools_call(struct mcp_server *s, const json_t *id, const json_t *params)
{
    const char *name = json_string_value(json_object_get(params, "name"));
    const json_t *arguments = json_object_get(params, "arguments");
    const struct mcp_tool *tool = name ? mcp_tool_find(name) : NULL;
    _cleanup_free_ char *wrong = NULL;
    struct mcp_call *call;

    if (!tool) {
        answer_error(s, id, RPC_INVALID_PARAMS, "unknown tool");
        return;
    }
    if (find_call(s, id)) {
        answer_error(s, id, RPC_INVALID_REQUEST, "a request with this id is still running");
        return;
    }
    call = call_new(s, id, tool, json_is_null(arguments) ? NULL : arguments);
    if (!call) {
        answer_error(s, id, -32603, "out of memory");
        return;
    }
    wrong = mcp_tool_check(tool, call->arguments);
    if (wrong) {
        mcp_call_fail(call, BOXLITE_E_INVALID, wrong, "see the tool's input schema");
    } else if (s->ncalls > MCP_CALLS_MAX) {
        mcp_call_fail(call, BOXLITE_E_BUSY, "too many calls run at once",
                      "wait for one of them to end, or cancel it");
    } else {
        tool->start(call);
    }
}

static void on_cancelled(struct mcp_server *s, const json_t *id, const json_t *params)
{
    struct mcp_call *call = find_call(s, json_object_get(params, "requestId"));
    (void)id;
    if (call) {
        cancel_call(call);
    }
}

static const struct {
    const char *name;
    bool request;
    void (*fn)(struct mcp_server *s, const json_t *id, const json_t *params);
} methods[] = {
    {"initialize", true, on_initialize},
    {"ping", true, on_ping},
    {"tools/list", true, on_tools_list},
    {"tools/call", true, on_tools_call},
    {"notifications/cancelled", false, on_cancelled},
};

static void handle_message(struct mcp_server *s, const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    const char *method = json_string_value(json_object_get(message, "method"));
    const char *version = json_string_value(json_object_get(message, "jsonrpc"));
    const json_t *params = json_object_get(message, "params");
    bool id_good = json_is_string(id) || json_is_integer(id) || json_is_real(id);

    if (!json_is_object(message) || !version || strcmp(version, "2.0") != 0 || (id && !id_good) ||
        (params && !json_is_object(params) && !json_is_array(params))) {
        answer_error(s, id_good ? id : NULL, RPC_INVALID_REQUEST, "not a JSON-RPC 2.0 request");
        return;
    }
    if (!method) { /* an answer: we ask nothing, so it is a stray one */
        if (!json_object_get(message, "result") && !json_object_get(message, "error")) {
            answer_error(s, id, RPC_INVALID_REQUEST, "no method");
        }
        return;
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(methods); i++) {
        if (strcmp(methods[i].name, method) == 0 && methods[i].request == (id != NULL)) {
            methods[i].fn(s, id, params);
            return;
        }
    }
    if (id) {
        answer_error(s, id, RPC_METHOD_NOT_FOUND, "method not found");
    }
}

/* jansson bounds nesting at 2048 by itself; a message has no reason to come near. */
static bool too_deep(const char *p, size_t len)
{
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (in_string) {
            if (p[i] == '\\') {
                i++;
            } else if (p[i] == '"') {
                in_string = false;
            }
            continue;
        }
        in_string = p[i] == '"';
        depth += p[i] == '{' || p[i] == '[';
        depth -= (p[i] == '}' || p[i] == ']') && depth > 0;
        if (depth > MCP_DEPTH_MAX) {
            return true;
        }
    }
    return false;
}

static void on_line(void *data, const char *line, size_t len)
{
    struct mcp_server *s = data;
    json_error_t where;
    _cleanup_json_ json_t *message = NULL;

    if (!line) {
        answer_error(s, NULL, RPC_INVALID_REQUEST, "a message is larger than 16 MiB");
        return;
    }
    if (too_deep(line, len)) {
        answer_error(s, NULL, RPC_PARSE_ERROR, "nested too deeply");
        return;
    }
    message = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
    if (!message) {
        answer_error(s, NULL, RPC_PARSE_ERROR, "not valid JSON");
        return;
    }
    handle_message(s, message);
}

int mcp_server_new(const struct mcp_options *options, int in_fd, int out_fd, struct mcp_server **ret)
{
    struct mcp_server *s = calloc(1, sizeof(*s));
    if (!s) {
        return -ENOMEM;
    }
    s->options = *options;
    s->environments = mcp_environments_new(s);
    if (!s->environments || mcp_transport_new(in_fd, out_fd, on_line, s, &s->transport) < 0) {
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
    while (s->calls) {
        cancel_call(s->calls);
    }
    mcp_environments_free(s->environments);
    boxlite_runtime_free(s->runtime);
    mcp_transport_free(s->transport);
    free(s);
}
