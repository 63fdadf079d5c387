/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execspec.c: commands and their results as message fields (boxconfig.h, wire/proto.h).
 *
 * Both directions are used on both links, so a command that came from a client is parsed,
 * completed with the box's defaults and written again for the agent: nothing unread is ever passed
 * on. A result that comes from a guest is hostile input: every number has its bound here.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "box/boxconfig.h"
#include "wire/frame.h"
#include "wire/msg.h"
#include "wire/proto.h"

#define MS_MAX (UINT64_C(1) << 53)
#define COUNT_MAX ((uint64_t)INT64_MAX)
#define FAILURE_MAX 1024u

/* ---- what a command is started with */

void bx_exec_spec_done(struct bx_exec_spec *s)
{
    bx_strv_done(&s->argv);
    bx_strv_done(&s->env);
    free(s->cwd);
    free(s->user);
    free(s->builtin);
    bx_buf_done(&s->files);
    *s = (struct bx_exec_spec){0};
}

static int add_file_field(struct bx_exec_spec *s, const void *field, size_t len)
{
    s->files.max = BX_EXEC_FILES_MAX;
    return bx_msg_bytes(&s->files, BX_T_FILE, field, len);
}

int bx_exec_spec_add_file(struct bx_exec_spec *s, const char *path, const void *data, size_t len)
{
    _cleanup_buf_ struct bx_buf field = BX_BUF_INIT(BX_EXEC_FILES_MAX);
    int r = bx_buf_append(&field, path, strlen(path) + 1);
    r = r < 0 ? r : bx_buf_append(&field, data, len);
    return r < 0 ? r : add_file_field(s, bx_buf_data(&field), field.len);
}

static int put_strv(struct bx_buf *msg, uint16_t tag, const struct bx_strv *sv)
{
    int r = 0;
    for (size_t i = 0; i < sv->n && r == 0; i++) {
        r = bx_msg_str(msg, tag, sv->v[i]);
    }
    return r;
}

static int put_limit(struct bx_buf *msg, const struct bx_exec_limit *l)
{
    uint8_t raw[24];
    const uint64_t v[3] = {l->resource, l->soft, l->hard};
    for (int i = 0; i < 3; i++) {
        bx_put_le64(raw + 8 * i, v[i]);
    }
    return bx_msg_bytes(msg, BX_T_RLIMIT, raw, sizeof(raw));
}

/* A number of 0 is left out: it is what a reader takes for an absent one. */
static int put_u64(struct bx_buf *msg, uint16_t tag, uint64_t v)
{
    return v ? bx_msg_u64(msg, tag, v) : 0;
}

int bx_exec_spec_to_msg(const struct bx_exec_spec *s, struct bx_buf *msg)
{
    int r;
    if ((r = put_strv(msg, BX_T_ARG, &s->argv)) < 0 || (r = put_strv(msg, BX_T_ENV, &s->env)) < 0 ||
        (r = bx_msg_str(msg, BX_T_CWD, s->cwd)) < 0 ||
        (r = bx_msg_str(msg, BX_T_USER, s->user)) < 0 ||
        (r = bx_msg_str(msg, BX_T_BUILTIN, s->builtin)) < 0 ||
        (r = put_u64(msg, BX_T_FLAGS, s->flags)) < 0 ||
        (r = put_u64(msg, BX_T_ROWS, s->rows)) < 0 || (r = put_u64(msg, BX_T_COLS, s->cols)) < 0 ||
        (r = put_u64(msg, BX_T_TIMEOUT_MS, s->timeout_ms)) < 0 ||
        (r = put_u64(msg, BX_T_DETACHED, s->detached)) < 0 ||
        (r = bx_buf_append(msg, bx_buf_data(&s->files), s->files.len)) < 0) {
        return r;
    }
    for (size_t i = 0; i < s->nlimits; i++) {
        if ((r = put_limit(msg, &s->limits[i])) < 0) {
            return r;
        }
    }
    return 0;
}

