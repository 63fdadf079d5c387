/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_list_environments.c: which environments there are, how old, how large and how busy. Starts nothing.
 */
#include <stdlib.h>

#include "mcp/mcp.h"

static const struct mcp_arg args[] = {{0}};

static void start(struct mcp_call *call)
{
    json_t *list = mcp_environments_json(mcp_server_environments(call->server));
    json_t *v = json_pack("{s:o, s:i}", "environments", list, "limit", (int)mcp_server_options(call->server)->max_environments);
    char *text = v ? json_dumps(list, JSON_INDENT(1)) : NULL;
    mcp_call_finish(call, v, text, false);
}

const struct mcp_tool mcp_tool_list_environments = {
    .name = "list_environments",
    .title = "List micro-VM environments",
    .description = "List the micro-VM environments (sandboxes) of this session with image, state, size, age, what they cost "
                   "in memory and disk, and running commands.",
    .args = args,
    .output_schema =
        "{\"type\":\"object\",\"properties\":{\"environments\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
        "\"properties\":{\"environment\":{\"type\":\"string\"},\"image\":{\"type\":\"string\"},\"state\":{\"type\":"
        "\"string\"},\"network\":{\"type\":\"string\"},\"cpus\":{\"type\":\"integer\"},\"memory_mb\":{\"type\":"
        "\"integer\"},\"age_seconds\":{\"type\":\"integer\"},\"idle_seconds\":{\"type\":\"integer\"},"
        "\"running_commands\":{\"type\":\"integer\"},\"memory_used_mb\":{\"type\":\"integer\",\"description\":\"of the host, now\"},"
        "\"disk_used_mb\":{\"type\":\"integer\"},\"workspace\":{\"type\":\"string\"}}}},\"limit\":{\"type\":\"integer\",\"description\":\"most "
        "environments at once\"}}}",
    .read_only = true,
    .idempotent = true,
    .start = start,
};
