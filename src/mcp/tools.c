/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools.c: the tools as a table, their list for the client, and the check of a call's arguments against it. Clients
 * check nothing and drop most schema words, so limits stand in descriptions and are enforced here. Annotations are
 * honest: an environment without network cannot reach anything outside its VM, with network it is an open world, and what
 * runs in one that may have writable host folders may destroy what is in them.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mcp/mcp.h"

static const struct mcp_tool *const tools[] = {
    &mcp_tool_execute_code,
    &mcp_tool_run_command,
    &mcp_tool_create_environment,
    &mcp_tool_list_environments,
    &mcp_tool_remove_environment,
    &mcp_tool_read_output,
    &mcp_tool_send_input,
    &mcp_tool_read_file,
    &mcp_tool_write_file,
    &mcp_tool_diff_changes,
    &mcp_tool_apply_changes,
};

static const char *const type_names[] = {
    [MCP_STRING] = "string",
    [MCP_INTEGER] = "integer",
    [MCP_BOOLEAN] = "boolean",
    [MCP_STRING_LIST] = "array",
    [MCP_STRING_MAP] = "object",
};

uint64_t mcp_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

char *mcp_printf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0) {
        s = NULL;
    }
    va_end(ap);
    return s;
}

uint32_t mcp_timeout(const struct mcp_options *o, int64_t asked)
{
    int64_t v = asked > 0 ? asked : o->timeout_s;
    return (uint32_t)(v < o->max_timeout_s ? v : o->max_timeout_s);
}

const struct mcp_tool *mcp_tool_find(const char *name)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(tools); i++) {
        if (strcmp(tools[i]->name, name) == 0) {
            return tools[i];
        }
    }
    return NULL;
}

static json_t *argument_schema(const struct mcp_arg *arg, const struct mcp_options *o)
{
    _cleanup_free_ char *names = strcmp(arg->name, "language") == 0 ? mcp_languages_names(o->languages) : NULL;
    _cleanup_free_ char *text = mcp_printf("%s%s%s", names ? names : "", names ? ". " : "", arg->description);
    json_t *v = text ? json_pack("{s:s, s:s}", "type", type_names[arg->type], "description", text) : NULL;
    if (v && arg->type == MCP_STRING_LIST) {
        json_object_set_new(v, "items", json_pack("{s:s}", "type", "string"));
    }
    if (v && arg->type == MCP_STRING_MAP) {
        json_object_set_new(v, "additionalProperties", json_pack("{s:s}", "type", "string"));
    }
    return v;
}

static json_t *input_schema(const struct mcp_tool *tool, const struct mcp_options *o)
{
    json_t *properties = json_object(), *required = json_array();
    for (const struct mcp_arg *arg = tool->args; arg->name; arg++) {
        json_object_set_new(properties, arg->name, argument_schema(arg, o));
        if (arg->required) {
            json_array_append_new(required, json_string(arg->name));
        }
    }
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required", required,
                     "additionalProperties", 0);
}

static json_t *tool_json(const struct mcp_tool *tool, const struct mcp_options *o)
{
    /* create_environment gives no more network than that, but the image that it names may be pulled: from where the user
     * has said, if not only from the one registry that all share. */
    bool pulls = tool == &mcp_tool_create_environment && strcmp(o->allow_pull, MCP_ALLOW_PULL) != 0 && strcmp(o->allow_pull, "none") != 0;
    bool open_world = o->network != BOXLITE_NETWORK_NONE || pulls;
    bool destructive = tool->destructive || (!tool->read_only && mcp_folders_writable(o));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:s, s:b, s:b, s:b, s:b}}", "name", tool->name, "title",
                     tool->title, "description", tool->description, "inputSchema", input_schema(tool, o),
                     "outputSchema", json_loads(tool->output_schema, 0, NULL), "annotations", "title", tool->title,
                     "readOnlyHint", tool->read_only, "destructiveHint", destructive, "idempotentHint", tool->idempotent, "openWorldHint",
                     open_world);
}

