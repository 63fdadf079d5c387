/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c: one command in an environment. Waits until the box runs, starts the command, feeds its input and captures its
 * output. Whoever started it is told once: when it has ended, or, after the time to yield, that it goes on.
 *
 * A job has a name ("p3") and stays on the server's list after its end, so that read_output can show more of it: its
 * whole output is kept by the box, this side holds only a bounded capture. The list is bounded: ended jobs go first in,
 * first out. A job never points to an environment but while it waits for one; later it knows its name and which of its
 * boxes it ran in. Everything happens in callbacks of the library. Killing is freeing the exec handle, which owns it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

enum job_state { JOB_WAITING, JOB_RUNNING, JOB_ENDED };

struct mcp_job {
    struct mcp_job *next; /* newer ones first */
    struct mcp_server *server;
    char name[16];
    enum job_state state;
    struct mcp_environment *env; /* JOB_WAITING only */
    char *env_name;
    unsigned generation;
    uint64_t memory;
    uint32_t timeout_s;
    mcp_job_fn fn;
    void *data;
    struct mcp_watch *watches;
    struct mcp_timer yield;
    struct mcp_job *after; /* whose end it waits for, watched */
    struct mcp_watch after_watch;
    bool is_test, code_good;
    boxlite_exec_options *options;
    boxlite_exec *exec;
    uint32_t number;
    char *input;
    size_t input_len, input_off;
    bool has_stdin, keep_stdin, input_closed;
    bool stream_ended[3];
    struct mcp_capture out, err;
    uint64_t started_ns, ended_ns;
    boxlite_exec_result result;
    bool telling;         /* inside end(): stays where it is */
    char *failure, *hint; /* why there is no result, or why it was not started */
    int code;             /* 0: there is a result */
};

static void notify(struct mcp_job *job)
{
    struct mcp_watch *w = job->watches;
    job->watches = NULL;
    while (w) {
        struct mcp_watch *next = w->next;
        w->next = NULL;
        w->fn(w->data);
        w = next;
    }
}

void mcp_job_watch(struct mcp_job *job, struct mcp_watch *watch)
{
    watch->next = job->watches;
    job->watches = watch;
}

void mcp_job_unwatch(struct mcp_job *job, struct mcp_watch *watch)
{
    for (struct mcp_watch **p = &job->watches; *p; p = &(*p)->next) {
        if (*p == watch) {
            *p = watch->next;
            return;
        }
    }
}

static void tell(struct mcp_job *job)
{
    mcp_job_fn fn = job->fn;
    job->fn = NULL;
    mcp_timer_cancel(job->server, &job->yield);
    if (fn) {
        fn(job->data, job);
    }
}

static void end(struct mcp_job *job)
{
    boxlite_exec *exec = steal_ptr(&job->exec);
    job->state = JOB_ENDED;
    job->ended_ns = mcp_now_ns();
    boxlite_exec_free(exec);
    job->telling = true;
    tell(job);
    notify(job);
    job->telling = false;
}

static void end_failed(struct mcp_job *job, const struct mcp_failure *why)
{
    job->code = why->code;
    job->failure = strdup(why->message);
    job->hint = why->hint ? strdup(why->hint) : NULL;
    end(job);
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
    if (job->has_stdin && !job->keep_stdin && !job->input_closed) {
        job->input_closed = true;
        (void)boxlite_exec_close_stdin(job->exec, NULL);
    }
}

static bool drain(struct mcp_job *job, int stream, struct mcp_capture *capture)
{
    char buf[65536];
    uint64_t before = capture->total;
    while (!job->stream_ended[stream]) {
        ssize_t n = boxlite_exec_read(job->exec, stream, buf, sizeof(buf), NULL);
        if (n == BOXLITE_E_AGAIN) {
            break;
        }
        if (n <= 0) {
            job->stream_ended[stream] = true;
            break;
        }
        mcp_capture_add(capture, buf, (size_t)n);
    }
    return capture->total != before;
}

