/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_read_file.c: a range of a file of an environment, as text, as base64 with exact bytes, or, for a picture, as
 * image content that a model can look at. Read by a shell command whose stdout is the bytes and whose stderr is the size.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define IMAGE_MAX (4u << 20)

struct file {
    struct mcp_call *call;
    struct mcp_job *job;
    uint64_t offset;
    size_t max;
    bool base64, picture; /* named like one */
};

static const struct mcp_arg args[] = {
    {"path", MCP_STRING, true, false, "File to read; a relative name is below /workspace.", 0, 4096},
    {"environment", MCP_STRING, false, false, "Name of the environment. Default: \"default\".", 0, 64},
    {"offset", MCP_INTEGER, false, false, "First byte to read. Default 0.", 0, INT64_MAX},
    {"max_bytes", MCP_INTEGER, false, false, "Most bytes to read, 1 to 1048576. Default: what fits a result, about 6000.", 1, 1 << 20},
    {"encoding", MCP_STRING, false, false,
     "\"text\" or \"base64\" (exact bytes). Default: text, but .png, .jpg, .gif and .webp as an image.", 0, 8},
    {0},
};

static const char SCRIPT[] =
    "cd /workspace 2>/dev/null || cd /tmp; fail() { echo \"boxlite: $1: $2\" >&2; exit 66; }\n"
    "[ -e \"$1\" ] || fail \"$1\" 'no such file'; [ ! -d \"$1\" ] || fail \"$1\" 'is a folder'\n"
    "[ -r \"$1\" ] || fail \"$1\" 'may not be read'; [ -f \"$1\" ] || fail \"$1\" 'is not a regular file'\n"
    "wc -c < \"$1\" >&2; tail -c \"+$2\" -- \"$1\" | head -c \"$3\"";

static void cancel(struct mcp_call *call)
{
    struct file *f = call->state;
    mcp_job_kill(f->job);
    free(f);
}

static void answer(struct mcp_call *call, const struct file *f, const struct mcp_outcome *o, uint64_t size)
{
    size_t len = 0;
    bool bad = false;
    _cleanup_free_ char *bytes = mcp_capture_bytes(o->out, &len);
    _cleanup_free_ char *text = NULL;
    const char *mime = bytes && f->picture && len == size ? mcp_image_type(mcp_arg_str(call, "path", ""), bytes, len) : NULL;
    char *shown = NULL;
    json_t *v, *more = NULL;

    len = mime || len < f->max ? len : f->max; /* what is no picture is text */
    if (bytes && !f->base64 && !mime) {
        len -= f->offset + len < size ? mcp_utf8_cut_at_end(bytes, len) : 0;
        text = malloc(3 * len + 1);
    } else if (bytes) {
        text = mcp_base64(bytes, len);
    }
    if (!text) {
        mcp_call_fail_error(call, NULL);
        return;
    }
    if (!f->base64 && !mime) {
        text[mcp_utf8_clean(text, bytes, len, &bad)] = '\0';
        shown = strdup(text);
        mcp_strip_controls(shown);
    }
    v = json_pack("{s:s, s:I, s:I, s:I, s:s}", "path", mcp_arg_str(call, "path", ""), "size", (json_int_t)size, "offset",
                  (json_int_t)f->offset, "next_offset", (json_int_t)(f->offset + len), "encoding",
                  mime ? "image" : f->base64 ? "base64" : "text");
    json_object_set_new(v, "end", json_boolean(f->offset + len >= size));
    if (bad) {
        json_object_set_new(v, "not_utf8", json_true());
    }
    if (mime) {
        more = json_pack("[{s:s, s:s, s:s}]", "type", "image", "data", text, "mimeType", mime);
    } else {
        json_object_set_new(v, "content", json_string(text));
    }
    mcp_environment_describe(call, o->environment, v);
    mcp_call_finish_more(call, v, shown ? shown : mcp_printf("%llu bytes", (unsigned long long)size), more);
}

static void on_done(void *data, struct mcp_job *job)
{
    struct file f = *(struct file *)data;
    struct mcp_failure why;
    struct mcp_outcome o;
    struct mcp_shown shown;
    _cleanup_free_ char *err = NULL;

    free(data);
    if (mcp_job_failed(job, &why)) {
        mcp_call_fail_with(f.call, &why);
        return;
    }
    mcp_job_outcome(job, &o);
    err = mcp_capture_text(o.err, 1000, &shown);
    if (o.result.exit_code != 0) {
        size_t n = err ? strlen(err) : 0;
        if (n > 0 && err[n - 1] == '\n') {
            err[n - 1] = '\0';
        }
        mcp_call_fail(f.call, o.result.exit_code == 66 ? BOXLITE_E_NOT_FOUND : BOXLITE_E_IO,
                      err && err[0] ? err : "the file could not be read", "run_command with ls shows what is there");
        return;
    }
    answer(f.call, &f, &o, err ? strtoull(err, NULL, 10) : 0);
}

static void start(struct mcp_call *call)
{
    const char *path = mcp_arg_str(call, "path", ""), *encoding = mcp_arg_str(call, "encoding", NULL);
    const struct mcp_options *o = mcp_server_options(call->server);
    int64_t max = mcp_arg_int(call, "max_bytes", (int64_t)mcp_server_budget(call->server) * 6 / 10);
    _cleanup_free_ char *from = NULL, *count = NULL;
    const char *argv[] = {"/bin/sh", "-c", SCRIPT, "sh", path, NULL, NULL};
    struct mcp_job_spec spec = {.argv = argv, .argc = BX_ARRAY_SIZE(argv), .timeout_s = o->timeout_s};
    struct mcp_environment *env;
    struct file *f;
    bool base64;
    int r;

    if (!mcp_call_encoding(call, &base64)) {
        return;
    }
    f = calloc(1, sizeof(*f));
    if (!f || !mcp_call_environment(call, &env)) {
        if (!f) {
            mcp_call_fail_error(call, NULL);
        }
        free(f);
        return;
    }
    f->call = call;
    f->offset = (uint64_t)mcp_arg_int(call, "offset", 0);
    f->base64 = base64;
    f->picture = !encoding && f->offset == 0 && mcp_image_named(path);
    f->max = (size_t)max;
    max = f->picture ? IMAGE_MAX : max;
    argv[5] = from = mcp_printf("%llu", (unsigned long long)f->offset + 1);
    argv[6] = count = mcp_printf("%lld", (long long)max);
    spec.capture = (size_t)(max < 2048 ? 2048 : max);
    call->state = f;
    call->cancel = cancel;
    r = from && count ? mcp_job_start(call->server, env, &spec, on_done, f, &f->job) : -1;
    if (r < 0) {
        free(f);
        mcp_call_fail_job(call, r);
    }
}

const struct mcp_tool mcp_tool_read_file = {
    .name = "read_file",
    .title = "Read a file in a micro-VM",
    .description = "Read a file of a sandbox environment: a byte range as text or as base64 with exact bytes; pictures "
                   "(plots, screenshots) come as an image.",
    .args = args,
    .output_schema =
        "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"},"
        "\"offset\":{\"type\":\"integer\"},\"next_offset\":{\"type\":\"integer\"},\"end\":{\"type\":\"boolean\"},"
        "\"encoding\":{\"type\":\"string\"},\"content\":{\"type\":\"string\"},\"not_utf8\":{\"type\":\"boolean\"},"
        MCP_ENVIRONMENT_SCHEMA "}}",
    .read_only = true,
    .idempotent = true,
    .start = start,
};
