/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_read_output.c: more of what a command wrote: a range, its last lines, or the lines that hold a text; at once or
 * after waiting for more. The box keeps the output, this side never holds more than it answers: the kept bytes pass
 * through a collector that takes what is asked for. If the box has gone, the job's own capture stands in.
 *
 * Steps: wait (until there is more, the end, or the time is over), open the kept output, collect, answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define LINE_MAX_SHOWN 2000
#define CONTEXT_MAX 20

struct reading {
    struct mcp_call *call;
    char process[16];
    int stream;
    bool ranged; /* an offset was given */
    uint64_t offset, first, total;
    size_t max;
    int64_t tail_lines;
    const char *pattern; /* in the call's arguments */
    int64_t context;
    bool base64;
    struct mcp_watch watch;
    struct mcp_timer timer;
    bool watching, time_over;
    boxlite_exec *exec;
    /* The collector. */
    uint64_t at; /* offset of the next byte */
    char *out;
    size_t out_len;
    char *line; /* pattern: the line under way, and those before it */
    size_t line_len;
    char *before[CONTEXT_MAX + 1];
    uint64_t line_number, matches, after;
    bool full;
};

static const struct mcp_arg args[] = {
    {"process", MCP_STRING, true, false, "Name that run_command or execute_code gave, for example \"p3\".", 0, 15},
    {"stream", MCP_STRING, false, false, "\"stdout\" (default) or \"stderr\".", 0, 8},
    {"offset", MCP_INTEGER, false, false,
     "First byte to show; continue with next_offset. Default 0, or where the last bytes begin with tail_lines.", 0,
     INT64_MAX},
    {"max_bytes", MCP_INTEGER, false, false, "Most bytes to show, 1 to 1048576. Default: what fits a result, about 6000.", 1, 1 << 20},
    {"tail_lines", MCP_INTEGER, false, false, "Show only the last so many lines, 1 to 10000.", 1, 10000},
    {"pattern", MCP_STRING, false, false,
     "Show only lines that hold this text (letter case ignored, no regular expression), with their numbers.", 0, 200},
    {"context_lines", MCP_INTEGER, false, false, "Lines to show round each match, 0 to 20. Default 2.", 0, CONTEXT_MAX},
    {"wait_seconds", MCP_INTEGER, false, false,
     "Wait at most so long, 0 to 50: with an offset for output behind it, else for the command's end. Default 0.", 0, 50},
    {"encoding", MCP_STRING, false, false, "\"text\" (default) or \"base64\" (exact bytes).", 0, 8},
    {0},
};

static void reading_free(struct reading *r)
{
    struct mcp_job *job = mcp_job_find(r->call->server, r->process);
    if (r->watching && job) {
        mcp_job_unwatch(job, &r->watch);
    }
    mcp_timer_cancel(r->call->server, &r->timer);
    if (r->exec) {
        boxlite_exec_set_callback(r->exec, NULL, NULL);
        boxlite_exec_free(r->exec);
    }
    for (size_t i = 0; i <= CONTEXT_MAX; i++) {
        free(r->before[i]);
    }
    free(r->line);
    free(r->out);
    free(r);
}

static void cancel(struct mcp_call *call)
{
    reading_free(call->state);
}

/* ---- The collector */

static void take(struct reading *r, const char *p, size_t n)
{
    size_t room = r->max - r->out_len;
    r->full |= n > room;
    n = n < room ? n : room;
    memcpy(r->out + r->out_len, p, n);
    r->out_len += n;
}

static void take_range(struct reading *r, const char *p, size_t n)
{
    uint64_t skip = r->at < r->offset ? r->offset - r->at : 0;
    if (skip < n) {
        take(r, p + skip, n - (size_t)skip);
    }
}

static void show_line(struct reading *r, uint64_t number, char mark, const char *text)
{
    char prefix[32];
    int n = snprintf(prefix, sizeof(prefix), "%llu%c", (unsigned long long)number, mark);
    if (r->out_len + (size_t)n + strlen(text) + 1 > r->max) {
        r->full = true;
        return;
    }
    take(r, prefix, (size_t)n);
    take(r, text, strlen(text));
    take(r, "\n", 1);
}

