/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.c: see spec.h.
 */
#include <errno.h>

#include "guest/files.h"
#include "guest/spec.h"
#include "wire/frame.h"
#include "wire/proto.h"

#define STRINGS_MAX 65536

static int parse_rlimit(const struct bx_field *f, struct spec *s)
{
    if (f->len != 24 || s->nrlimits >= SPEC_RLIMITS_MAX || bx_get_le64(f->data) >= RLIM_NLIMITS) {
        return -EPROTO;
    }
    s->rlimits[s->nrlimits++] = (struct spec_rlimit){
        .resource = (int)bx_get_le64(f->data),
        .limit = {.rlim_cur = bx_get_le64(f->data + 8), .rlim_max = bx_get_le64(f->data + 16)},
    };
    return 0;
}

static int parse_string(const struct bx_field *f, char **ret)
{
    char *s;
    int r = bx_field_str(f, &s);
    if (r == 0) {
        free(*ret);
        *ret = s;
    }
    return r;
}

static int add_string(const struct bx_field *f, struct bx_strv *sv)
{
    int r = bx_strv_add_mem(sv, (const char *)f->data, f->len);
    return r == -EINVAL ? -EPROTO : r;
}

static int parse_number(const struct bx_field *f, uint64_t max, uint32_t *id)
{
    uint64_t v;
    int r = bx_field_u64(f, max, &v);
    if (r == 0) {
        *id = (uint32_t)v;
    }
    return r;
}

static int parse_field(const struct bx_field *f, struct spec *s)
{
    const char *path;
    const uint8_t *data;
    size_t len;
    switch (f->tag) {
    case BX_T_EXEC:
        return parse_number(f, BX_EXEC_MAX, &s->id);
    case BX_T_ARG:
        return add_string(f, &s->argv);
    case BX_T_ENV:
        return add_string(f, &s->env);
    case BX_T_CWD:
        return parse_string(f, &s->cwd);
    case BX_T_USER:
        return parse_string(f, &s->user);
    case BX_T_BUILTIN:
        return parse_string(f, &s->builtin);
    case BX_T_FLAGS:
        return bx_field_u64(f, UINT64_MAX, &s->flags);
    case BX_T_ROWS:
        return bx_field_u64(f, UINT16_MAX, &s->rows);
    case BX_T_COLS:
        return bx_field_u64(f, UINT16_MAX, &s->cols);
    case BX_T_TIMEOUT_MS:
        return bx_field_u64(f, INT64_MAX / 1000000, &s->timeout_ms);
    case BX_T_RLIMIT:
        return parse_rlimit(f, s);
    case BX_T_FILE:
        return files_parse(f, &path, &data, &len);
    default:
        return 0;
    }
}

int spec_parse(const struct bx_msg *msg, struct spec *s)
{
    struct bx_msg walk = *msg;
    struct bx_field f;
    int r;
    *s = (struct spec){.argv = {.max = STRINGS_MAX}, .env = {.max = STRINGS_MAX}, .files = *msg};
    while ((r = bx_msg_next(&walk, &f)) > 0) {
        r = parse_field(&f, s);
        if (r < 0) {
            return r;
        }
    }
    return r < 0 || s->id == 0 ? -EPROTO : 0;
}

void spec_done(struct spec *s)
{
    bx_strv_done(&s->argv);
    bx_strv_done(&s->env);
    free(s->cwd);
    free(s->user);
    free(s->builtin);
    *s = (struct spec){0};
}
