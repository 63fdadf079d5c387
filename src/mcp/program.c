/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c: from code in a language to a running program.
 *
 * The code is a file, /workspace/main.EXT, so that tests can import it; a call that runs while another one does in the same
 * environment gets main_2.EXT. It never goes through argv. In most cases its files travel with the command that runs it,
 * one round trip, and an interpreter is that command itself; a compiled language is built by a shell script.
 *
 * Where that cannot be started (the image's user may not write /workspace, the first tool is not there) or the files are
 * too large to travel, a shell writes them, to /tmp if need be, and tries the tools in turn: first the files and the
 * input, then the code, on the script's standard input, which then becomes the interpreter.
 *
 * A call that names no environment and whose language the default one lacks is run again in an environment of its own for
 * that language, if a local image has it.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/execution.h"

static void on_done(void *data, struct mcp_job *job);

static void no_memory(struct mcp_execution *x)
{
    struct mcp_failure why = mcp_failure_of(NULL);
    mcp_execution_fail(x, &why);
}

/* ---- Files */

/* All that is to be written; room for MCP_EXECUTION_FILES_MAX + 3. Their number. */
static size_t collect(struct mcp_execution *x, struct mcp_file *files, size_t *ret_size)
{
    json_t *map = json_object_get(x->call->arguments, "files"), *content;
    const char *name;
    size_t n = 0;

    *ret_size = 0;
    json_object_foreach(map, name, content)
    {
        files[n++] = (struct mcp_file){
            .path = name, .data = json_string_value(content), .len = json_string_length(content)};
        *ret_size += json_string_length(content) + strlen(name) + 64;
    }
    if (x->plots) {
        files[n++] = (struct mcp_file){
            .path = MCP_FIGURES_FILE, .data = mcp_figures_module, .len = strlen(mcp_figures_module)};
    }
    return n;
}

/* Where pyplot's show() leaves figures. */
static int expect_figures(struct mcp_execution *x)
{
    _cleanup_free_ char *name = mcp_printf("%.*s_figure_*.png", (int)strcspn(x->file, "."), x->file);
    if (!name) {
        return -1;
    }
    mcp_images_add(x->images, name);
    x->env = x->env ? x->env : json_pack("{s:s, s:s}", "MPLBACKEND", MCP_FIGURES_BACKEND, "PYTHONPATH", MCP_FIGURES_PATH);
    return x->env ? 0 : -1;
}

static struct mcp_file code_file(const struct mcp_execution *x)
{
    const json_t *code = json_object_get(x->call->arguments, "code");
    return (struct mcp_file){.path = x->file, .data = json_string_value(code), .len = json_string_length(code)};
}

/* ---- With the command that runs it */

static void start_carried(struct mcp_execution *x, const struct mcp_file *files, size_t n)
{
    const struct mcp_language *l = x->language;
    const json_t *input = json_object_get(x->call->arguments, "stdin");
    _cleanup_free_ char *tool = strndup(l->tools, strcspn(l->tools, " "));
    const char *direct[] = {tool, x->file};
    const char *script[] = {"/bin/sh", "-c", mcp_language_script, "sh", x->file, l->tools, l->how, "-"};
    struct mcp_job_spec spec = {
        .argv = l->how ? script : direct,
        .argc = l->how ? BX_ARRAY_SIZE(script) : BX_ARRAY_SIZE(direct),
        .files = files,
        .nfiles = n,
        .workdir = MCP_WORKSPACE,
        .input = json_string_value(input),
        .input_len = json_string_length(input),
        .env = x->env,
        .yield_ms = mcp_call_yield_ms(x->call),
    };
    if (tool) {
        mcp_execution_step(x, &spec, on_done);
    } else {
        no_memory(x);
    }
}

/* ---- By a script */

static void start_code(struct mcp_execution *x)
{
    struct mcp_file code = code_file(x);
    bool has_input = json_string_length(json_object_get(x->call->arguments, "stdin")) > 0;
    _cleanup_free_ char *input_file = has_input ? mcp_printf(".stdin.%s", x->file) : strdup("");
    const char *argv[] = {"/bin/sh", "-c", mcp_language_script, "sh", x->file, x->language->tools,
                          x->language->how ? x->language->how : "", input_file};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = BX_ARRAY_SIZE(argv),
        .input = code.data,
        .input_len = code.len,
        .env = x->env,
        .yield_ms = mcp_call_yield_ms(x->call),
    };
    if (input_file) {
        mcp_execution_step(x, &spec, on_done);
    } else {
        no_memory(x);
    }
}