/* The lines before a match that were not shown yet, oldest first. */
static void show_before(struct reading *r)
{
    for (int64_t i = r->context; i > 0; i--) {
        uint64_t number = r->line_number - (uint64_t)i;
        char **slot = &r->before[number % (CONTEXT_MAX + 1)];
        if (r->line_number > (uint64_t)i && *slot) {
            show_line(r, number, '-', *slot);
            free(*slot);
            *slot = NULL;
        }
    }
}

static void line_done(struct reading *r)
{
    char **slot = &r->before[++r->line_number % (CONTEXT_MAX + 1)];
    r->line[r->line_len] = '\0';
    free(*slot);
    *slot = NULL;
    if (strcasestr(r->line, r->pattern)) {
        r->matches++;
        show_before(r);
        show_line(r, r->line_number, ':', r->line);
        r->after = (uint64_t)r->context;
    } else if (r->after > 0) {
        r->after--;
        show_line(r, r->line_number, '-', r->line);
    } else {
        *slot = strdup(r->line);
    }
    r->line_len = 0;
}

static void take_lines(struct reading *r, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n') {
            line_done(r);
        } else if (r->line_len < LINE_MAX_SHOWN) {
            r->line[r->line_len++] = p[i] ? p[i] : ' ';
        }
    }
}

static void collect(struct reading *r, const char *p, size_t n)
{
    if (r->pattern) {
        take_lines(r, p, n);
    } else {
        take_range(r, p, n);
    }
    r->at += n;
}

/* ---- The answer */

/* Drops all but the last tail_lines lines. */
static void keep_tail(struct reading *r)
{
    size_t from = r->out_len;
    int64_t lines = r->tail_lines;
    while (from > 0 && !(r->out[from - 1] == '\n' && from < r->out_len && --lines == 0)) {
        from--;
    }
    memmove(r->out, r->out + from, r->out_len - from);
    r->out_len -= from;
    r->offset += from;
}

static json_t *content(struct reading *r, bool *bad)
{
    _cleanup_free_ char *text = r->base64 ? mcp_base64(r->out, r->out_len) : malloc(3 * r->out_len + 1);
    if (text && !r->base64) {
        size_t len = r->out_len;
        if (!r->pattern && r->offset + len < r->total) { /* the next call gets the rest of the character */
            len -= mcp_utf8_cut_at_end(r->out, len);
            r->out_len = len;
        }
        text[mcp_utf8_clean(text, r->out, len, bad)] = '\0';
    }
    return text ? json_string(text) : NULL;
}

static void answer(struct reading *r, const struct mcp_outcome *o)
{
    struct mcp_call *call = r->call;
    bool bad = false;
    json_t *v = json_object(), *text;
    char *shown = NULL;

    if (r->pattern && r->line_len > 0) {
        line_done(r);
    }
    if (r->tail_lines > 0 && !r->pattern) {
        keep_tail(r);
    }
    text = content(r, &bad);
    if (text && !r->base64) {
        shown = strdup(json_string_value(text));
        mcp_strip_controls(shown);
    }
    json_object_set_new(v, "process", json_string(o->name));
    json_object_set_new(v, "running", json_boolean(o->running));
    if (!o->running) {
        json_object_set_new(v, "exit_code", json_integer(o->result.exit_code));
    }
    if (!o->running && o->is_test) {
        json_object_set_new(v, "tests_passed", json_boolean(o->tests_passed));
    }
    json_object_set_new(v, "content", text);
    json_object_set_new(v, "total_bytes", json_integer((json_int_t)r->total));
    if (r->pattern) {
        json_object_set_new(v, "matches", json_integer((json_int_t)r->matches));
        json_object_set_new(v, "truncated", json_boolean(r->full));
    } else {
        uint64_t next = r->offset + r->out_len;
        json_object_set_new(v, "offset", json_integer((json_int_t)r->offset));
        json_object_set_new(v, "next_offset", json_integer((json_int_t)next));
        json_object_set_new(v, "end", json_boolean(!o->running && next >= r->total));
    }
    if (r->first > 0) {
        json_object_set_new(v, "first_kept_offset", json_integer((json_int_t)r->first));
    }
    if (bad) {
        json_object_set_new(v, "not_utf8", json_true());
    }
    reading_free(r);
    mcp_call_finish(call, v,
                    mcp_printf("%s\n[%s%s]", shown ? shown : "", o->name, o->running ? ": still running" : " has ended"),
                    false);
    free(shown);
}

