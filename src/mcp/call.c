/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c: a tools/call from its start to its one answer.
 *
 * It is answered once: by its tool, or, when notifications/cancelled names it, never (MCP, "Cancellation"). Bad
 * arguments and failures are answered as results with isError, which a model can read and mend. What a result says
 * stands twice in it: in structuredContent for programs and as text for those clients that show only text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define PROGRESS_MS 1000

static void call_unlink(struct mcp_call *call)
{
    struct mcp_calls *calls = mcp_server_calls(call->server);
    for (struct mcp_call **p = &calls->first; *p; p = &(*p)->next) {
        if (*p == call) {
            *p = call->next;
            calls->count--;
            return;
        }
    }
}

static void call_free(struct mcp_call *call)
{
    call_unlink(call);
    mcp_timer_cancel(call->server, &call->progress);
    json_decref(call->progress_token);
    json_decref(call->id);
    json_decref(call->arguments);
    free(call);
}

static void finish(struct mcp_call *call, json_t *take_structured, char *take_text, json_t *take_more, bool is_error)
{
    _cleanup_free_ char *text = take_text;
    _cleanup_json_ json_t *more = take_more;
    json_t *result = json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text",
                               text ? text : "out of memory", "isError", is_error);
    mcp_audit(call, take_structured, is_error);
    if (result && more) {
        json_array_extend(json_object_get(result, "content"), more);
    }
    if (result && take_structured) {
        json_object_set_new(result, "structuredContent", take_structured);
    } else {
        json_decref(take_structured);
    }
    mcp_server_answer(call->server, &call->peer, call->id, call->stateless, result);
    call_free(call);
}

void mcp_call_finish(struct mcp_call *call, json_t *take_structured, char *take_text, bool is_error)
{
    finish(call, take_structured, take_text, NULL, is_error);
}

void mcp_call_finish_more(struct mcp_call *call, json_t *take_structured, char *take_text, json_t *take_more)
{
    finish(call, take_structured, take_text, take_more, false);
}

void mcp_call_fail(struct mcp_call *call, int code, const char *message, const char *hint)
{
    json_t *v = json_pack("{s:s, s:s}", "error", message, "code", boxlite_error_name(code));
    if (v && hint) {
        json_object_set_new(v, "hint", json_string(hint));
    }
    finish(call, v, mcp_printf("error: %s%s%s", message, hint ? "\nhint: " : "", hint ? hint : ""), NULL, true);
}

struct mcp_failure mcp_failure_of(const boxlite_error *err)
{
    struct mcp_failure none = {BOXLITE_E_NO_MEMORY, "out of memory", NULL};
    return err ? (struct mcp_failure){boxlite_error_code(err), boxlite_error_message(err), boxlite_error_hint(err)}
               : none;
}

void mcp_call_fail_with(struct mcp_call *call, const struct mcp_failure *why)
{
    mcp_call_fail(call, why->code, why->message, why->hint);
}

