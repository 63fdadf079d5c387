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
     "The base image has python, bash, sh and perl; for others an image that has it is used.", 0, 32},
    {"test_command", MCP_STRING, false, false,
     "Shell command run in /workspace after the code, for example \"python3 -m unittest -v\". tests_passed tells "
     "whether code and tests both exited with 0.", 0, 1 << 17},
    {"environment", MCP_STRING, false, false, "Name of the environment to run it in. Default: \"default\".", 0, 64},
    {"files", MCP_STRING_MAP, false, true,
     "Further files to write first, name to text content, below /workspace: at most 64.", 0, 0},
    {"stdin", MCP_STRING, false, true, "Text for the program's standard input. Default: empty.", 0, 8 << 20},
    {"fresh", MCP_BOOLEAN, false, false,
     "Run in a clean new environment that is removed after the call. Default false.", 0, 0},
    {"encoding", MCP_STRING, false, false, "How stdout and stderr are given: \"text\" (default) or \"base64\" (exact bytes).", 0, 8},
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
    json_decref(x->images);
    json_decref(x->env);
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

static void finish(struct mcp_execution *x, json_t *take_images)
{
    struct mcp_call *call = x->call;
    json_t *result = steal_ptr(&x->result);
    char *text = steal_ptr(&x->text);

    json_object_set_new(result, "total_ms", json_integer((json_int_t)((mcp_now_ns() - call->started_ns) / 1000000)));
    mcp_execution_free(x);
    mcp_call_finish_more(call, result, text, take_images);
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

/* ---- Pictures: the last step */

static void on_images(void *data, struct mcp_job *job)
{
    struct mcp_execution *x = data;
    finish(x, mcp_images_take(job, x->result));
}

static void start_images(struct mcp_execution *x)
{
    struct mcp_environment *env = mcp_execution_environment(x);
    struct mcp_images wanted = {.names = x->images, .mark = x->file, .workdir = MCP_WORKSPACE};

    x->job = NULL;
    if (json_array_size(x->images) == 0 || !env ||
        mcp_images_start(x->server, env, &wanted, on_images, x, &x->job) < 0) {
        finish(x, NULL);
    }
}

/* ---- The tests */

static const char IN_WORKSPACE[] = "cd " MCP_WORKSPACE " 2>/dev/null && [ -w . ] || cd /tmp; eval \"$1\"";

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
    o.base64 = x->base64;
    json_object_set_new(x->result, "tests", mcp_outcome_json(&o, budget, &test_text));
    x->text = mcp_printf("%s\n--- tests\n%s", code_text, test_text);
    if (o.running) {
        x->fresh = false;
        finish(x, NULL);
        return;
    }
    json_object_set_new(x->result, "tests_passed", json_boolean(o.tests_passed));
    start_images(x);
}

static struct mcp_job_spec test_spec(const char *const argv[5])
{
    return (struct mcp_job_spec){.argv = argv, .argc = 5, .is_test = true};
}

static void start_tests(struct mcp_execution *x, const char *command)
{
    const char *argv[5] = {"/bin/sh", "-c", IN_WORKSPACE, "sh", command};
    struct mcp_job_spec spec = test_spec(argv);

    spec.code_good = json_integer_value(json_object_get(x->result, "exit_code")) == 0;
    spec.yield_ms = mcp_call_yield_ms(x->call);
    mcp_execution_step(x, &spec, on_tested);
}

