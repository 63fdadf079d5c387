/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_execute_code.c: code in a language, as a file in the environment, then perhaps a test command beside it.
 *
 * Steps, each a job: further files and input (if there are any), the code, the tests. The code goes in through the
 * standard input of one shell command, which writes the file and becomes the interpreter: one round trip, any size,
 * never through argv. The file is /workspace/main.EXT, so that a test can import it; a call that runs while another one
 * does in the same environment gets main_2.EXT. A call that names no environment and whose language the default one
 * lacks is run again in an environment of its own for that language, if a local image has it.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define FILES_MAX 64
#define SHORT_MAX 1024
#define ENVELOPE 400 /* what a result says beside the outcomes */

struct execution {
    struct mcp_server *server;
    struct mcp_call *call;
    char *env_name; /* never a pointer: it may be removed meanwhile */
    struct mcp_job *job;
    const struct mcp_language *language;
    char *file;
    json_t *result;
    char *text;
    bool fresh, second; /* its own environment; the language's environment is in use */
};

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

static struct mcp_environment *environment(const struct execution *x)
{
    return mcp_environment_find(mcp_server_environments(x->server), x->env_name);
}

static void execution_free(struct execution *x)
{
    struct mcp_environment *env = environment(x);
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
    struct execution *x = call->state;
    mcp_job_kill(x->job);
    execution_free(x);
}

static void finish(struct execution *x)
{
    struct mcp_call *call = x->call;
    json_t *result = steal_ptr(&x->result);
    char *text = steal_ptr(&x->text);

    json_object_set_new(result, "total_ms", json_integer((json_int_t)((mcp_now_ns() - call->started_ns) / 1000000)));
    execution_free(x);
    mcp_call_finish(call, result, text, false);
}

static void fail(struct execution *x, const struct mcp_failure *why)
{
    struct mcp_call *call = x->call;
    mcp_call_fail_with(call, why); /* first: it may speak of what is freed then */
    execution_free(x);
}

/* Starts the next step; its answer is given if that cannot be. */
static void step(struct execution *x, struct mcp_job_spec *spec, mcp_job_fn fn)
{
    struct mcp_environment *env = environment(x);
    struct mcp_call *call = x->call;
    int r;

    spec->timeout_s = mcp_timeout(mcp_server_options(call->server), mcp_arg_int(call, "timeout_seconds", 0));
    x->job = NULL;
    r = env ? mcp_job_start(call->server, env, spec, fn, x, &x->job) : BOXLITE_E_NOT_FOUND;
    if (r < 0) {
        execution_free(x);
        mcp_call_fail_job(call, r);
    }
}

/* ---- The tests */