static int get_str(const struct bx_field *f, char **ret)
{
    return *ret ? -EPROTO : bx_field_str(f, ret); /* once only */
}

static int get_strv(const struct bx_field *f, struct bx_strv *sv)
{
    int r = bx_strv_add_mem(sv, (const char *)f->data, f->len);
    return r == -EINVAL || r == -E2BIG ? -EPROTO : r;
}

static int get_limit(const struct bx_field *f, struct bx_exec_spec *s)
{
    if (f->len != 24 || s->nlimits == BX_ARRAY_SIZE(s->limits)) {
        return -EPROTO;
    }
    struct bx_exec_limit *l = &s->limits[s->nlimits++];
    l->resource = bx_get_le64(f->data);
    l->soft = bx_get_le64(f->data + 8);
    l->hard = bx_get_le64(f->data + 16);
    return l->resource < 64 && l->soft <= l->hard ? 0 : -EPROTO;
}

/* A path that is not empty, a NUL, the content. */
static int get_file(const struct bx_field *f, struct bx_exec_spec *s)
{
    int r = f->len > 1 && f->data[0] != 0 && memchr(f->data, 0, f->len)
                ? add_file_field(s, f->data, f->len)
                : -EPROTO;
    return r == -ENOBUFS ? -EPROTO : r;
}

static int spec_field(struct bx_exec_spec *s, const struct bx_field *f)
{
    uint64_t n = 0;
    int r;
    switch (f->tag) {
    case BX_T_ARG:
        return get_strv(f, &s->argv);
    case BX_T_ENV:
        return get_strv(f, &s->env);
    case BX_T_CWD:
        return get_str(f, &s->cwd);
    case BX_T_USER:
        return get_str(f, &s->user);
    case BX_T_BUILTIN:
        return get_str(f, &s->builtin);
    case BX_T_RLIMIT:
        return get_limit(f, s);
    case BX_T_FILE:
        return get_file(f, s);
    case BX_T_FLAGS:
        r = bx_field_u64(f, BX_EXEC_TTY | BX_EXEC_STDIN, &n);
        s->flags = (uint32_t)n;
        return r;
    case BX_T_ROWS:
        r = bx_field_u64(f, UINT16_MAX, &n);
        s->rows = (uint16_t)n;
        return r;
    case BX_T_COLS:
        r = bx_field_u64(f, UINT16_MAX, &n);
        s->cols = (uint16_t)n;
        return r;
    case BX_T_TIMEOUT_MS:
        return bx_field_u64(f, MS_MAX, &s->timeout_ms);
    case BX_T_DETACHED:
        r = bx_field_u64(f, 1, &n);
        s->detached = n != 0;
        return r;
    default:
        return 0;
    }
}

/* A program (or a built-in) there must be, and names in the environment. */
static int check_spec(const struct bx_exec_spec *s)
{
    if (!s->builtin && (s->argv.n == 0 || s->argv.v[0][0] == '\0')) {
        return -EPROTO;
    }
    for (size_t i = 0; i < s->env.n; i++) {
        const char *eq = strchr(s->env.v[i], '=');
        if (!eq || eq == s->env.v[i]) {
            return -EPROTO;
        }
    }
    return 0;
}

int bx_exec_spec_from_msg(const struct bx_msg *m, struct bx_exec_spec *ret)
{
    struct bx_exec_spec s = {0};
    struct bx_msg walk = *m;
    struct bx_field f;
    int r;
    /* argv of "sh -c '…' a b c …" can be long: as many as a message may hold within reason. */
    s.argv.max = s.env.max = 65536;
    while ((r = bx_msg_next(&walk, &f)) > 0) {
        if ((r = spec_field(&s, &f)) < 0) {
            break;
        }
    }
    if (r == 0) {
        r = check_spec(&s);
    }
    if (r < 0) {
        bx_exec_spec_done(&s);
        return r;
    }
    *ret = s;
    return 0;
}

