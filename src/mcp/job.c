/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c: one command in an environment. Waits until the box runs, starts the command, feeds its input, captures its
 * output and reports once when it has ended. Everything happens in callbacks of the library; freeing a job at any
 * moment kills the command (its exec handle owns it).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

struct mcp_job {
    struct mcp_environment *env;
    mcp_job_fn fn;
    void *data;
    boxlite_exec_options *options;
    boxlite_exec *exec;
    char *input;
    size_t input_len, input_off;
    bool input_closed;
    bool stream_ended[3];
    struct mcp_capture out, err;
    uint64_t started_ns;
};

static void finish(struct mcp_job *job, const struct mcp_outcome *outcome, const boxlite_error *err)
{
    mcp_job_fn fn = job->fn;
    job->fn = NULL;
    if (fn) {
        fn(job->data, outcome, err);
    }
}

/* Feeds stdin as far as it takes bytes. A command that has closed its stdin is no error. */
static void feed(struct mcp_job *job)
{
    while (job->input_off < job->input_len) {
        ssize_t n = boxlite_exec_write(job->exec, job->input + job->input_off,
                                       job->input_len - job->input_off, NULL);
        if (n == BOXLITE_E_AGAIN) {
            return;
        }
        if (n < 0) {
            job->input_off = job->input_len;
            job->input_closed = true;
            return;
        }
        job->input_off += (size_t)n;
    }
    if (!job->input_closed && job->input) {
        job->input_closed = true;
        (void)boxlite_exec_close_stdin(job->exec, NULL);
    }
}

static void drain(struct mcp_job *job, int stream, struct mcp_capture *capture)
{
    char buf[65536];
    while (!job->stream_ended[stream]) {
        ssize_t n = boxlite_exec_read(job->exec, stream, buf, sizeof(buf), NULL);
        if (n == BOXLITE_E_AGAIN) {
            return;
        }
        if (n <= 0) {
            job->stream_ended[stream] = true;
            return;
        }
        mcp_capture_add(capture, buf, (size_t)n);
    }
}

static void report(struct mcp_job *job)
{
    struct mcp_outcome o = {.result = {.struct_size = sizeof(o.result)}};
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_free_ char *out = NULL, *errtext = NULL;

    if (boxlite_exec_wait(job->exec, 0, &o.result, &err) < 0) {
        finish(job, NULL, err);
        return;
    }
    o.out = out = mcp_capture_text(&job->out, &o.out_cut);
    o.err = errtext = mcp_capture_text(&job->err, &o.err_cut);
    o.out_bytes = job->out.total;
    o.err_bytes = job->err.total;
    o.failure = boxlite_exec_failure(job->exec);
    o.wall_ns = mcp_now_ns() - job->started_ns;
    if (!out || !errtext) {
        finish(job, NULL, NULL);
        return;
    }
    finish(job, &o, NULL);
}

static void on_exec(void *data, boxlite_exec *exec, uint32_t events)
{
    struct mcp_job *job = data;

    if (events & BOXLITE_EXEC_STDIN) {
        feed(job);
    }
    drain(job, BOXLITE_STDOUT, &job->out);
    drain(job, BOXLITE_STDERR, &job->err);
    if (boxlite_exec_events(exec) & BOXLITE_EXEC_EXITED && job->stream_ended[BOXLITE_STDOUT] &&
        job->stream_ended[BOXLITE_STDERR]) {
        boxlite_exec_set_callback(exec, NULL, NULL);
        report(job);
    }
}

static void on_ready(void *data, struct mcp_environment *env, const boxlite_error *start_error)
{
    struct mcp_job *job = data;
    _cleanup_error_ boxlite_error *err = NULL;

    job->env = NULL; /* no waiter any more */
    if (start_error) {
        finish(job, NULL, start_error);
        return;
    }
    job->started_ns = mcp_now_ns();
    if (boxlite_box_exec(mcp_environment_box(env), job->options, &job->exec, &err) < 0) {
        finish(job, NULL, err);
        return;
    }
    boxlite_exec_set_callback(job->exec, on_exec, job);
    feed(job);
}

