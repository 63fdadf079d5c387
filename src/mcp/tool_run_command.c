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
    bool base64;
    json_t *images; /* pictures that the command names */
    char *mark;     /* a file as old as the command, if there are any */
    json_t *result;
    char *text;
};

static const struct mcp_arg args[] = {
    {"command", MCP_STRING, true, false, "Shell command line, run by /bin/sh -c.", 0, 1 << 17},
    {"working_dir", MCP_STRING, false, false, "Absolute folder to run it in; made if absent. Default: the environment's workspace, else the image's.", 0,
     4096},
    {"environment", MCP_STRING, false, false, "Name of the environment to run it in. Default: \"default\".", 0, 64},
    {"background", MCP_BOOLEAN, false, false,
     "Return at once with running=true and a process name; the command goes on (a server, a long build) and its "
     "standard input stays open for send_input. Default false.", 0, 0},
    {"stdin", MCP_STRING, false, true, "Text for its standard input, up to 8 MiB. Default: empty.", 0, 8 << 20},
    {"encoding", MCP_STRING, false, false, "How stdout and stderr are given: \"text\" (default) or \"base64\" (exact bytes).", 0, 8},
    {"env", MCP_STRING_MAP, false, false, "Environment variables of this command.", 0, 0},
    {"timeout_seconds", MCP_INTEGER, false, false,
     "Kill the command and everything it started after so long. Default 120 (in the background 3600), at most 3600.", 1,
     3600},
    {0},
};

static void run_free(struct run *run)
{
    json_decref(run->images);
    json_decref(run->result);
    free(run->mark);
    free(run->text);
    free(run);
}

static void cancel(struct mcp_call *call)
{
    struct run *run = call->state;
    mcp_job_kill(run->job);
    run_free(run);
}

static void finish(struct run *run, json_t *take_images)
{
    struct mcp_call *call = run->call;
    json_t *result = steal_ptr(&run->result);
    char *text = steal_ptr(&run->text);

    run_free(run);
    mcp_call_finish_more(call, result, text, take_images);
}

static void on_images(void *data, struct mcp_job *job)
{
    struct run *run = data;
    finish(run, mcp_images_take(job, run->result));
}

static void start_images(struct run *run, const struct mcp_outcome *o)
{
    struct mcp_environment *env = mcp_environment_find(mcp_server_environments(run->call->server), o->environment);
    struct mcp_images wanted = {.names = run->images, .mark = run->mark, .remove_mark = true,
                                .workdir = mcp_arg_str(run->call, "working_dir", env ? mcp_environment_workspace(env) : NULL)};

    run->job = NULL;
    if (!run->mark || o->running || !env || mcp_environment_generation(env) != o->generation ||
        mcp_images_start(run->call->server, env, &wanted, on_images, run, &run->job) < 0) {
        finish(run, NULL);
    }
}

static void on_done(void *data, struct mcp_job *job)
{
    struct run *run = data;
    struct mcp_failure why;
    struct mcp_outcome o;

    if (mcp_job_failed(job, &why)) {
        struct mcp_call *call = run->call;
        run_free(run);
        mcp_call_fail_with(call, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    o.base64 = run->base64;
    run->result = mcp_outcome_json(&o, mcp_server_budget(run->call->server) - ENVELOPE, &run->text);
    mcp_environment_describe(run->call, o.environment, run->result);
    start_images(run, &o);
}

/* NULL: answered. */
static struct run *run_new(struct mcp_call *call, bool background)
{
    struct run *run = calloc(1, sizeof(*run));

    if (!run || !(run->images = json_array())) {
        free(run);
        mcp_call_fail_error(call, NULL);
        return NULL;
    }
    run->call = call;
    if (!mcp_call_encoding(call, &run->base64)) {
        run_free(run);
        return NULL;
    }
    mcp_images_named(run->images, mcp_arg_str(call, "command", ""));
    if (!background && json_array_size(run->images) > 0) {
        run->mark = mcp_printf("/tmp/.boxlite-%llu", (unsigned long long)call->started_ns);
    }
    return run;
}

static void start(struct mcp_call *call)
{
    const struct mcp_options *o = mcp_server_options(call->server);
    const json_t *input = json_object_get(call->arguments, "stdin");
    bool background = mcp_arg_bool(call, "background");
    const char *argv[] = {"/bin/sh", "-c", mcp_arg_str(call, "command", "")};
    struct mcp_file mark = {.data = ""};
    struct mcp_job_spec spec = {
        .files = &mark,
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .input = json_string_value(input),
        .input_len = json_string_length(input),
        .keep_stdin = background,
        .env = json_object_get(call->arguments, "env"),
        .workdir = mcp_arg_str(call, "working_dir", NULL),
        .timeout_s = mcp_timeout(o, mcp_arg_int(call, "timeout_seconds", background ? o->max_timeout_s : 0)),
        .yield_ms = background ? 1 : mcp_call_yield_ms(call),
    };
    struct mcp_environment *env;
    struct run *run;
    int r;

    if (spec.workdir && spec.workdir[0] != '/') {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument working_dir: not an absolute path", NULL);
        return;
    }
    run = run_new(call, background);
    if (!run) {
        return;
    }
    if (!mcp_call_environment(call, &env)) {
        run_free(run);
        return;
    }
    spec.workdir = spec.workdir ? spec.workdir : mcp_environment_workspace(env);
    mark.path = run->mark;
    spec.nfiles = run->mark ? 1 : 0;
    call->state = run;
    call->cancel = cancel;
    r = mcp_job_start(call->server, env, &spec, on_done, run, &run->job);
    if (r < 0) {
        run_free(run);
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
    .output_schema = "{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA "," MCP_ENVIRONMENT_SCHEMA "," MCP_IMAGES_SCHEMA "}}",
    .start = start,
};