/* ---- Reading */

static void on_exec(void *data, boxlite_exec *exec, uint32_t events)
{
    struct reading *r = data;
    struct mcp_job *job = mcp_job_find(r->call->server, r->process);
    struct mcp_outcome o;
    char buf[65536];
    ssize_t n;

    (void)events;
    while (job && (n = boxlite_exec_read(exec, r->stream, buf, sizeof(buf), NULL)) > 0) {
        if (r->at == 0) { /* what is no longer kept */
            r->at = r->first = boxlite_exec_dropped(exec, r->stream);
            r->offset = r->offset > r->first || r->pattern ? r->offset : r->first;
        }
        collect(r, buf, (size_t)n);
        if (!r->pattern && r->full) {
            break;
        }
    }
    if (job && n == BOXLITE_E_AGAIN) {
        return;
    }
    if (!job) {
        struct mcp_call *call = r->call;
        reading_free(r);
        mcp_call_fail(call, BOXLITE_E_NOT_FOUND, "its output is not kept any more", NULL);
        return;
    }
    mcp_job_outcome(job, &o);
    answer(r, &o);
}

/* The job's own head and tail, as far as they are one piece. */
static void read_capture(struct reading *r, const struct mcp_outcome *o)
{
    const struct mcp_capture *c = r->stream == BOXLITE_STDOUT ? o->out : o->err;
    size_t len = 0;
    _cleanup_free_ char *bytes = mcp_capture_bytes(c, &len);

    if (bytes && c->total == len) {
        collect(r, bytes, len);
        answer(r, o);
        return;
    }
    struct mcp_call *call = r->call;
    reading_free(r);
    mcp_call_fail(call, BOXLITE_E_NOT_FOUND, "its output went with its environment",
                  "what the call itself returned is all that is left of it");
}