static void on_exec(void *data, boxlite_exec *exec, uint32_t events)
{
    struct mcp_job *job = data;
    _cleanup_error_ boxlite_error *err = NULL;
    bool more;

    if (events & BOXLITE_EXEC_STDIN) {
        feed(job);
    }
    more = drain(job, BOXLITE_STDOUT, &job->out);
    more |= drain(job, BOXLITE_STDERR, &job->err);
    if (boxlite_exec_events(exec) & BOXLITE_EXEC_STARTED) {
        job->number = boxlite_exec_number(exec);
    }
    if (!(boxlite_exec_events(exec) & BOXLITE_EXEC_EXITED) || !job->stream_ended[BOXLITE_STDOUT] ||
        !job->stream_ended[BOXLITE_STDERR]) {
        if (more) {
            notify(job);
        }
        return;
    }
    boxlite_exec_set_callback(exec, NULL, NULL);
    job->result.struct_size = sizeof(job->result);
    if (boxlite_exec_wait(exec, 0, &job->result, &err) < 0) {
        struct mcp_failure why = mcp_failure_of(err);
        end_failed(job, &why);
        return;
    }
    if (boxlite_exec_failure(exec)) {
        job->failure = strdup(boxlite_exec_failure(exec));
    }
    end(job);
}

static void on_ready(void *data, struct mcp_environment *env, const struct mcp_failure *why)
{
    struct mcp_job *job = data;
    _cleanup_error_ boxlite_error *err = NULL;

    job->env = NULL; /* no waiter any more */
    if (why) {
        end_failed(job, why);
        return;
    }
    job->state = JOB_RUNNING;
    job->started_ns = mcp_now_ns();
    job->generation = mcp_environment_generation(env);
    if (boxlite_box_exec(mcp_environment_box(env), job->options, &job->exec, &err) < 0) {
        struct mcp_failure failure = mcp_failure_of(err);
        end_failed(job, &failure);
        return;
    }
    boxlite_exec_set_callback(job->exec, on_exec, job);
    feed(job);
}

static void on_yield(void *data)
{
    tell(data);
}

/* The one before has news: if it has ended, this one begins, in the same box or not at all. */
static void on_before(void *data)
{
    static const struct mcp_failure lost = {BOXLITE_E_STATE, "the environment ended before this could begin",
                                            "run it again with run_command"};
    struct mcp_job *job = data, *before = job->after;
    struct mcp_environment *env;

    if (before->state != JOB_ENDED) {
        mcp_job_watch(before, &job->after_watch);
        return;
    }
    job->after = NULL;
    job->code_good = before->code == 0 && before->result.exit_code == 0;
    env = mcp_environment_find(mcp_server_environments(job->server), job->env_name);
    if (!env || before->code != 0 || mcp_environment_generation(env) != before->generation ||
        (before->result.flags & BOXLITE_EXIT_BOX_LOST)) {
        end_failed(job, &lost);
        return;
    }
    job->env = env;
    mcp_environment_when_ready(env, on_ready, job);
}

static int set_options(struct mcp_job *job, const struct mcp_job_spec *spec)
{
    boxlite_exec_options *o;
    const char *key;
    json_t *value;

    if (boxlite_exec_options_new(spec->argv, spec->argc, &job->options, NULL) < 0) {
        return -ENOMEM;
    }
    o = job->options;
    if ((spec->workdir && boxlite_exec_options_set_workdir(o, spec->workdir, NULL) < 0) ||
        boxlite_exec_options_set_stdin(o, job->has_stdin, NULL) < 0 ||
        boxlite_exec_options_set_timeout(o, (uint64_t)spec->timeout_s * 1000, NULL) < 0) {
        return -EINVAL;
    }
    for (size_t i = 0; i < spec->nfiles; i++) {
        if (boxlite_exec_options_add_file(o, spec->files[i].path, spec->files[i].data, spec->files[i].len, NULL) < 0) {
            return -EINVAL;
        }
    }
    json_object_foreach((json_t *)spec->env, key, value)
    {
        if (boxlite_exec_options_add_env(o, key, json_string_value(value), NULL) < 0) {
            return -EINVAL;
        }
    }
    return 0;
}