static void on_put(void *data, struct mcp_job *job)
{
    struct mcp_execution *x = data;
    struct mcp_failure why;
    struct mcp_outcome o;
    struct mcp_shown shown;

    if (mcp_job_failed(job, &why)) {
        mcp_execution_fail(x, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    if (o.result.exit_code != 0) {
        _cleanup_free_ char *text = mcp_capture_text(o.err, 400, &shown);
        _cleanup_free_ char *message = mcp_printf("argument files: not written: %s", text ? text : "");
        why = (struct mcp_failure){BOXLITE_E_IO, message ? message : "out of memory",
                                   "names are relative to " MCP_WORKSPACE ", and the image needs base64"};
        mcp_execution_fail(x, &why);
        return;
    }
    start_code(x);
}

static void start_put(struct mcp_execution *x, const struct mcp_file *files, size_t n)
{
    _cleanup_free_ char *script = mcp_put_script(files, n);
    const char *argv[] = {"/bin/sh", "-s"};
    struct mcp_job_spec spec = {
        .argv = argv, .argc = BX_ARRAY_SIZE(argv), .input = script, .input_len = script ? strlen(script) : 0};
    if (script) {
        mcp_execution_step(x, &spec, on_put);
    } else {
        no_memory(x);
    }
}

static void start_by_script(struct mcp_execution *x, struct mcp_file *files, size_t n)
{
    const json_t *input = json_object_get(x->call->arguments, "stdin");
    _cleanup_free_ char *input_file = mcp_printf(".stdin.%s", x->file);

    x->by_script = true;
    if (!input_file) {
        no_memory(x);
        return;
    }
    if (json_string_length(input) > 0) {
        files[n++] = (struct mcp_file){
            .path = input_file, .data = json_string_value(input), .len = json_string_length(input)};
    }
    if (n > 0) {
        start_put(x, files, n);
    } else {
        start_code(x);
    }
}

void mcp_program_start(struct mcp_execution *x)
{
    unsigned slot = mcp_environment_take_slot(mcp_execution_environment(x), x);
    struct mcp_file files[MCP_EXECUTION_FILES_MAX + 3], code;
    size_t size, n = collect(x, files, &size);

    free(x->file);
    x->file = slot == 1 ? mcp_printf("main.%s", x->language->extension)
                        : mcp_printf("main_%u.%s", slot, x->language->extension);
    if (!x->file || (x->plots && expect_figures(x) < 0)) {
        no_memory(x);
        return;
    }
    code = code_file(x);
    if (!x->by_script && size + code.len + 64 <= MCP_CARRY_MAX) {
        files[n++] = code;
        start_carried(x, files, n);
    } else {
        start_by_script(x, files, n);
    }
}

/* ---- Where the language is missing */

static bool has_no_tool(const struct mcp_outcome *o)
{
    struct mcp_shown shown;
    _cleanup_free_ char *text = mcp_capture_text(o->err, 256, &shown);
    return !o->running && o->result.exit_code == 127 && text &&
           strncmp(text, MCP_NO_TOOL, strlen(MCP_NO_TOOL)) == 0;
}

/* why: of the image that was tried, or NULL. */
static void say_no_image(struct mcp_execution *x, const struct mcp_failure *why)
{
    const struct mcp_language *l = x->language;
    _cleanup_free_ char *message =
        mcp_printf("environment %s has no %s (tried: %s)%s%s", why ? MCP_DEFAULT_ENVIRONMENT : x->env_name, l->names[0],
                   l->tools, why ? "; an image that has it could not be used: " : "", why ? why->message : "");
    _cleanup_free_ char *hint =
        mcp_printf("an image that has it would do: %s%s%s%s%s; one on this machine whose name begins so is used by itself "
                   "when no environment is named, others go to create_environment",
                   l->images[0] ? l->images[0] : "(none is known for it)",
                   l->images[1] ? ", " : "", l->images[1] ? l->images[1] : "", l->images[2] ? ", " : "",
                   l->images[2] ? l->images[2] : "");
    struct mcp_failure all = {why ? why->code : BOXLITE_E_NOT_FOUND, message ? message : "out of memory", hint};
    mcp_execution_fail(x, &all);
}

/* The image for the language: the first of those that are here, else the one to be pulled. Caller frees. */
static char *choose_image(const struct mcp_execution *x)
{
    const struct mcp_options *o = mcp_server_options(x->server);
    const char *first = x->language->images[0];
    char *local = mcp_language_image(x->server, x->language);
    bool may = !local && first && mcp_pull_allowed(o, first) && mcp_patterns_match(o->allow_image, first);
    return may ? strdup(first) : local;
}

/* Once more where an image has it, or an error that says which would. */
static void try_elsewhere(struct mcp_execution *x)
{
    struct mcp_environments *all = mcp_server_environments(x->server);
    bool asked = mcp_arg_str(x->call, "environment", NULL) != NULL || x->fresh || x->second;
    _cleanup_free_ char *image = asked ? NULL : choose_image(x);
    _cleanup_free_ char *name = mcp_printf(MCP_DEFAULT_ENVIRONMENT "-%s", x->language->extension);
    struct mcp_environment_spec spec = {.name = name, .image = image, .network = -1};
    struct mcp_environment *env = name ? mcp_environment_find(all, name) : NULL;
    struct mcp_failure why;

    if (!image || !name) {
        say_no_image(x, NULL);
        return;
    }
    if (!env && mcp_environment_add(all, &spec, &env, &why) < 0) {
        say_no_image(x, &why);
        return;
    }
    mcp_environment_release_slot(mcp_execution_environment(x), x);
    free(x->env_name);
    x->env_name = steal_ptr(&name);
    x->second = true;
    x->by_script = false;
    mcp_call_in(x->call, x->env_name);
    mcp_program_start(x);
}

/* The environment for the language did not come up: it goes, the next call tries again. */
static void give_up_elsewhere(struct mcp_execution *x, const struct mcp_failure *why)
{
    struct mcp_environment *env = mcp_execution_environment(x);
    if (!env || mcp_environment_generation(env) > 0) { /* it did, and was lost or removed */
        mcp_execution_fail(x, why);
        return;
    }
    say_no_image(x, why);
    mcp_environment_drop(env);
}

static void on_done(void *data, struct mcp_job *job)
{
    struct mcp_execution *x = data;
    struct mcp_failure why;
    struct mcp_outcome o;

    if (mcp_job_failed(job, &why)) {
        (x->second ? give_up_elsewhere : mcp_execution_fail)(x, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    if ((o.result.flags & BOXLITE_EXIT_NOT_STARTED) && !x->by_script) {
        x->by_script = true;
        mcp_environment_release_slot(mcp_execution_environment(x), x);
        mcp_program_start(x);
    } else if (has_no_tool(&o)) {
        try_elsewhere(x);
    } else {
        x->on_end(x, job);
    }
}