static int set_options(struct mcp_job *job, const struct mcp_job_spec *spec)
{
    boxlite_exec_options *o;
    if (boxlite_exec_options_new(spec->argv, spec->argc, &job->options, NULL) < 0) {
        return -ENOMEM;
    }
    o = job->options;
    if ((spec->workdir && boxlite_exec_options_set_workdir(o, spec->workdir, NULL) < 0) ||
        boxlite_exec_options_set_stdin(o, spec->input != NULL, NULL) < 0 ||
        boxlite_exec_options_set_timeout(o, (uint64_t)spec->timeout_s * 1000, NULL) < 0) {
        return -EINVAL;
    }
    return 0;
}

int mcp_job_start(struct mcp_environment *env, const struct mcp_job_spec *spec, mcp_job_fn fn, void *data,
                  struct mcp_job **ret)
{
    size_t limit = mcp_environment_output_limit(env);
    struct mcp_job *job = calloc(1, sizeof(*job));
    int r;

    if (!job) {
        return -ENOMEM;
    }
    job->fn = fn;
    job->data = data;
    r = set_options(job, spec);
    if (r == 0 && (mcp_capture_init(&job->out, limit) < 0 || mcp_capture_init(&job->err, limit / 2) < 0)) {
        r = -ENOMEM;
    }
    if (r == 0 && spec->input) {
        job->input = malloc(spec->input_len + 1);
        r = job->input ? 0 : -ENOMEM;
    }
    if (r < 0) {
        mcp_job_free(job);
        return r;
    }
    if (spec->input) {
        memcpy(job->input, spec->input, spec->input_len);
        job->input_len = spec->input_len;
    }
    job->env = env;
    *ret = job;
    mcp_environment_when_ready(env, on_ready, job);
    return 0;
}

void mcp_job_free(struct mcp_job *job)
{
    if (!job) {
        return;
    }
    if (job->env) {
        mcp_environment_forget(job->env, job);
    }
    if (job->exec) {
        boxlite_exec_set_callback(job->exec, NULL, NULL);
        boxlite_exec_free(job->exec);
    }
    boxlite_exec_options_free(job->options);
    mcp_capture_done(&job->out);
    mcp_capture_done(&job->err);
    free(job->input);
    free(job);
}

json_t *mcp_outcome_json(const struct mcp_outcome *o)
{
    json_t *v = json_pack("{s:i, s:s, s:s, s:I, s:I, s:b, s:b, s:b, s:I}", "exit_code", o->result.exit_code,
                          "stdout", o->out, "stderr", o->err, "stdout_bytes", (json_int_t)o->out_bytes,
                          "stderr_bytes", (json_int_t)o->err_bytes, "truncated", o->out_cut || o->err_cut,
                          "timed_out", (o->result.flags & BOXLITE_EXIT_TIMED_OUT) != 0, "oom_killed",
                          (o->result.flags & BOXLITE_EXIT_OOM_KILLED) != 0, "duration_ms",
                          (json_int_t)(o->wall_ns / 1000000));
    if (v && o->failure) {
        json_object_set_new(v, "error", json_string(o->failure));
    }
    return v;
}

/* What the exit code alone does not say. */
static const char *remark(const struct mcp_outcome *o)
{
    if (o->result.flags & BOXLITE_EXIT_TIMED_OUT) {
        return " (timed out and was killed)";
    }
    if (o->result.flags & BOXLITE_EXIT_OOM_KILLED) {
        return " (the environment ran out of memory)";
    }
    if (o->result.flags & BOXLITE_EXIT_BOX_LOST) {
        return " (the environment ended)";
    }
    return o->failure ? " (could not be started)" : "";
}

char *mcp_outcome_text(const struct mcp_outcome *o)
{
    size_t n = strlen(o->out);
    const char *nl = n > 0 && o->out[n - 1] != '\n' ? "\n" : "";
    return mcp_printf("%s%s%s%s%s%s%sexit code %d%s", o->out, nl, o->err[0] ? "stderr:\n" : "", o->err,
                      o->err[0] && o->err[strlen(o->err) - 1] != '\n' ? "\n" : "",
                      o->failure ? o->failure : "", o->failure ? "\n" : "", o->result.exit_code, remark(o));
}
