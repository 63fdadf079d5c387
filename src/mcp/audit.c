/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit.c: what was done through this server, one JSON line a call, appended with a single write so that several servers
 * may share a file. At AUDIT_MAX the file becomes FILE.1 and a new one begins. Programs and file contents are told by
 * size only, values of environment variables never, and in command lines what looks like a secret is masked. A log that
 * cannot be written is told on standard error and never stops the work.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mcp/mcp.h"

#define AUDIT_MAX (10 << 20)

/* Names before "=" or ":" or a blank whose value is masked. */
static const char *const secret_words[] = {"password", "passwd", "secret", "token", "api_key", "apikey", "api-key",
                                           "access_key", "private_key", "authorization", "bearer"};

/* Length of the secret's name at p, or 0. */
static size_t secret_at(const char *p)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(secret_words); i++) {
        size_t n = strlen(secret_words[i]);
        if (strncasecmp(p, secret_words[i], n) == 0) {
            return n;
        }
    }
    return 0;
}

char *mcp_mask(const char *text)
{
    char *out = malloc(4 * strlen(text) + 1), *o = out;
    while (out && *text) {
        size_t n = secret_at(text), gap;
        if (n == 0) {
            *o++ = *text++;
            continue;
        }
        gap = strspn(text + n, "=: \t\"'");
        memcpy(o, text, n + gap);
        o += n + gap;
        text += n + gap;
        if (gap > 0 && *text && secret_at(text) == 0) { /* "Authorization: Bearer x": the x */
            memcpy(o, "***", 3);
            o += 3;
            text += strcspn(text, " \t\r\n\"'&;|");
        }
    }
    if (out) {
        *o = '\0';
    }
    return out;
}

/* An argument as the log shows it. */
static json_t *shown(const char *name, const json_t *value)
{
    static const char *const sizes[] = {"code", "content", "stdin", "text"};
    const char *key;
    json_t *item, *v;

    for (size_t i = 0; i < BX_ARRAY_SIZE(sizes); i++) {
        if (strcmp(sizes[i], name) == 0) {
            return json_pack("{s:I}", "bytes", (json_int_t)json_string_length(value));
        }
    }
    if (json_is_object(value)) { /* env, files: names only */
        v = json_array();
        json_object_foreach((json_t *)value, key, item)
        {
            json_array_append_new(v, json_string(key));
        }
        return v;
    }
    if (json_is_string(value)) {
        _cleanup_free_ char *masked = mcp_mask(json_string_value(value));
        return masked ? json_string(masked) : json_null();
    }
    return json_incref((json_t *)value);
}

/* The image of the environment that the call was about, with its digest. */
static void name_image(struct mcp_call *call, json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "environment"));
    const struct mcp_environment *env =
        name ? mcp_environment_find(mcp_server_environments(call->server), name) : NULL;

    if (env && mcp_environment_digest(env)) {
        json_object_set_new(entry, "image", json_string(mcp_environment_image(env)));
        json_object_set_new(entry, "image_digest", json_string(mcp_environment_digest(env)));
    }
}

static json_t *entry(struct mcp_call *call, const json_t *result, bool is_error)
{
    static const char *const copied[] = {"environment", "image", "process", "exit_code", "signal", "running", "timed_out",
                                         "oom_killed", "stdout_bytes", "stderr_bytes", "code"};
    json_t *v, *arguments = json_object(), *value;
    struct timespec now;
    struct tm tm;
    char when[40];
    size_t n;
    const char *key;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(when + n, sizeof(when) - n, ".%03ldZ", now.tv_nsec / 1000000);
    json_object_foreach(call->arguments, key, value)
    {
        json_object_set_new(arguments, key, shown(key, value));
    }
    v = json_pack("{s:s, s:i, s:s, s:s, s:o, s:b, s:I}", "time", when, "pid", (int)getpid(), "client",
                  mcp_server_client(call->server), "tool", call->tool->name, "arguments", arguments, "error", is_error,
                  "duration_ms", (json_int_t)((mcp_now_ns() - call->started_ns) / 1000000));
    for (size_t i = 0; v && i < BX_ARRAY_SIZE(copied); i++) {
        value = json_object_get(result, copied[i]);
        if (value) {
            json_object_set(v, copied[i], value);
        }
    }
    name_image(call, v);
    return v;
}

static int open_log(const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= AUDIT_MAX) {
        _cleanup_free_ char *old = mcp_printf("%s.1", path);
        close(fd);
        if (!old || rename(path, old) < 0) {
            return -1;
        }
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    return fd;
}

void mcp_audit(struct mcp_call *call, const json_t *result, bool is_error)
{
    const char *path = mcp_server_options(call->server)->audit_log;
    _cleanup_json_ json_t *v = path ? entry(call, result, is_error) : NULL;
    _cleanup_free_ char *text = v ? json_dumps(v, JSON_COMPACT) : NULL, *line = NULL;
    size_t len;
    int fd;

    if (!text) {
        return;
    }
    line = mcp_printf("%s\n", text);
    len = line ? strlen(line) : 0;
    fd = line ? open_log(path) : -1;
    if (fd < 0 || write(fd, line, len) != (ssize_t)len) {
        fprintf(stderr, "boxlite-mcp-server: audit log %s: %s\n", path, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
}
