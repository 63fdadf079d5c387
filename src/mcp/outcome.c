/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outcome.c: what a command came to, as JSON for programs and models and as text for people: never a bare number. What
 * ended it is named with the limit that it met.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

/* Linux numbers, the same on all architectures that boxes have. */
static const struct {
    int number;
    const char *name;
} signals[] = {
    {1, "SIGHUP"},   {2, "SIGINT"},   {3, "SIGQUIT"},  {4, "SIGILL"},   {5, "SIGTRAP"},  {6, "SIGABRT"},
    {7, "SIGBUS"},   {8, "SIGFPE"},   {9, "SIGKILL"},  {10, "SIGUSR1"}, {11, "SIGSEGV"}, {12, "SIGUSR2"},
    {13, "SIGPIPE"}, {14, "SIGALRM"}, {15, "SIGTERM"}, {18, "SIGCONT"}, {19, "SIGSTOP"}, {24, "SIGXCPU"},
    {25, "SIGXFSZ"}, {31, "SIGSYS"},
};

const char *mcp_signal_name(int number)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(signals); i++) {
        if (signals[i].number == number) {
            return signals[i].name;
        }
    }
    return "signal";
}

int mcp_signal_number(const char *name)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(signals); i++) {
        if (strcasecmp(signals[i].name, name) == 0 || strcasecmp(signals[i].name + 3, name) == 0) {
            return signals[i].number;
        }
    }
    return 0;
}

/* What the exit code alone does not say; NULL: it says all. */
static char *remark(const struct mcp_outcome *o)
{
    if (o->running) {
        return mcp_printf("still running; follow it with read_output process=\"%s\"", o->name);
    }
    if (o->result.flags & BOXLITE_EXIT_TIMED_OUT) {
        return mcp_printf("killed by its time limit of %u s; ask for more with timeout_seconds, or use background",
                          o->timeout_s);
    }
    if (o->result.flags & BOXLITE_EXIT_OOM_KILLED) {
        return mcp_printf("killed: the environment's %llu MiB of memory ran out; create_environment with more memory_mb",
                          (unsigned long long)(o->memory >> 20));
    }
    if (o->result.flags & BOXLITE_EXIT_BOX_LOST) {
        return mcp_printf("the environment ended before it did; the next call starts it afresh, without its files");
    }
    if (o->failure) {
        return mcp_printf("could not be started: %s", o->failure);
    }
    return o->result.signal ? mcp_printf("ended by %s", mcp_signal_name(o->result.signal)) : NULL;
}

static void set(json_t *v, const char *key, json_t *take)
{
    if (v && take) {
        json_object_set_new(v, key, take);
    }
}

/* The first bytes as they are, as many as fit. */
static char *exact(const struct mcp_capture *c, size_t limit, struct mcp_shown *shown)
{
    size_t len = 0, fit = limit / 4 * 3;
    _cleanup_free_ char *bytes = mcp_capture_bytes(c, &len);

    len = len < c->total ? c->head_len : len; /* else there is a gap behind the head */
    len = len < fit ? len : fit;
    *shown = (struct mcp_shown){.cut = len < c->total};
    return bytes ? mcp_base64(bytes, len) : NULL;
}

static char *output_text(const struct mcp_outcome *o, const struct mcp_capture *c, size_t limit, struct mcp_shown *shown)
{
    return o->base64 ? exact(c, limit, shown) : mcp_capture_text(c, limit, shown);
}

static void set_output(const struct mcp_outcome *o, json_t *v, const char *name, size_t limit, struct mcp_shown *shown)
{
    const struct mcp_capture *c = strcmp(name, "stdout") == 0 ? o->out : o->err;
    _cleanup_free_ char *text = output_text(o, c, limit, shown);
    _cleanup_free_ char *bytes = mcp_printf("%s_bytes", name), *lines = mcp_printf("%s_lines", name);
    if (text && bytes && lines) {
        set(v, name, json_string(text));
        set(v, bytes, json_integer((json_int_t)c->total));
        set(v, lines, json_integer((json_int_t)mcp_capture_lines(c)));
    }
}

static size_t stderr_limit(const struct mcp_outcome *o, size_t limit)
{
    return limit / 2 + (o->out->total < limit ? limit - (size_t)o->out->total : 0);
}

/* limit: bytes of stdout; what it does not need is stderr's, beside half of it. */
static json_t *fields(const struct mcp_outcome *o, size_t limit)
{
    json_t *v = json_object();
    _cleanup_free_ char *note = remark(o);
    struct mcp_shown out = {0}, err = {0};

    if (!o->running) {
        set(v, "exit_code", json_integer(o->result.exit_code));
    }
    set(v, "running", json_boolean(o->running));
    set_output(o, v, "stdout", limit, &out);
    set_output(o, v, "stderr", stderr_limit(o, limit), &err);
    set(v, "truncated", json_boolean(out.cut || err.cut));
    set(v, "timed_out", json_boolean(o->result.flags & BOXLITE_EXIT_TIMED_OUT));
    set(v, "oom_killed", json_boolean(o->result.flags & BOXLITE_EXIT_OOM_KILLED));
    set(v, "duration_ms", json_integer((json_int_t)(o->wall_ns / 1000000)));
    set(v, "process", json_string(o->name));
    if (o->base64) {
        set(v, "encoding", json_string("base64"));
    }
    if (out.not_utf8 || err.not_utf8) {
        set(v, "not_utf8", json_true());
    }
    if (o->result.signal) {
        set(v, "signal", json_string(mcp_signal_name(o->result.signal)));
    }
    if (o->failure) {
        set(v, "error", json_string(o->failure));
    }
    if (note) {
        set(v, "note", json_string(note));
    } else if (out.cut || err.cut) {
        note = mcp_printf("the whole output: read_output process=\"%s\"%s", o->name,
                          o->base64 ? " encoding=\"base64\"" : "");
        set(v, "note", note ? json_string(note) : NULL);
    }
    return v;
}

/* With a newline at its end if it is not empty. */
static const char *newline_after(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && text[n - 1] != '\n' ? "\n" : "";
}

static char *text_of(const struct mcp_outcome *o, size_t limit)
{
    struct mcp_shown shown;
    _cleanup_free_ char *out = output_text(o, o->out, limit, &shown),
                        *err = output_text(o, o->err, stderr_limit(o, limit), &shown);
    _cleanup_free_ char *note = remark(o), *status = NULL;

    if (!out || !err) {
        return NULL;
    }
    mcp_strip_controls(out);
    mcp_strip_controls(err);
    status = o->running ? strdup("running") : mcp_printf("exit code %d", o->result.exit_code);
    return mcp_printf("%s%s%s%s%s%s%s%s%s", out, newline_after(out), err[0] ? "stderr:\n" : "", err,
                      newline_after(err), status ? status : "", note ? " (" : "", note ? note : "", note ? ")" : "");
}

json_t *mcp_outcome_json(const struct mcp_outcome *o, size_t budget, char **ret_text)
{
    size_t limit = budget;
    json_t *v = fields(o, limit);
    size_t size = json_dumpb(v, NULL, 0, JSON_COMPACT);

    while (v && size > budget && limit > 64) {
        size_t next = (size_t)((double)limit * (double)budget / (double)size * 0.95);
        limit = next < limit * 9 / 10 ? next : limit * 9 / 10;
        json_decref(v);
        v = fields(o, limit);
        size = json_dumpb(v, NULL, 0, JSON_COMPACT);
    }
    *ret_text = text_of(o, limit);
    return v;
}
