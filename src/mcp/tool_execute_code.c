/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_execute_code.c: code in a language, as a file in the environment, then perhaps a test command beside it.
 *
 * The code goes in through the standard input of one shell command, which writes the file and becomes the interpreter:
 * one round trip, any size, never through argv. The file is /workspace/main.EXT, so that a test can import it; a call
 * that runs while another one does in the same environment gets main_2.EXT. The code's own stdin is empty.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

struct execution {
    struct mcp_call *call;
    struct mcp_environment *env;
    struct mcp_job *job;
    const struct language *language;
    char *file;
    json_t *result;
    char *text;
};

static const struct language {
    const char *names[4];     /* as callers say it, the first is the proper one */
    const char *extension;
    const char *interpreters; /* tried in this order */
} languages[] = {
    {{"python", "python3", "py"}, "py", "python3 python"},
    {{"javascript", "node", "js"}, "js", "node nodejs"},
    {{"bash"}, "sh", "bash"},
    {{"sh", "shell"}, "sh", "sh"},
    {{"perl"}, "pl", "perl"},
    {{"ruby"}, "rb", "ruby"},
    {{"php"}, "php", "php"},
    {{"lua"}, "lua", "lua lua5.4 lua5.3"},
    {{"r"}, "R", "Rscript"},
};

/* $1 is the file, $2 the interpreters. Falls back to /tmp where the image's user may not make /workspace. */
static const char SCRIPT[] =
    "mkdir -p /workspace 2>/dev/null; cd /workspace 2>/dev/null && [ -w . ] || cd /tmp || exit 126\n"
    "cat > \"$1\" || exit 126\n"
    "for i in $2; do\n"
    "  if command -v \"$i\" >/dev/null; then exec \"$i\" \"$1\" </dev/null; fi\n"
    "done\n"
    "echo \"boxlite: this environment's image has none of: $2\" >&2; exit 127\n";

static const struct mcp_arg args[] = {
    {"code", MCP_STRING, true, "The program's source text; any size up to 8 MiB. Saved as /workspace/main.EXT.", 0,
     8 << 20},
    {"language", MCP_STRING, true,
     "python, javascript, bash, sh, perl, ruby, php, lua or r (the environment's image must have its interpreter; the "
     "base image has python, bash, sh and perl).", 0, 32},
    {"test_command", MCP_STRING, false,
     "Shell command run in /workspace after the code, for example \"python3 -m unittest -v\". tests_passed tells "
     "whether code and tests both exited with 0.", 0, 1 << 17},
    {"environment", MCP_STRING, false, "Name of the environment to run it in. Default: \"default\".", 0, 64},
    {"timeout_seconds", MCP_INTEGER, false,
     "Kill the code (and, counted anew, the tests) and all they started after so long. Default 120, at most 3600.", 1,
     3600},
    {0},
};

static void execution_free(struct execution *x)
{
    mcp_environment_release_slot(x->env, x);
    mcp_job_free(x->job);
    json_decref(x->result);
    free(x->text);
    free(x->file);
    free(x);
}

static void cancel(struct mcp_call *call)
{
    execution_free(call->state);
}

static void finish(struct execution *x)
{
    struct mcp_call *call = x->call;
    json_object_set_new(x->result, "total_ms", json_integer((json_int_t)((mcp_now_ns() - call->started_ns) / 1000000)));
    mcp_call_finish(call, steal_ptr(&x->result), steal_ptr(&x->text), false);
    execution_free(x);
}

static void fail(struct execution *x, const boxlite_error *err)
{
    mcp_call_fail_error(x->call, err);
    execution_free(x);
}

static void on_tested(void *data, const struct mcp_outcome *o, const boxlite_error *err)
{
    struct execution *x = data;
    _cleanup_free_ char *code_text = steal_ptr(&x->text), *test_text = NULL;
    bool passed;

    if (!o) {
        fail(x, err);
        return;
    }
    passed = o->result.exit_code == 0 && json_integer_value(json_object_get(x->result, "exit_code")) == 0;
    json_object_set_new(x->result, "tests", mcp_outcome_json(o));
    json_object_set_new(x->result, "tests_passed", json_boolean(passed));
    test_text = mcp_outcome_text(o);
    x->text = mcp_printf("%s\n--- tests\n%s", code_text, test_text);
    finish(x);
}