void mcp_call_fail_error(struct mcp_call *call, const boxlite_error *err)
{
    struct mcp_failure why = mcp_failure_of(err);
    mcp_call_fail_with(call, &why);
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

bool mcp_arg_bool(const struct mcp_call *call, const char *name)
{
    return json_is_true(json_object_get(call->arguments, name));
}

void mcp_call_in(struct mcp_call *call, const char *environment)
{
    snprintf(call->environment, sizeof(call->environment), "%s", environment);
}

uint32_t mcp_call_yield_ms(const struct mcp_call *call)
{
    uint64_t past = (mcp_now_ns() - call->started_ns) / 1000000, all = mcp_server_yield_ms(call->server);
    return past < all ? (uint32_t)(all - past) : 1;
}

bool mcp_call_encoding(struct mcp_call *call, bool *ret_base64)
{
    const char *encoding = mcp_arg_str(call, "encoding", "text");

    *ret_base64 = strcmp(encoding, "base64") == 0;
    if (*ret_base64 || strcmp(encoding, "text") == 0) {
        return true;
    }
    mcp_call_fail(call, BOXLITE_E_INVALID, "argument encoding: neither \"text\" nor \"base64\"",
                  "text is the default; base64 gives exact bytes");
    return false;
}

struct mcp_call *mcp_call_find(struct mcp_server *s, const struct mcp_peer *peer, const json_t *id)
{
    struct mcp_call *call = mcp_server_calls(s)->first;
    while (call && !(json_equal(call->id, id) && strcmp(call->peer.session, peer->session) == 0)) {
        call = call->next;
    }
    return call;
}

struct mcp_call *mcp_call_of_peer(struct mcp_server *s, const struct mcp_peer *peer)
{
    struct mcp_call *call = mcp_server_calls(s)->first;
    while (call && call->peer.number != peer->number) {
        call = call->next;
    }
    return call;
}

void mcp_call_cancel(struct mcp_call *call)
{
    _cleanup_json_ json_t *note = json_pack("{s:s}", "code", "CANCELLED");
    mcp_audit(call, note, true);
    if (call->cancel) {
        call->cancel(call);
    }
    call_free(call);
}

/* Tells a client that asked for it that the call is alive; the number has to grow, that is all it means. */
static void on_progress(void *data)
{
    struct mcp_call *call = data;
    unsigned seconds = (unsigned)((mcp_now_ns() - call->started_ns) / UINT64_C(1000000000));
    const struct mcp_environment *env =
        mcp_environment_find(mcp_server_environments(call->server), call->environment);
    const char *doing = env ? mcp_environment_doing(env) : NULL;
    _cleanup_free_ char *message = mcp_printf("%s: %u s%s%s", call->tool->name, seconds, doing ? ": " : "", doing ? doing : "");

    mcp_server_notify(call->server, &call->peer, "notifications/progress",
                      json_pack("{s:O, s:i, s:s}", "progressToken", call->progress_token, "progress",
                                (int)++call->ticks, "message", message ? message : call->tool->name));
    mcp_timer_arm(call->server, &call->progress, PROGRESS_MS, on_progress, call);
}

static struct mcp_call *call_new(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m,
                                 const struct mcp_tool *tool)
{
    const json_t *arguments = json_object_get(m->params, "arguments");
    struct mcp_calls *calls = mcp_server_calls(s);
    struct mcp_call *call = calloc(1, sizeof(*call));
    if (!call) {
        return NULL;
    }
    *call = (struct mcp_call){
        .server = s,
        .tool = tool,
        .peer = *peer,
        .id = json_incref(m->id),
        .stateless = m->revision != NULL,
        .arguments = arguments && !json_is_null(arguments) ? json_deep_copy(arguments) : json_object(),
        .started_ns = mcp_now_ns(),
        .next = calls->first,
        .progress_token = json_incref(m->progress_token),
    };
    calls->first = call;
    calls->count++;
    return call;
}

void mcp_call_begin(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m)
{
    const char *name = json_string_value(json_object_get(m->params, "name"));
    const struct mcp_tool *tool = name ? mcp_tool_find(name) : NULL;
    _cleanup_free_ char *wrong = NULL;
    struct mcp_call *call;

    if (!tool) {
        mcp_server_refuse(s, peer, m->id, MCP_RPC_INVALID_PARAMS, "unknown tool", NULL);
        return;
    }
    if (mcp_call_find(s, peer, m->id)) {
        mcp_server_refuse(s, peer, m->id, MCP_RPC_INVALID_REQUEST, "a request with this id is still running", NULL);
        return;
    }
    call = call_new(s, peer, m, tool);
    if (!call) {
        mcp_server_refuse(s, peer, m->id, MCP_RPC_INTERNAL, "out of memory", NULL);
        return;
    }
    wrong = mcp_tool_check(tool, call->arguments);
    if (wrong) {
        mcp_call_fail(call, BOXLITE_E_INVALID, wrong, "see the tool's input schema");
    } else if (mcp_server_calls(s)->count > MCP_CALLS_MAX) {
        mcp_call_fail(call, BOXLITE_E_BUSY, "too many calls run at once",
                      "wait for one of them to end, or cancel it");
    } else {
        if (call->progress_token) {
            mcp_timer_arm(s, &call->progress, PROGRESS_MS, on_progress, call);
        }
        tool->start(call);
    }
}
