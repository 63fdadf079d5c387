/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_write_file.c: a file into an environment, exactly its bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

struct writing {
    struct mcp_call *call;
    struct mcp_job *job;
    size_t len;
};

static const struct mcp_arg args[] = {
    {"path", MCP_STRING, true, false,
     "File to write; a relative name is below /workspace. Missing folders are made, an existing file is replaced.", 0,
     4096},
    {"content", MCP_STRING, true, true, "What to write: text, or base64 if encoding says so; up to 8 MiB.", 0, 8 << 20},
    {"encoding", MCP_STRING, false, false, "\"text\" (default) or \"base64\" (exact bytes).", 0, 8},
    {"append", MCP_BOOLEAN, false, false, "Add to the end of the file instead of replacing it. Default false.", 0, 0},
    {"environment", MCP_STRING, false, false, "Name of the environment. Default: \"default\".", 0, 64},
    {0},
};

static void cancel(struct mcp_call *call)
{
    struct writing *w = call->state;
    mcp_job_kill(w->job);
    free(w);
}

static void on_done(void *data, struct mcp_job *job)
{
    struct writing w = *(struct writing *)data;
    const char *path = mcp_arg_str(w.call, "path", "");
    struct mcp_failure why;
    struct mcp_outcome o;
    struct mcp_shown shown;
    json_t *v;

    free(data);
    if (mcp_job_failed(job, &why)) {
        mcp_call_fail_with(w.call, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    if (o.result.exit_code != 0) {
        _cleanup_free_ char *text = mcp_capture_text(o.err, 1000, &shown);
        mcp_call_fail(w.call, BOXLITE_E_IO, text && text[0] ? text : "the file could not be written",
                      "the image needs a shell and base64");
        return;
    }
    v = json_pack("{s:s, s:I}", "path", path, "bytes", (json_int_t)w.len);
    mcp_environment_describe(w.call, o.environment, v);
    mcp_call_finish(w.call, v, mcp_printf("wrote %zu bytes to %s", w.len, path), false);
}

/* Decodes the content; false: answered. */
static bool content_of(struct mcp_call *call, char **ret, size_t *ret_len)
{
    const json_t *content = json_object_get(call->arguments, "content");
    bool base64;

    if (!mcp_call_encoding(call, &base64)) {
        return false;
    }
    if (base64) {
        if (mcp_base64_decode(json_string_value(content), ret, ret_len) == 0) {
            return true;
        }
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument content: not base64", "send it as text, or encode it again");
        return false;
    }
    *ret_len = json_string_length(content);
    *ret = malloc(*ret_len + 1);
    if (!*ret) {
        mcp_call_fail_error(call, NULL);
        return false;
    }
    memcpy(*ret, json_string_value(content), *ret_len);
    return true;
}

static void start(struct mcp_call *call)
{
    struct mcp_file file = {.path = mcp_arg_str(call, "path", ""), .append = mcp_arg_bool(call, "append")};
    const char *argv[] = {"/bin/sh", "-s"};
    struct mcp_job_spec spec = {
        .argv = argv, .argc = BX_ARRAY_SIZE(argv), .timeout_s = mcp_server_options(call->server)->timeout_s};
    _cleanup_free_ char *data = NULL, *script = NULL;
    struct mcp_environment *env;
    struct writing *w;
    int r;

    if (file.path[0] == '\0') {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument path: empty", NULL);
        return;
    }
    if (!content_of(call, &data, &file.len) || !mcp_call_environment(call, &env)) {
        return;
    }
    file.data = data;
    script = mcp_put_script(&file, 1);
    w = calloc(1, sizeof(*w));
    if (!script || !w) {
        free(w);
        mcp_call_fail_error(call, NULL);
        return;
    }
    *w = (struct writing){.call = call, .len = file.len};
    spec.input = script;
    spec.input_len = strlen(script);
    call->state = w;
    call->cancel = cancel;
    r = mcp_job_start(call->server, env, &spec, on_done, w, &w->job);
    if (r < 0) {
        free(w);
        mcp_call_fail_job(call, r);
    }
}

const struct mcp_tool mcp_tool_write_file = {
    .name = "write_file",
    .title = "Write a file in a micro-VM",
    .description = "Write a file into a sandbox environment, text or base64 with exact bytes; replaces or appends. "
                   "Nothing on the user's machine is changed.",
    .args = args,
    .output_schema = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"bytes\":{\"type\":"
                     "\"integer\"}," MCP_ENVIRONMENT_SCHEMA "}}",
    .start = start,
};