static void read_now(struct reading *r, const struct mcp_job *job)
{
    struct mcp_environment *env;
    struct mcp_failure why;
    struct mcp_outcome o;

    if (mcp_job_failed(job, &why)) { /* it never ran: there is no output */
        struct mcp_call *call = r->call;
        reading_free(r);
        mcp_call_fail_with(call, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    r->total = r->stream == BOXLITE_STDOUT ? o.out->total : o.err->total;
    if (!r->ranged && r->tail_lines > 0 && r->total > r->max) {
        r->offset = r->total - r->max;
    }
    r->out = malloc(r->max + 1);
    r->line = malloc(LINE_MAX_SHOWN + 1);
    env = mcp_environment_find(mcp_server_environments(r->call->server), o.environment);
    if (!r->out || !r->line || o.number == 0 || !env || mcp_environment_generation(env) != o.generation ||
        boxlite_box_output(mcp_environment_box(env), o.number, &r->exec, NULL) < 0) {
        if (r->out && r->line) {
            read_capture(r, &o);
        } else {
            struct mcp_call *call = r->call;
            reading_free(r);
            mcp_call_fail_error(call, NULL);
        }
        return;
    }
    boxlite_exec_set_callback(r->exec, on_exec, r);
    on_exec(r, r->exec, 0);
}

/* ---- Waiting */

static void consider(struct reading *r)
{
    struct mcp_job *job = mcp_job_find(r->call->server, r->process);
    struct mcp_outcome o;
    bool enough;

    mcp_job_outcome(job, &o); /* a watched job is never evicted */
    enough = r->ranged && (r->stream == BOXLITE_STDOUT ? o.out->total : o.err->total) > r->offset;
    if (r->time_over || !o.running || enough) {
        mcp_timer_cancel(r->call->server, &r->timer);
        read_now(r, job);
        return;
    }
    mcp_job_watch(job, &r->watch);
    r->watching = true;
}

static void on_news(void *data)
{
    struct reading *r = data;
    r->watching = false;
    consider(r);
}

static void on_time(void *data)
{
    struct reading *r = data;
    struct mcp_job *job = mcp_job_find(r->call->server, r->process);
    if (r->watching && job) {
        mcp_job_unwatch(job, &r->watch);
        r->watching = false;
    }
    r->time_over = true;
    consider(r);
}

static void start(struct mcp_call *call)
{
    const char *name = mcp_arg_str(call, "process", ""), *stream = mcp_arg_str(call, "stream", "stdout");
    const char *encoding = mcp_arg_str(call, "encoding", "text");
    int64_t wait = mcp_arg_int(call, "wait_seconds", 0);
    struct reading *r;

    if (!mcp_job_find(call->server, name)) {
        _cleanup_free_ char *message = mcp_printf("there is no process named %s", name);
        mcp_call_fail(call, BOXLITE_E_NOT_FOUND, message ? message : "no such process",
                      "names come from run_command and execute_code; the oldest that have ended are forgotten");
        return;
    }
    if ((strcmp(stream, "stdout") != 0 && strcmp(stream, "stderr") != 0) ||
        (strcmp(encoding, "text") != 0 && strcmp(encoding, "base64") != 0)) {
        mcp_call_fail(call, BOXLITE_E_INVALID, "argument stream or encoding: not one of its values",
                      "stream: stdout or stderr; encoding: text or base64");
        return;
    }
    r = calloc(1, sizeof(*r));
    if (!r) {
        mcp_call_fail_error(call, NULL);
        return;
    }
    r->call = call;
    snprintf(r->process, sizeof(r->process), "%s", name);
    r->stream = strcmp(stream, "stdout") == 0 ? BOXLITE_STDOUT : BOXLITE_STDERR;
    r->ranged = json_is_integer(json_object_get(call->arguments, "offset"));
    r->offset = (uint64_t)mcp_arg_int(call, "offset", 0);
    r->max = (size_t)mcp_arg_int(call, "max_bytes", (int64_t)mcp_server_budget(call->server) * 6 / 10);
    r->tail_lines = mcp_arg_int(call, "tail_lines", 0);
    r->pattern = mcp_arg_str(call, "pattern", NULL);
    r->context = mcp_arg_int(call, "context_lines", 2);
    r->base64 = strcmp(encoding, "base64") == 0;
    r->watch = (struct mcp_watch){.fn = on_news, .data = r};
    r->time_over = wait == 0;
    call->state = r;
    call->cancel = cancel;
    if (wait > 0) {
        mcp_timer_arm(call->server, &r->timer, (uint64_t)wait * 1000, on_time, r);
    }
    consider(r);
}

const struct mcp_tool mcp_tool_read_output = {
    .name = "read_output",
    .title = "Read a command's output",
    .description =
        "Read more of the output of a command or code run that execute_code or run_command started in the sandbox: by "
        "byte offset, the last lines, or the lines that hold a text (grep); also of one that still runs or is in the "
        "background, waiting up to 50 s for more output or its end. Tells whether it runs and its exit code.",
    .args = args,
    .output_schema =
        "{\"type\":\"object\",\"properties\":{\"process\":{\"type\":\"string\"},\"running\":{\"type\":\"boolean\"},"
        "\"exit_code\":{\"type\":\"integer\"},\"tests_passed\":{\"type\":\"boolean\"},\"content\":{\"type\":\"string\"},\"offset\":{\"type\":\"integer\"},"
        "\"next_offset\":{\"type\":\"integer\",\"description\":\"offset to continue with\"},\"total_bytes\":{\"type\":"
        "\"integer\"},\"end\":{\"type\":\"boolean\",\"description\":\"there is nothing behind it\"},\"matches\":{"
        "\"type\":\"integer\"},\"truncated\":{\"type\":\"boolean\"},\"first_kept_offset\":{\"type\":\"integer\","
        "\"description\":\"earlier bytes are not kept any more\"},\"not_utf8\":{\"type\":\"boolean\"},\"error\":{"
        "\"type\":\"string\"},\"code\":{\"type\":\"string\"},\"hint\":{\"type\":\"string\"}}}",
    .read_only = true,
    .start = start,
};