static void job_free(struct mcp_job *job)
{
    if (job->env) {
        mcp_environment_forget(job->env, job);
    }
    if (job->after) {
        mcp_job_unwatch(job->after, &job->after_watch);
    }
    mcp_timer_cancel(job->server, &job->yield);
    if (job->exec) {
        boxlite_exec_set_callback(job->exec, NULL, NULL);
        boxlite_exec_free(job->exec);
    }
    boxlite_exec_options_free(job->options);
    mcp_capture_done(&job->out);
    mcp_capture_done(&job->err);
    free(job->input);
    free(job->env_name);
    free(job->failure);
    free(job->hint);
    free(job);
}

/* Makes room: the oldest job that has ended and that no one looks at goes. */
static void evict(struct mcp_jobs *jobs)
{
    struct mcp_job **oldest = NULL;
    for (struct mcp_job **p = &jobs->first; jobs->count >= MCP_JOBS_MAX && *p; p = &(*p)->next) {
        if ((*p)->state == JOB_ENDED && !(*p)->watches && !(*p)->fn && !(*p)->telling) {
            oldest = p;
        }
    }
    if (oldest) {
        struct mcp_job *job = *oldest;
        *oldest = job->next;
        jobs->count--;
        job_free(job);
    }
}

static int fill(struct mcp_job *job, struct mcp_environment *env, const struct mcp_job_spec *spec)
{
    size_t limit = spec->capture ? spec->capture : mcp_server_budget(job->server);
    int r;

    job->has_stdin = spec->input != NULL || spec->keep_stdin;
    job->keep_stdin = spec->keep_stdin;
    job->is_test = spec->is_test;
    job->code_good = spec->code_good;
    job->timeout_s = spec->timeout_s;
    job->memory = mcp_environment_memory(env);
    job->env_name = strdup(mcp_environment_name(env));
    job->input = malloc(spec->input_len + 1);
    r = set_options(job, spec);
    if (r < 0) {
        return r;
    }
    if (!job->env_name || !job->input || mcp_capture_init(&job->out, limit) < 0 ||
        mcp_capture_init(&job->err, limit) < 0) {
        return -ENOMEM;
    }
    if (spec->input) {
        memcpy(job->input, spec->input, spec->input_len);
        job->input_len = spec->input_len;
    }
    return 0;
}

int mcp_job_start(struct mcp_server *s, struct mcp_environment *env, const struct mcp_job_spec *spec, mcp_job_fn fn,
                  void *data, struct mcp_job **ret)
{
    struct mcp_jobs *jobs = mcp_server_jobs(s);
    struct mcp_job *job;
    int r;

    evict(jobs);
    job = jobs->count < MCP_JOBS_MAX ? calloc(1, sizeof(*job)) : NULL;
    if (!job) {
        return -ENOMEM;
    }
    job->server = s;
    snprintf(job->name, sizeof(job->name), "p%u", ++jobs->serial);
    r = fill(job, env, spec);
    if (r < 0) {
        job_free(job);
        return r;
    }
    job->fn = fn;
    job->data = data;
    job->next = jobs->first;
    jobs->first = job;
    jobs->count++;
    if (spec->yield_ms > 0) {
        mcp_timer_arm(s, &job->yield, spec->yield_ms, on_yield, job);
    }
    *ret = job;
    if (spec->after) {
        job->after = spec->after;
        job->after_watch = (struct mcp_watch){.fn = on_before, .data = job};
        on_before(job);
    } else {
        job->env = env;
        mcp_environment_when_ready(env, on_ready, job);
    }
    return 0;
}

