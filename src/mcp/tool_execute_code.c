/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_execute_code.c: code in a language, as a file in the environment, then perhaps a test command beside it. Steps, each
 * a job: the program (program.c), the tests.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/execution.h"

#define ENVELOPE 400 /* what a result says beside the outcomes */

static const struct mcp_arg args[] = {
    {"code", MCP_STRING, true, true, "The program's source text; any size up to 8 MiB. Saved as /workspace/main.EXT.", 0,
     8 << 20},
    {"language", MCP_STRING, true, false,
     "python, javascript, typescript, bash, sh, perl, ruby, php, lua, r, go, rust, c, c++ or java. The base image has "
     "python, bash, sh and perl; for others a local image that has it is used.", 0, 32},
    {"test_command", MCP_STRING, false, false,
     "Shell command run in /workspace after the code, for example \"python3 -m unittest -v\". tests_passed tells "
     "whether code and tests both exited with 0.", 0, 1 << 17},
    {"environment", MCP_STRING, false, false, "Name of the environment to run it in. Default: \"default\".", 0, 64},
    {"files", MCP_STRING_MAP, false, true,
     "Further files to write first, name to text content, below /workspace: at most 64.", 0, 0},
    {"stdin", MCP_STRING, false, true, "Text for the program's standard input. Default: empty.", 0, 8 << 20},
    {"fresh", MCP_BOOLEAN, false, false,
     "Run in a clean new environment that is removed after the call. Default false.", 0, 0},
    {"timeout_seconds", MCP_INTEGER, false, false,
     "Kill the code (and, counted anew, the tests) and all they started after so long. Default 120, at most 3600.", 1,
     3600},
    {0},
};

struct mcp_environment *mcp_execution_environment(const struct mcp_execution *x)
{
    return mcp_environment_find(mcp_server_environments(x->server), x->env_name);
}

void mcp_execution_free(struct mcp_execution *x)
{
    struct mcp_environment *env = mcp_execution_environment(x);
    mcp_environment_release_slot(env, x);
    if (env && x->fresh) {
        mcp_environment_drop(env);
    }
    json_decref(x->result);
    free(x->env_name);
    free(x->text);
    free(x->file);
    free(x);
}

static void cancel(struct mcp_call *call)
{
    struct mcp_execution *x = call->state;
    mcp_job_kill(x->job);
    mcp_execution_free(x);
}

static void finish(struct mcp_execution *x)
{
    struct mcp_call *call = x->call;
    json_t *result = steal_ptr(&x->result);
    char *text = steal_ptr(&x->text);

    json_object_set_new(result, "total_ms", json_integer((json_int_t)((mcp_now_ns() - call->started_ns) / 1000000)));
    mcp_execution_free(x);
    mcp_call_finish(call, result, text, false);
}

void mcp_execution_fail(struct mcp_execution *x, const struct mcp_failure *why)
{
    struct mcp_call *call = x->call;
    mcp_call_fail_with(call, why); /* first: it may speak of what is freed then */
    mcp_execution_free(x);
}

/* Starts the next step; its answer is given if that cannot be. */
void mcp_execution_step(struct mcp_execution *x, struct mcp_job_spec *spec, mcp_job_fn fn)
{
    struct mcp_environment *env = mcp_execution_environment(x);
    struct mcp_call *call = x->call;
    int r;

    spec->timeout_s = mcp_timeout(mcp_server_options(call->server), mcp_arg_int(call, "timeout_seconds", 0));
    x->job = NULL;
    r = env ? mcp_job_start(call->server, env, spec, fn, x, &x->job) : BOXLITE_E_NOT_FOUND;
    if (r < 0) {
        mcp_execution_free(x);
        mcp_call_fail_job(call, r);
    }
}

/* ---- The tests */

