/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_apply_changes.c: the changes of a workspace to the host's folder: the one tool that writes to the user's files. Only
 * where --allow-folder lets the folder be written.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

static const struct mcp_arg args[] = {
    {"environment", MCP_STRING, false, false, "Name of the environment. Default: \"default\".", 0,
     64},
    {"paths", MCP_STRING_LIST, false, false,
     "Only these files and folders, relative to the workspace. Default: all.", 0, 0},
    {"allow", MCP_STRING_LIST, false, false,
     "Lets held-back changes through, when the user agrees: names of rules or changed paths, as \"allow\" of a change says.",
     0, 0},
    {"merge", MCP_BOOLEAN, false, false,
     "Merge files that the user changed meanwhile as text. Default false.", 0, 0},
    {"dry_run", MCP_BOOLEAN, false, false, "Do all but writing. Default false.", 0, 0},
    {0},
};

static char *say(const json_t *v)
{
    const char *status = json_string_value(json_object_get(v, "status"));
    _cleanup_free_ char *list = json_dumps(json_object_get(v, "changes"), JSON_INDENT(1));
    return mcp_printf(
        "%s\n%s%s", status ? status : "", list ? list : "",
        status && strcmp(status, "conflict") == 0
            ? "\nnothing was written: the user changed some of these files; merge=true joins what does not meet"
            : "");
}

static void run(struct mcp_call *call, struct mcp_environment *env)
{
    _cleanup_error_ boxlite_error *err = NULL;
    boxlite_change_options *o = NULL;
    boxlite_changes *c = NULL;
    json_t *v;
    int r = mcp_changes_options(call, &o, &err);

    r = r < 0 ? r : boxlite_box_apply(mcp_environment_box(env), o, &c, &err);
    boxlite_change_options_free(o);
    if (r < 0) {
        mcp_call_fail_error(call, err);
        return;
    }
    v = mcp_changes_json(c);
    json_object_set_new(v, "environment", json_string(mcp_environment_name(env)));
    r = boxlite_changes_status(c);
    boxlite_changes_free(c);
    mcp_call_finish(call, v, say(v), r == BOXLITE_CHANGES_CONFLICT || r == BOXLITE_CHANGES_HELD);
}

static void start(struct mcp_call *call)
{
    const char *name = mcp_arg_str(call, "environment", MCP_DEFAULT_ENVIRONMENT);
    const struct mcp_environment *env =
        mcp_environment_find(mcp_server_environments(call->server), name);
    const char *workspace = env ? mcp_environment_workspace(env) : NULL;
    _cleanup_free_ char *why = NULL, *real = NULL;

    if (workspace && !mcp_arg_bool(call, "dry_run")) {
        real = mcp_folder_allow(mcp_server_options(call->server), workspace, true, &why);
        if (!real) {
            mcp_call_fail(
                call, BOXLITE_E_DENIED, why ? why : "out of memory",
                "show the user the diff; the user of this machine can change the rule, or run: boxlite apply");
            return;
        }
    }
    mcp_changes_start(call, run);
}

const struct mcp_tool mcp_tool_apply_changes = {
    .name = "apply_changes",
    .title = "Apply a micro-VM's changes to the user's folder",
    .description =
        "Write what commands changed in an environment's workspace to the user's own folder: all of it or nothing. "
        "Risky changes (git hooks, CI, secrets, links that lead outside ...) are held back until allowed; files that "
        "the user changed meanwhile are a conflict. Look at diff_changes and run the tests first.",
    .args = args,
    .output_schema = "{\"type\":\"object\",\"properties\":{" MCP_CHANGES_SCHEMA "}}",
    .destructive = true,
    .start = start,
};