json_t *mcp_tools_list(const struct mcp_options *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < BX_ARRAY_SIZE(tools); i++) {
        json_array_append_new(list, tool_json(tools[i], o));
    }
    return list;
}

static const struct mcp_arg *find_arg(const struct mcp_tool *tool, const char *name)
{
    for (const struct mcp_arg *arg = tool->args; arg->name; arg++) {
        if (strcmp(arg->name, name) == 0) {
            return arg;
        }
    }
    return NULL;
}

static char *unknown(const struct mcp_tool *tool, const char *key)
{
    const char *names[32] = {NULL}, *near;
    size_t n = 0;
    for (const struct mcp_arg *arg = tool->args; arg->name && n + 1 < BX_ARRAY_SIZE(names); arg++) {
        names[n++] = arg->name;
    }
    near = mcp_nearest(key, names);
    return mcp_printf("argument %.100s: %s has none of that name%s%s%s", key, tool->name, near ? " (did you mean " : "",
                      near ? near : "", near ? "?)" : "");
}

static bool all_strings(const json_t *v)
{
    size_t i;
    const char *key;
    json_t *item;
    if (json_is_array(v)) {
        json_array_foreach(v, i, item)
        {
            if (!json_is_string(item)) {
                return false;
            }
        }
        return true;
    }
    json_object_foreach((json_t *)v, key, item)
    {
        if (!json_is_string(item)) {
            return false;
        }
    }
    return json_is_object(v);
}

/* What is wrong with one value, or NULL. */
static char *check_value(const struct mcp_arg *arg, const json_t *v)
{
    switch (arg->type) {
    case MCP_STRING:
        if (!json_is_string(v)) {
            return mcp_printf("argument %s: not a string", arg->name);
        }
        if (arg->max > 0 && json_string_length(v) > (size_t)arg->max) {
            return mcp_printf("argument %s: longer than %" PRId64 " bytes", arg->name, arg->max);
        }
        return NULL;
    case MCP_INTEGER:
        if (!json_is_integer(v) || json_integer_value(v) < arg->min || json_integer_value(v) > arg->max) {
            return mcp_printf("argument %s: not an integer from %" PRId64 " to %" PRId64, arg->name, arg->min,
                              arg->max);
        }
        return NULL;
    case MCP_BOOLEAN:
        return json_is_boolean(v) ? NULL : mcp_printf("argument %s: neither true nor false", arg->name);
    case MCP_STRING_LIST:
    case MCP_STRING_MAP:
    default:
        if (json_is_array(v) != (arg->type == MCP_STRING_LIST) || !all_strings(v)) {
            return mcp_printf("argument %s: not an %s of strings", arg->name, type_names[arg->type]);
        }
        return NULL;
    }
}

/* NUL cannot be passed to a program in a name or an argument; code and input may hold it. */
static bool holds_nul(const json_t *v)
{
    return json_is_string(v) && strlen(json_string_value(v)) != json_string_length(v);
}

char *mcp_tool_check(const struct mcp_tool *tool, const json_t *arguments)
{
    const char *key;
    json_t *v;

    if (!json_is_object(arguments)) {
        return mcp_printf("arguments: not an object");
    }
    json_object_foreach((json_t *)arguments, key, v)
    {
        const struct mcp_arg *arg = find_arg(tool, key);
        char *wrong;
        if (!arg) {
            return unknown(tool, key);
        }
        if (json_is_null(v) && !arg->required) {
            continue;
        }
        wrong = check_value(arg, v);
        if (wrong) {
            return wrong;
        }
        if (holds_nul(v) && !arg->nul_allowed) {
            return mcp_printf("argument %s: holds a NUL character", key);
        }
    }
    for (const struct mcp_arg *arg = tool->args; arg->name; arg++) {
        v = json_object_get(arguments, arg->name);
        if (arg->required && (!v || json_is_null(v))) {
            return mcp_printf("argument %s: missing", arg->name);
        }
    }
    return NULL;
}