void mcp_call_fail_job(struct mcp_call *call, int r)
{
    if (r == -EINVAL) {
        mcp_call_fail(call, BOXLITE_E_INVALID, "an argument cannot be passed to a command",
                      "names of environment variables are not empty and hold no =");
    } else {
        mcp_call_fail(call, BOXLITE_E_BUSY, "too many commands run, or memory is short",
                      "stop some with send_input, or remove an environment");
    }
}

void mcp_job_kill(struct mcp_job *job)
{
    struct mcp_jobs *jobs;
    if (!job) {
        return;
    }
    jobs = mcp_server_jobs(job->server);
    for (struct mcp_job **p = &jobs->first; *p; p = &(*p)->next) {
        if (*p == job) {
            *p = job->next;
            jobs->count--;
            break;
        }
    }
    job_free(job);
}

void mcp_jobs_free(struct mcp_server *s)
{
    while (mcp_server_jobs(s)->first) {
        mcp_job_kill(mcp_server_jobs(s)->first);
    }
}

struct mcp_job *mcp_job_find(struct mcp_server *s, const char *name)
{
    struct mcp_job *job = mcp_server_jobs(s)->first;
    while (job && strcmp(job->name, name) != 0) {
        job = job->next;
    }
    return job;
}

unsigned mcp_jobs_running(struct mcp_server *s, const char *environment)
{
    unsigned n = 0;
    for (const struct mcp_job *job = mcp_server_jobs(s)->first; job; job = job->next) {
        n += job->state != JOB_ENDED && strcmp(job->env_name, environment) == 0;
    }
    return n;
}

/* ---- What a job tells */

bool mcp_job_failed(const struct mcp_job *job, struct mcp_failure *ret)
{
    if (job->code == 0) {
        return false;
    }
    *ret = (struct mcp_failure){
        .code = job->code, .message = job->failure ? job->failure : "out of memory", .hint = job->hint};
    return true;
}

void mcp_job_outcome(const struct mcp_job *job, struct mcp_outcome *ret)
{
    uint64_t now = job->state == JOB_ENDED ? job->ended_ns : mcp_now_ns();
    *ret = (struct mcp_outcome){
        .name = job->name,
        .environment = job->env_name,
        .generation = job->generation,
        .number = job->number,
        .running = job->state != JOB_ENDED,
        .result = job->result,
        .failure = job->code == 0 ? job->failure : NULL,
        .timeout_s = job->timeout_s,
        .is_test = job->is_test,
        .tests_passed = job->state == JOB_ENDED && job->code_good && job->code == 0 && job->result.exit_code == 0,
        .memory = job->memory,
        .out = &job->out,
        .err = &job->err,
        .wall_ns = job->started_ns ? now - job->started_ns : 0,
    };
}

/* ---- What can be done to it */

int mcp_job_input(struct mcp_job *job, const void *data, size_t len)
{
    char *p;
    if (job->state == JOB_ENDED) {
        return BOXLITE_E_STATE;
    }
    if (!job->keep_stdin || job->input_closed) {
        return BOXLITE_E_UNSUPPORTED;
    }
    if (job->input_len - job->input_off + len > MCP_INPUT_MAX) {
        return BOXLITE_E_BUSY;
    }
    memmove(job->input, job->input + job->input_off, job->input_len - job->input_off);
    job->input_len -= job->input_off;
    job->input_off = 0;
    p = realloc(job->input, job->input_len + len + 1);
    if (!p) {
        return BOXLITE_E_NO_MEMORY;
    }
    job->input = p;
    memcpy(job->input + job->input_len, data, len);
    job->input_len += len;
    if (job->exec) {
        feed(job);
    }
    return 0;
}

int mcp_job_end_input(struct mcp_job *job)
{
    int r = mcp_job_input(job, "", 0);
    if (r == 0) {
        job->keep_stdin = false;
        if (job->exec) {
            feed(job);
        }
    }
    return r;
}

int mcp_job_signal(struct mcp_job *job, int signo)
{
    return job->exec ? boxlite_exec_signal(job->exec, signo, NULL) : BOXLITE_E_STATE;
}
