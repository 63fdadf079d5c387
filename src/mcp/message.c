/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.c: one line of input to one struct mcp_message, a pure function: no state, no output, every input is allowed.
 *
 * What cannot be served is a message too: its kind says that it is to be answered with an error, or not at all. The era
 * is decided here, for each message by itself (MCP 2026-07-28, "Versioning"): one whose params._meta carries
 * "io.modelcontextprotocol/protocolVersion" is stateless, all others belong to the initialize era.
 */
#include <string.h>

#include "mcp/mcp.h"

#define META "io.modelcontextprotocol/"

const char *const mcp_revisions[] = {MCP_STATELESS_REVISION, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", NULL};

bool mcp_revision_known(const char *revision)
{
    for (size_t i = 0; revision && mcp_revisions[i]; i++) {
        if (strcmp(mcp_revisions[i], revision) == 0) {
            return true;
        }
    }
    return false;
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

static void refuse(struct mcp_message *m, int code, const char *why)
{
    m->kind = MCP_BAD;
    m->error = code;
    m->why = why;
}

/* An identifier or token: a string or a number. NULL for anything else. */
static json_t *name_of(json_t *v)
{
    return json_is_string(v) || json_is_integer(v) || json_is_real(v) ? v : NULL;
}

static void read_meta(struct mcp_message *m)
{
    const json_t *meta = json_object_get(m->params, "_meta");
    const json_t *version = json_object_get(meta, META "protocolVersion");

    m->progress_token = name_of(json_object_get(meta, "progressToken"));
    m->client = json_string_value(json_object_get(json_object_get(meta, META "clientInfo"), "name"));
    m->revision = json_string_value(version);
    if (!version || m->kind != MCP_REQUEST) {
        return;
    }
    if (!m->revision) {
        refuse(m, MCP_RPC_INVALID_PARAMS, "_meta: " META "protocolVersion is not a string");
    } else if (strcmp(m->revision, MCP_STATELESS_REVISION) != 0) {
        refuse(m, MCP_RPC_UNSUPPORTED_REVISION, "unsupported protocol version");
    } else if (!json_is_object(json_object_get(meta, META "clientCapabilities"))) {
        refuse(m, MCP_RPC_INVALID_PARAMS, "_meta: " META "clientCapabilities is missing");
    }
}

static void classify(struct mcp_message *m)
{
    json_t *id = json_object_get(m->json, "id");
    const char *version = json_string_value(json_object_get(m->json, "jsonrpc"));
    json_t *params = json_object_get(m->json, "params");

    m->id = name_of(id);
    m->method = json_string_value(json_object_get(m->json, "method"));
    if (!json_is_object(m->json) || !version || strcmp(version, "2.0") != 0 || (id && !m->id) ||
        (params && !json_is_object(params) && !json_is_array(params))) {
        refuse(m, MCP_RPC_INVALID_REQUEST, "not a JSON-RPC 2.0 request");
        return;
    }
    m->params = params;
    if (m->method) {
        m->kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
        read_meta(m);
    } else if (json_object_get(m->json, "result") || json_object_get(m->json, "error")) {
        m->kind = MCP_ANSWER;
    } else {
        refuse(m, MCP_RPC_INVALID_REQUEST, "no method");
    }
}

void mcp_message_parse(const char *line, size_t len, struct mcp_message *ret)
{
    json_error_t where;

    *ret = (struct mcp_message){0};
    if (!line) {
        refuse(ret, MCP_RPC_INVALID_REQUEST, "a message is larger than 16 MiB");
        return;
    }
    if (too_deep(line, len)) {
        refuse(ret, MCP_RPC_PARSE_ERROR, "nested too deeply");
        return;
    }
    ret->json = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
    if (!ret->json) {
        refuse(ret, MCP_RPC_PARSE_ERROR, "not valid JSON");
        return;
    }
    classify(ret);
}

void mcp_message_done(struct mcp_message *m)
{
    json_decref(m->json);
    *m = (struct mcp_message){0};
}