static void on_tested(void *data, struct mcp_job *job)
{
    struct mcp_execution *x = data;
    size_t budget = (mcp_server_budget(x->server) - ENVELOPE) / 2;
    _cleanup_free_ char *code_text = steal_ptr(&x->text), *test_text = NULL;
    struct mcp_failure why;
    struct mcp_outcome o;

    if (mcp_job_failed(job, &why)) {
        mcp_execution_fail(x, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    json_object_set_new(x->result, "tests", mcp_outcome_json(&o, budget, &test_text));
    if (!o.running) {
        bool passed = o.result.exit_code == 0 &&
                      json_integer_value(json_object_get(x->result, "exit_code")) == 0;
        json_object_set_new(x->result, "tests_passed", json_boolean(passed));
    }
    x->text = mcp_printf("%s\n--- tests\n%s", code_text, test_text);
    x->fresh = x->fresh && !o.running;
    finish(x);
}

static void start_tests(struct mcp_execution *x, const char *command)
{
    static const char IN_WORKSPACE[] = "cd /workspace 2>/dev/null && [ -w . ] || cd /tmp; eval \"$1\"";
    const char *argv[] = {"/bin/sh", "-c", IN_WORKSPACE, "sh", command};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .yield_ms = mcp_server_yield_ms(x->server),
    };
    mcp_execution_step(x, &spec, on_tested);
}

/* ---- The code */

static void on_end(void *data, struct mcp_job *job)
{
    struct mcp_execution *x = data;
    const char *command = mcp_arg_str(x->call, "test_command", NULL);
    size_t budget = mcp_server_budget(x->server) - ENVELOPE;
    struct mcp_outcome o;

    mcp_job_outcome(job, &o);
    x->result = mcp_outcome_json(&o, command ? budget / 2 : budget, &x->text);
    x->fresh = x->fresh && !o.running;
    json_object_set_new(x->result, "language", json_string(x->language->names[0]));
    json_object_set_new(x->result, "file", json_string(x->file));
    mcp_environment_describe(x->call, x->env_name, x->result);
    if (!command) {
        finish(x);
    } else if (o.running) {
        json_object_set_new(x->result, "tests_note",
                            json_string("test_command was not run: the code still runs; when it has ended, run it with "
                                        "run_command"));
        finish(x);
    } else {
        start_tests(x, command);
    }
}

/* ---- The call */

/* The environment by its name, made if fresh; NULL: answered. */
static struct mcp_environment *choose(struct mcp_call *call, bool fresh)
{
    struct mcp_environment_spec spec = {.network = -1};
    struct mcp_environment *env = NULL;
    struct mcp_failure why;

    if (!fresh) {
        return mcp_call_environment(call, &env) ? env : NULL;
    }
    if (mcp_arg_str(call, "environment", NULL)) {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument fresh: not together with environment", "leave one of them out");
        return NULL;
    }
    if (mcp_environment_add(mcp_server_environments(call->server), &spec, &env, &why) < 0) {
        mcp_call_fail_with(call, &why);
        return NULL;
    }
    return env;
}

static void start(struct mcp_call *call)
{
    const struct mcp_language *language = mcp_language_find(mcp_arg_str(call, "language", ""));
    struct mcp_environment *env;
    struct mcp_execution *x;

    if (!language) {
        _cleanup_free_ char *names = mcp_language_names();
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument language: not one that this server knows", names);
        return;
    }
    if (json_object_size(json_object_get(call->arguments, "files")) > MCP_EXECUTION_FILES_MAX) {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument files: more than 64", "write more of them with write_file");
        return;
    }
    env = choose(call, mcp_arg_bool(call, "fresh"));
    if (!env) {
        return;
    }
    x = calloc(1, sizeof(*x));
    if (!x || !(x->env_name = strdup(mcp_environment_name(env)))) {
        free(x);
        mcp_call_fail_error(call, NULL);
        return;
    }
    x->server = call->server;
    x->call = call;
    x->language = language;
    x->on_end = on_end;
    x->fresh = mcp_arg_bool(call, "fresh");
    call->state = x;
    call->cancel = cancel;
    mcp_program_start(x);
}

const struct mcp_tool mcp_tool_execute_code = {
    .name = "execute_code",
    .title = "Execute code in a micro-VM",
    .description =
        "Execute a program (Python, JavaScript, TypeScript, bash, Go, Rust, C, C++, Java, ...) in an isolated Linux "
        "micro-VM sandbox and get its exit code, stdout and stderr; optionally run a test command after it and learn "
        "whether it passed. Use it to run, try and test untrusted or generated code safely: nothing on the user's "
        "machine can be read or changed. Files stay in the environment between calls. A non-zero exit code is a normal "
        "result. Code that takes long returns running=true and goes on: follow it with read_output. Long output keeps "
        "its beginning, end and first error lines.",
    .args = args,
    .output_schema =
        "{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA "," MCP_ENVIRONMENT_SCHEMA
        ",\"language\":{\"type\":\"string\"},\"file\":{\"type\":\"string\",\"description\":\"where the code was "
        "saved, in /workspace\"},\"total_ms\":{\"type\":\"integer\"},\"tests_passed\":{\"type\":\"boolean\"},"
        "\"tests_note\":{\"type\":\"string\"},\"tests\":{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA
        "}}}}",
    .start = start,
};
