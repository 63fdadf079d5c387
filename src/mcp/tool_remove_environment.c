/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_remove_environment.c: ends an environment with all that runs and lies in it. The default one may be removed as
 * well: it is made anew when it is next used.
 */
#include "mcp/mcp.h"

static const struct mcp_arg args[] = {
    {"environment", MCP_STRING, true, false, "Name of the environment to remove.", 0, 64},
    {0},
};

static void start(struct mcp_call *call)
{
    const char *name = mcp_arg_str(call, "environment", "");
    struct mcp_environment *env = mcp_environment_find(mcp_server_environments(call->server), name);

    if (!env) {
        _cleanup_free_ char *message = mcp_printf("there is no environment named %s", name);
        mcp_call_fail(call, BOXLITE_E_NOT_FOUND, message ? message : "no such environment",
                      "list_environments shows those that there are");
        return;
    }
    mcp_environment_drop(env);
    mcp_call_finish(call, json_pack("{s:s, s:b}", "environment", name, "removed", 1),
                    mcp_printf("environment %s was removed", name), false);
}

const struct mcp_tool mcp_tool_remove_environment = {
    .name = "remove_environment",
    .title = "Remove a micro-VM environment",
    .description = "Remove a micro-VM environment (sandbox): its commands are killed and its files are deleted. Use it "
                   "to start from a clean state or to free memory.",
    .args = args,
    .output_schema = "{\"type\":\"object\",\"properties\":{\"environment\":{\"type\":\"string\"},\"removed\":{\"type\":"
                     "\"boolean\"},\"error\":{\"type\":\"string\"},\"code\":{\"type\":\"string\"},\"hint\":{\"type\":"
                     "\"string\"}}}",
    .start = start,
};