/* ---- how it ended */

static int exit_field(struct bx_exec_exit *e, const struct bx_field *f, bool *has_code,
                      int *start_error)
{
    uint64_t n = 0;
    int r;
    switch (f->tag) {
    case BX_T_CODE:
        r = bx_field_u64(f, 255, &n);
        e->code = (int32_t)n;
        *has_code = true;
        return r;
    case BX_T_SIGNO:
        r = bx_field_u64(f, 64, &n);
        e->signal = (int32_t)n;
        return r;
    case BX_T_EXIT_FLAGS:
        r = bx_field_u64(f, UINT32_MAX, &n);
        e->flags |= (uint32_t)n;
        return r;
    case BX_T_WALL_US:
        return bx_field_u64(f, COUNT_MAX, &e->wall_us);
    case BX_T_USER_US:
        return bx_field_u64(f, COUNT_MAX, &e->user_us);
    case BX_T_SYSTEM_US:
        return bx_field_u64(f, COUNT_MAX, &e->system_us);
    case BX_T_MAX_RSS:
        return bx_field_u64(f, COUNT_MAX, &e->max_rss);
    case BX_T_START_ERROR:
        r = bx_field_u64(f, 4095, &n);
        *start_error = (int)n;
        return r;
    case BX_T_ERROR:
        return f->len > FAILURE_MAX ? -EPROTO : get_str(f, &e->failure);
    default:
        return 0;
    }
}

/* One exit code for every kind of end, as the shell would say it. */
static int settle_exit(struct bx_exec_exit *e, bool has_code, int start_error)
{
    if (start_error) {
        e->flags |= BOXLITE_EXIT_NOT_STARTED;
        if (!e->failure && !(e->failure = strdup(strerror(start_error)))) {
            return -ENOMEM;
        }
    }
    if (e->flags & BOXLITE_EXIT_NOT_STARTED) {
        e->signal = 0;
        e->code = has_code ? e->code : start_error == ENOENT ? 127 : 126;
    } else if (e->flags & BOXLITE_EXIT_TIMED_OUT) {
        e->code = 124;
    } else if (e->signal) {
        e->code = 128 + e->signal;
    } else if (!has_code) {
        return -EPROTO;
    }
    return 0;
}

int bx_exec_exit_from_msg(const struct bx_msg *m, struct bx_exec_exit *ret)
{
    struct bx_exec_exit e = {0};
    struct bx_msg walk = *m;
    struct bx_field f;
    bool has_code = false;
    int r, start_error = 0;
    while ((r = bx_msg_next(&walk, &f)) > 0) {
        if ((r = exit_field(&e, &f, &has_code, &start_error)) < 0) {
            break;
        }
    }
    if (r == 0) {
        r = settle_exit(&e, has_code, start_error);
    }
    if (r < 0) {
        bx_exec_exit_done(&e);
        return r;
    }
    *ret = e;
    return 0;
}

int bx_exec_exit_to_msg(const struct bx_exec_exit *e, struct bx_buf *msg)
{
    int r;
    if ((r = bx_msg_u64(msg, BX_T_CODE, (uint64_t)e->code)) < 0 ||
        (r = put_u64(msg, BX_T_SIGNO, (uint64_t)e->signal)) < 0 ||
        (r = put_u64(msg, BX_T_EXIT_FLAGS, e->flags)) < 0 ||
        (r = put_u64(msg, BX_T_WALL_US, e->wall_us)) < 0 ||
        (r = put_u64(msg, BX_T_USER_US, e->user_us)) < 0 ||
        (r = put_u64(msg, BX_T_SYSTEM_US, e->system_us)) < 0 ||
        (r = put_u64(msg, BX_T_MAX_RSS, e->max_rss)) < 0) {
        return r;
    }
    return bx_msg_str(msg, BX_T_ERROR, e->failure);
}
