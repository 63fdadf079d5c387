/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_run_command.c: any shell command in an environment.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

struct run {
    struct mcp_call *call;
    struct mcp_environment *env;
    struct mcp_job *job;
};

static const struct mcp_arg args[] = {
    {"command", MCP_STRING, true, "Shell command line, run by /bin/sh -c.", 0, 1 << 17},
    {"working_dir", MCP_STRING, false, "Absolute folder to run it in; made if absent. Default: the image's.", 0, 4096},
    {"environment", MCP_STRING, false, "Name of the environment to run it in. Default: \"default\".", 0, 64},
    {"timeout_seconds", MCP_INTEGER, false,
     "Kill the command and everything it started after so long. Default 120, at most 3600.", 1, 3600},
    {0},
};

static void run_free(struct run *run)
{
    mcp_job_free(run->job);
    free(run);
}

static void cancel(struct mcp_call *call)
{
    run_free(call->state);
}

static void on_done(void *data, const struct mcp_outcome *outcome, const boxlite_error *err)
{
    struct run *run = data;
    struct mcp_call *call = run->call;
    json_t *v;

    if (!outcome) {
        mcp_call_fail_error(call, err);
        run_free(run);
        return;
    }
    v = mcp_outcome_json(outcome);
    mcp_environment_describe(run->env, call->started_ns, v);
    mcp_call_finish(call, v, mcp_outcome_text(outcome), false);
    run_free(run);
}

static void start(struct mcp_call *call)
{
    const struct mcp_options *o = mcp_server_options(call->server);
    const char *argv[] = {"/bin/sh", "-c", mcp_arg_str(call, "command", "")};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .workdir = mcp_arg_str(call, "working_dir", NULL),
        .timeout_s = mcp_timeout(o, mcp_arg_int(call, "timeout_seconds", 0)),
    };
    struct run *run;

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
    if (!mcp_call_environment(call, &run->env)) {
        free(run);
        return;
    }
    call->state = run;
    call->cancel = cancel;
    if (mcp_job_start(run->env, &spec, on_done, run, &run->job) < 0) {
        mcp_call_fail_error(call, NULL);
        run_free(run);
    }
}

const struct mcp_tool mcp_tool_run_command = {
    .name = "run_command",
    .title = "Run a shell command in a micro-VM",
    .description =
        "Run a shell command in an isolated Linux micro-VM sandbox (build, test, install, inspect files) and get its "
        "exit code, stdout and stderr. Files stay in the environment between calls. Nothing on the user's machine can "
        "be read or changed. A non-zero exit code is a normal result. Long output keeps its beginning and end.",
    .args = args,
    .output_schema = "{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA
                     ",\"environment\":{\"type\":\"string\"},\"engine\":{\"type\":\"string\"},\"start_ms\":{\"type\":"
                     "\"integer\"},\"restarted\":{\"type\":\"boolean\"},\"error\":{\"type\":\"string\"}}}",
    .start = start,
};