/* The code goes on: the tests wait for its end, and nobody for them. */
static void queue_tests(struct mcp_execution *x, struct mcp_job *code, const char *command)
{
    const char *argv[5] = {"/bin/sh", "-c", IN_WORKSPACE, "sh", command};
    struct mcp_job_spec spec = test_spec(argv);
    struct mcp_environment *env = mcp_execution_environment(x);
    struct mcp_job *tests = NULL;
    struct mcp_outcome o;
    _cleanup_free_ char *note = NULL;

    spec.after = code;
    spec.timeout_s = mcp_timeout(mcp_server_options(x->server), mcp_arg_int(x->call, "timeout_seconds", 0));
    if (!env || mcp_job_start(x->server, env, &spec, NULL, NULL, &tests) < 0) {
        json_object_set_new(x->result, "tests_note",
                            json_string("test_command will not run: too many commands run; use run_command later"));
        return;
    }
    mcp_job_outcome(tests, &o);
    note = mcp_printf("test_command runs when the code has ended: read_output process=\"%s\" waits for it and tells "
                      "tests_passed", o.name);
    json_object_set_new(x->result, "tests_process", json_string(o.name));
    json_object_set_new(x->result, "tests_note", json_string(note ? note : ""));
}

/* ---- The code */

static void on_end(void *data, struct mcp_job *job)
{
    struct mcp_execution *x = data;
    const char *command = mcp_arg_str(x->call, "test_command", NULL);
    size_t budget = mcp_server_budget(x->server) - ENVELOPE;
    struct mcp_outcome o;

    mcp_job_outcome(job, &o);
    o.base64 = x->base64;
    x->result = mcp_outcome_json(&o, command ? budget / 2 : budget, &x->text);
    x->fresh = x->fresh && !o.running;
    json_object_set_new(x->result, "language", json_string(x->language->names[0]));
    json_object_set_new(x->result, "file", json_string(x->file));
    mcp_environment_describe(x->call, x->env_name, x->result);
    if (o.running) {
        if (command) {
            queue_tests(x, job, command);
        }
        finish(x, NULL);
    } else if (command) {
        start_tests(x, command);
    } else {
        start_images(x);
    }
}

/* Which pictures to look for, by what code, files and tests say. */
static void look_for_images(struct mcp_execution *x)
{
    const char *const texts[] = {"code", "test_command"}, *name;
    json_t *content;

    x->images = json_array();
    for (size_t i = 0; i < BX_ARRAY_SIZE(texts); i++) {
        mcp_images_named(x->images, mcp_arg_str(x->call, texts[i], ""));
        x->plots |= mcp_code_plots(mcp_arg_str(x->call, texts[i], ""));
    }
    json_object_foreach(json_object_get(x->call->arguments, "files"), name, content)
    {
        mcp_images_named(x->images, json_string_value(content));
        x->plots |= mcp_code_plots(json_string_value(content));
    }
    x->plots = x->plots && strcmp(x->language->extension, "py") == 0;
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
    mcp_call_in(call, mcp_environment_name(env));
    return env;
}

static void start(struct mcp_call *call)
{
    const struct mcp_language *language = mcp_languages_find(mcp_server_options(call->server)->languages, mcp_arg_str(call, "language", ""));
    struct mcp_environment *env;
    struct mcp_execution *x;
    bool base64;

    if (!mcp_call_encoding(call, &base64)) {
        return;
    }
    if (!language) {
        _cleanup_free_ char *names = mcp_languages_names(mcp_server_options(call->server)->languages);
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
    x->base64 = base64;
    look_for_images(x);
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
        "whether it passed; plots (matplotlib show, *.png) come as images. Use it to run, try and test untrusted or generated code safely: nothing on the user's "
        "machine can be read or changed. Files stay in the environment between calls. A non-zero exit code is a normal "
        "result. Code that takes long returns running=true and goes on: follow it with read_output. Long output keeps "
        "its beginning, end and first error lines.",
    .args = args,
    .output_schema =
        "{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA "," MCP_ENVIRONMENT_SCHEMA
        ",\"language\":{\"type\":\"string\"},\"file\":{\"type\":\"string\",\"description\":\"where the code was "
        "saved, in /workspace\"},\"total_ms\":{\"type\":\"integer\"},\"tests_passed\":{\"type\":\"boolean\"},"
        "\"tests_process\":{\"type\":\"string\",\"description\":\"the code still runs; the tests run after it: read_output "
        "of this process\"},\"tests_note\":{\"type\":\"string\"}," MCP_IMAGES_SCHEMA ",\"tests\":{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA
        "}}}}",
    .start = start,
};