static void start_tests(struct execution *x, const char *command)
{
    static const char IN_WORKSPACE[] = "cd /workspace 2>/dev/null && [ -w . ] || cd /tmp; eval \"$1\"";
    const char *argv[] = {"/bin/sh", "-c", IN_WORKSPACE, "sh", command};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .timeout_s = mcp_timeout(mcp_server_options(x->call->server), mcp_arg_int(x->call, "timeout_seconds", 0)),
    };
    mcp_job_free(x->job);
    x->job = NULL;
    if (mcp_job_start(x->env, &spec, on_tested, x, &x->job) < 0) {
        fail(x, NULL);
    }
}

static void on_done(void *data, const struct mcp_outcome *o, const boxlite_error *err)
{
    struct execution *x = data;
    const char *command = mcp_arg_str(x->call, "test_command", NULL);

    if (!o) {
        fail(x, err);
        return;
    }
    x->result = mcp_outcome_json(o);
    x->text = mcp_outcome_text(o);
    json_object_set_new(x->result, "language", json_string(x->language->names[0]));
    json_object_set_new(x->result, "file", json_string(x->file));
    mcp_environment_describe(x->env, x->call->started_ns, x->result);
    if (command) {
        start_tests(x, command);
    } else {
        finish(x);
    }
}

static const struct language *find_language(const char *name)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(languages); i++) {
        for (size_t k = 0; k < BX_ARRAY_SIZE(languages[i].names) && languages[i].names[k]; k++) {
            if (strcasecmp(languages[i].names[k], name) == 0) {
                return &languages[i];
            }
        }
    }
    return NULL;
}

static int run(struct execution *x)
{
    const json_t *code = json_object_get(x->call->arguments, "code");
    unsigned slot = mcp_environment_take_slot(x->env, x);
    const char *argv[] = {"/bin/sh", "-c", SCRIPT, "sh", NULL, x->language->interpreters};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .input = json_string_value(code),
        .input_len = json_string_length(code),
        .timeout_s = mcp_timeout(mcp_server_options(x->call->server), mcp_arg_int(x->call, "timeout_seconds", 0)),
    };

    x->file = slot == 1 ? mcp_printf("main.%s", x->language->extension)
                        : mcp_printf("main_%u.%s", slot, x->language->extension);
    if (!x->file) {
        return -1;
    }
    argv[4] = x->file;
    return mcp_job_start(x->env, &spec, on_done, x, &x->job);
}

static void start(struct mcp_call *call)
{
    const struct language *language = find_language(mcp_arg_str(call, "language", ""));
    struct execution *x;

    if (!language) {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument language: not one that this server knows",
                      "python, javascript, bash, sh, perl, ruby, php, lua or r; for others use run_command");
        return;
    }
    x = calloc(1, sizeof(*x));
    if (!x) {
        mcp_call_fail_error(call, NULL);
        return;
    }
    x->call = call;
    x->language = language;
    if (!mcp_call_environment(call, &x->env)) {
        free(x);
        return;
    }
    call->state = x;
    call->cancel = cancel;
    if (run(x) < 0) {
        fail(x, NULL);
    }
}

const struct mcp_tool mcp_tool_execute_code = {
    .name = "execute_code",
    .title = "Execute code in a micro-VM",
    .description =
        "Execute a program (Python, JavaScript, bash, ...) in an isolated Linux micro-VM sandbox and get its exit code, "
        "stdout and stderr; optionally run a test command after it and learn whether it passed. Use it to run, try and "
        "test untrusted or generated code safely: nothing on the user's machine can be read or changed. Files stay in "
        "the environment between calls. A non-zero exit code is a normal result. Long output keeps its beginning and "
        "end.",
    .args = args,
    .output_schema =
        "{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA
        ",\"language\":{\"type\":\"string\"},\"file\":{\"type\":\"string\",\"description\":\"where the code was "
        "saved, in /workspace\"},\"environment\":{\"type\":\"string\"},\"engine\":{\"type\":\"string\"},"
        "\"start_ms\":{\"type\":\"integer\",\"description\":\"time to start the VM, if this call started it\"},"
        "\"restarted\":{\"type\":\"boolean\",\"description\":\"the environment was lost before and began afresh, "
        "earlier files are gone\"},\"total_ms\":{\"type\":\"integer\"},\"tests_passed\":{\"type\":\"boolean\"},"
        "\"tests\":{\"type\":\"object\",\"properties\":{" MCP_OUTCOME_SCHEMA "}},"
        "\"error\":{\"type\":\"string\"}}}",
    .start = start,
};
