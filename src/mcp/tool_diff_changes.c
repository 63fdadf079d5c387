/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_diff_changes.c: what an environment has changed in its workspace, as a list and as a unified diff. Changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

static const struct mcp_arg args[] = {
    {"environment", MCP_STRING, false, false, "Name of the environment. Default: \"default\".", 0,
     64},
    {"paths", MCP_STRING_LIST, false, false,
     "Only these files and folders, relative to the workspace. Default: all.", 0, 0},
    {"max_bytes", MCP_INTEGER, false, false,
     "Most bytes of diff to show, 0 to 1048576. Default: what fits a result.", 0, 1 << 20},
    {0},
};

static void run(struct mcp_call *call, struct mcp_environment *env)
{
    size_t max =
        (size_t)mcp_arg_int(call, "max_bytes", (int64_t)mcp_server_budget(call->server) / 2);
    _cleanup_error_ boxlite_error *err = NULL;
    boxlite_change_options *o = NULL;
    boxlite_changes *c = NULL;
    const char *text = "";
    json_t *v;
    char *shown;
    bool bad = false;
    int r = mcp_changes_options(call, &o, &err);

    r = r < 0 ? r : boxlite_box_diff(mcp_environment_box(env), o, &c, &err);
    r = r < 0 || max == 0 ? r : boxlite_changes_text(c, max, &text, &err);
    boxlite_change_options_free(o);
    shown = r < 0 ? NULL : malloc(3 * strlen(text) + 1);
    if (r < 0 || !shown) {
        boxlite_changes_free(c);
        mcp_call_fail_error(call, err);
        return;
    }
    shown[mcp_utf8_clean(shown, text, strlen(text), &bad)] = '\0';
    v = mcp_changes_json(c);
    json_object_set_new(v, "diff", json_string(shown));
    json_object_set_new(v, "environment", json_string(mcp_environment_name(env)));
    boxlite_changes_free(c);
    mcp_strip_controls(shown);
    mcp_call_finish(call, v, *shown ? shown : strdup("no changes"), false);
    if (!*shown) {
        free(shown);
    }
}

static void start(struct mcp_call *call)
{
    mcp_changes_start(call, run);
}

const struct mcp_tool mcp_tool_diff_changes = {
    .name = "diff_changes",
    .title = "Show what a micro-VM changed in its workspace",
    .description =
        "Show what commands in a sandbox environment changed in its workspace (the copy of a host folder that "
        "create_environment was given): the changed files and a unified diff. The user's own files are as they were "
        "until apply_changes.",
    .args = args,
    .output_schema = "{\"type\":\"object\",\"properties\":{" MCP_CHANGES_SCHEMA
                     ",\"diff\":{\"type\":\"string\"}}}",
    .read_only = true,
    .idempotent = true,
    .start = start,
};
