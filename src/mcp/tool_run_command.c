/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_run_command.c: any shell command in an environment, waited for or in the background.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define ENVELOPE 200 /* what a result says beside the outcome */

struct run {
    struct mcp_call *call;
    struct mcp_job *job;
};

static const struct mcp_arg args[] = {
    {"command", MCP_STRING, true, false, "Shell command line, run by /bin/sh -c.", 0, 1 << 17},
    {"working_dir", MCP_STRING, false, false, "Absolute folder to run it in; made if absent. Default: the image's.", 0,
     4096},
    {"environment", MCP_STRING, false, false, "Name of the environment to run it in. Default: \"default\".", 0, 64},
    {"background", MCP_BOOLEAN, false, false,
     "Return at once with running=true and a process name; the command goes on (a server, a long build) and its "
     "standard input stays open for send_input. Default false.", 0, 0},
    {"stdin", MCP_STRING, false, true, "Text for its standard input, up to 8 MiB. Default: empty.", 0, 8 << 20},
    {"env", MCP_STRING_MAP, false, false, "Environment variables of this command.", 0, 0},
    {"timeout_seconds", MCP_INTEGER, false, false,
     "Kill the command and everything it started after so long. Default 120 (in the background 3600), at most 3600.", 1,
     3600},
    {0},
};

static void cancel(struct mcp_call *call)
{
    struct run *run = call->state;
    mcp_job_kill(run->job);
    free(run);
}

static void on_done(void *data, struct mcp_job *job)
{
    struct run *run = data;
    struct mcp_call *call = run->call;
    struct mcp_failure why;
    struct mcp_outcome o;
    char *text;
    json_t *v;

    free(run);
    if (mcp_job_failed(job, &why)) {
        mcp_call_fail_with(call, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    v = mcp_outcome_json(&o, mcp_server_budget(call->server) - ENVELOPE, &text);
    mcp_environment_describe(call, o.environment, v);
    mcp_call_finish(call, v, text, false);
}

static void start(struct mcp_call *call)
{
    const struct mcp_options *o = mcp_server_options(call->server);
    const json_t *input = json_object_get(call->arguments, "stdin");
    bool background = mcp_arg_bool(call, "background");
    const char *argv[] = {"/bin/sh", "-c", mcp_arg_str(call, "command", "")};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .input = json_string_value(input),
        .input_len = json_string_length(input),
        .keep_stdin = background,
        .env = json_object_get(call->arguments, "env"),
        .workdir = mcp_arg_str(call, "working_dir", NULL),
        .timeout_s = mcp_timeout(o, mcp_arg_int(call, "timeout_seconds", background ? o->max_timeout_s : 0)),
        .yield_ms = background ? 1 : mcp_server_yield_ms(call->server),
    };
    struct mcp_environment *env;
    struct run *run;
    int r;

    if (spec.workdir && spec.workdir[0] != '/') {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument working_dir: not an absolute path", NULL);
        return;
    }
    run = calloc(1, sizeof(*run));
    if (!run) {
        mcp_call_fail_error(call, NULL);
        return;
    }
    run->call = call;
    if (!mcp_call_environment(call, &env)) {
        free(run);
        return;
    }
    call->state = run;
    call->cancel = cancel;
    r = mcp_job_start(call->server, env, &spec, on_done, run, &run->job);
    if (r < 0) {
        free(run);
        mcp_call_fail_job(call, r);
    }
}

const struct mcp_tool mcp_tool_run_command = {
    .name = "run_command",
    .title = "Run a shell command in a micro-VM",
    .description =
        "Run a shell command in an isolated Linux micro-VM sandbox (build, test, install, inspect files, start a server "
        "in the background) and get its exit code, stdout and stderr. Files stay in the environment between calls. "
        "Nothing on the user's machine can be read or changed. A non-zero exit code is a normal result. A command that "
        "takes long returns running=true and goes on: follow it with read_output. Long output keeps its beginning, "
        "end and first error lines.",
    .args = args,
    .output_schema = "{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA "," MCP_ENVIRONMENT_SCHEMA "}}",
    .start = start,
};