static void on_tested(void *data, struct mcp_job *job)
{
    struct execution *x = data;
    size_t budget = (mcp_server_budget(x->server) - ENVELOPE) / 2;
    _cleanup_free_ char *code_text = steal_ptr(&x->text), *test_text = NULL;
    struct mcp_failure why;
    struct mcp_outcome o;

    if (mcp_job_failed(job, &why)) {
        fail(x, &why);
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

static void start_tests(struct execution *x, const char *command)
{
    static const char IN_WORKSPACE[] = "cd /workspace 2>/dev/null && [ -w . ] || cd /tmp; eval \"$1\"";
    const char *argv[] = {"/bin/sh", "-c", IN_WORKSPACE, "sh", command};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .yield_ms = mcp_server_options(x->server)->yield_s * 1000,
    };
    step(x, &spec, on_tested);
}

/* ---- The code */

static void start_steps(struct execution *x);

static bool has_no_tool(const struct mcp_outcome *o)
{
    struct mcp_shown shown;
    _cleanup_free_ char *text = mcp_capture_text(o->err, 256, &shown);
    return !o->running && o->result.exit_code == 127 && text &&
           strncmp(text, MCP_NO_TOOL, strlen(MCP_NO_TOOL)) == 0;
}

static void say_no_image(struct execution *x)
{
    const struct mcp_language *l = x->language;
    _cleanup_free_ char *message =
        mcp_printf("environment %s has no %s (tried: %s)", x->env_name, l->names[0], l->tools);
    _cleanup_free_ char *hint =
        mcp_printf("create_environment with an image that has it; of local images one named %s... would be used by "
                   "itself (the user can load one: boxlite image load)",
                   l->images[0]);
    struct mcp_failure why = {BOXLITE_E_NOT_FOUND, message ? message : "out of memory", hint};
    fail(x, &why);
}

/* The language is missing here: once more where an image has it, or an error that says which would. */
static void try_elsewhere(struct execution *x)
{
    struct mcp_environments *all = mcp_server_environments(x->server);
    bool asked = mcp_arg_str(x->call, "environment", NULL) != NULL || x->fresh || x->second;
    _cleanup_free_ char *image = asked ? NULL : mcp_language_image(x->server, x->language);
    _cleanup_free_ char *name = mcp_printf("default-%s", x->language->extension);
    struct mcp_environment_spec spec = {.name = name, .image = image, .network = -1};
    struct mcp_environment *env = name ? mcp_environment_find(all, name) : NULL;
    struct mcp_failure why;

    if (!image || !name || (!env && mcp_environment_add(all, &spec, &env, &why) < 0)) {
        say_no_image(x);
        return;
    }
    mcp_environment_release_slot(environment(x), x);
    free(x->env_name);
    x->env_name = steal_ptr(&name);
    x->second = true;
    start_steps(x);
}

static void on_done(void *data, struct mcp_job *job)
{
    struct execution *x = data;
    const char *command = mcp_arg_str(x->call, "test_command", NULL);
    size_t budget = mcp_server_budget(x->server) - ENVELOPE;
    struct mcp_failure why;
    struct mcp_outcome o;

    if (mcp_job_failed(job, &why)) {
        fail(x, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    if (has_no_tool(&o)) {
        try_elsewhere(x);
        return;
    }
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

/* The shell's own read takes it as fast as a process that does. */
static bool is_short_text(const json_t *code)
{
    const char *text = json_string_value(code);
    size_t n = json_string_length(code);
    return n <= SHORT_MAX && !memchr(text, '\0', n);
}

static void start_code(struct execution *x)
{
    const json_t *code = json_object_get(x->call->arguments, "code");
    const json_t *input = json_object_get(x->call->arguments, "stdin");
    _cleanup_free_ char *input_file = json_string_length(input) > 0 ? mcp_printf(".stdin.%s", x->file) : strdup("");
    const char *argv[] = {"/bin/sh", "-c", mcp_language_script, "sh", x->file, x->language->tools,
                          x->language->how ? x->language->how : "", input_file, is_short_text(code) ? "short" : ""};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .input = json_string_value(code),
        .input_len = json_string_length(code),
        .yield_ms = mcp_server_options(x->server)->yield_s * 1000,
    };
    if (!input_file) {
        struct mcp_failure why = mcp_failure_of(NULL);
        fail(x, &why);
        return;
    }
    step(x, &spec, on_done);
}

/* ---- Files and input */

static void on_put(void *data, struct mcp_job *job)
{
    struct execution *x = data;
    struct mcp_failure why;
    struct mcp_outcome o;
    struct mcp_shown shown;

    if (mcp_job_failed(job, &why)) {
        fail(x, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    if (o.result.exit_code != 0) {
        _cleanup_free_ char *text = mcp_capture_text(o.err, 400, &shown);
        _cleanup_free_ char *message = mcp_printf("argument files: not written: %s", text ? text : "");
        why = (struct mcp_failure){BOXLITE_E_IO, message ? message : "out of memory",
                                   "names are relative to /workspace, and the image needs base64"};
        fail(x, &why);
        return;
    }
    start_code(x);
}

static void start_put(struct execution *x, const struct mcp_file *files, size_t n)
{
    _cleanup_free_ char *script = mcp_put_script(files, n);
    const char *argv[] = {"/bin/sh", "-s"};
    struct mcp_job_spec spec = {
        .argv = argv, .argc = BX_ARRAY_SIZE(argv), .input = script, .input_len = script ? strlen(script) : 0};
    if (!script) {
        struct mcp_failure why = mcp_failure_of(NULL);
        fail(x, &why);
        return;
    }
    step(x, &spec, on_put);
}

static void start_steps(struct execution *x)
{
    json_t *map = json_object_get(x->call->arguments, "files");
    const json_t *input = json_object_get(x->call->arguments, "stdin");
    unsigned slot = mcp_environment_take_slot(environment(x), x);
    struct mcp_file files[FILES_MAX + 1];
    _cleanup_free_ char *input_file = NULL;
    const char *name;
    json_t *content;
    size_t n = 0;

    free(x->file);
    x->file = slot == 1 ? mcp_printf("main.%s", x->language->extension)
                        : mcp_printf("main_%u.%s", slot, x->language->extension);
    input_file = mcp_printf(".stdin.%s", x->file ? x->file : "");
    if (!x->file || !input_file) {
        struct mcp_failure why = mcp_failure_of(NULL);
        fail(x, &why);
        return;
    }
    json_object_foreach(map, name, content)
    {
        files[n++] = (struct mcp_file){.path = name, .data = json_string_value(content),
                                       .len = json_string_length(content)};
    }
    if (json_string_length(input) > 0) {
        files[n++] = (struct mcp_file){.path = input_file, .data = json_string_value(input),
                                       .len = json_string_length(input)};
    }
    if (n > 0) {
        start_put(x, files, n);
    } else {
        start_code(x);
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
    struct execution *x;

    if (!language) {
        _cleanup_free_ char *names = mcp_language_names();
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument language: not one that this server knows", names);
        return;
    }
    if (json_object_size(json_object_get(call->arguments, "files")) > FILES_MAX) {
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
    x->fresh = mcp_arg_bool(call, "fresh");
    call->state = x;
    call->cancel = cancel;
    start_steps(x);
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
