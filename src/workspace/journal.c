/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.c: what an apply is going to do, written before it does anything, so that whoever finds it after a crash can
 * take it back. A text: the first line, the root's path and NUL, then for each operation a line of numbers, its path
 * and its link target, each with a NUL; at the end the SHA-256 of all before it. A damaged one is refused whole: then
 * nothing is touched.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sha256.h"
#include "workspace/txn.h"

#define MAGIC "boxlite-apply 1\n"

void bx_ws_plan_done(struct bx_ws_plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->v[i].path);
        free(p->v[i].target);
    }
    free(p->v);
    *p = (struct bx_ws_plan){0};
}

int bx_ws_plan_add(struct bx_ws_plan *p, struct bx_ws_op *take, boxlite_error **err)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 64;
        struct bx_ws_op *v = p->n < BX_WS_NODES_MAX ? realloc(p->v, cap * sizeof(*v)) : NULL;
        if (!v) {
            free(take->path);
            free(take->target);
            return bx_fail_oom(err);
        }
        p->v = v;
        p->cap = cap;
    }
    p->v[p->n++] = *take;
    return 0;
}

static bool goes(const struct bx_ws_op *op)
{
    return op->type == BX_WS_OP_REMOVE || op->type == BX_WS_OP_RMDIR;
}

static int compare_ops(const void *a, const void *b)
{
    const struct bx_ws_op *x = a, *y = b;
    if (goes(x) != goes(y)) {
        return goes(x) ? -1 : 1;
    }
    if (!goes(x) && (x->type == BX_WS_OP_CHMOD) != (y->type == BX_WS_OP_CHMOD)) {
        return x->type == BX_WS_OP_CHMOD ? 1 : -1; /* a folder may lose its write bit last */
    }
    int c = bx_ws_path_cmp(x->path, y->path);
    return goes(x) ? -c : c;
}

void bx_ws_plan_sort(struct bx_ws_plan *p)
{
    if (p->n > 1) {
        qsort(p->v, p->n, sizeof(*p->v), compare_ops);
    }
}

int bx_ws_journal_text(const char *root, const struct bx_ws_plan *plan, struct bx_buf *ret)
{
    char digest[BX_DIGEST_LEN + 1];
    int r = bx_buf_appends(ret, MAGIC);
    r = r < 0 ? r : bx_buf_append(ret, root, strlen(root) + 1);
    for (size_t i = 0; r == 0 && i < plan->n; i++) {
        const struct bx_ws_op *op = &plan->v[i];
        const char *target = op->target ? op->target : "";
        r = bx_buf_appendf(ret,
                           "%d %d %u %" PRId64 " %" PRIu64 " %d %" PRIu64 " %d %u %" PRIu64
                           " %" PRId64 " %" PRIu64 "\n",
                           op->type, op->put, op->mode, op->mtime_ns, op->size, op->source, op->ino,
                           op->old.type, op->old.mode, op->old.size, op->old.mtime_ns, op->old.ino);
        r = r < 0 ? r : bx_buf_append(ret, op->path, strlen(op->path) + 1);
        r = r < 0 ? r : bx_buf_append(ret, target, strlen(target) + 1);
    }
    r = r < 0 ? r : bx_sha256_mem(bx_buf_data(ret), ret->len, digest);
    return r < 0 ? r : bx_buf_append(ret, digest, BX_DIGEST_LEN);
}

/* Twelve numbers, each in its bounds, and a line's end. */
static const char *parse_numbers(const char *p, struct bx_ws_op *op)
{
    static const int64_t max[] = {BX_WS_OP_CHMOD, BX_WS_LINK, 07777,     INT64_MAX,
                                  INT64_MAX,      INT32_MAX,  INT64_MAX, BX_WS_OTHER,
                                  07777,          INT64_MAX,  INT64_MAX, INT64_MAX};
    int64_t v[BX_ARRAY_SIZE(max)];
    for (size_t i = 0; i < BX_ARRAY_SIZE(max); i++) {
        char *end;
        errno = 0;
        v[i] = strtoll(p, &end, 10);
        bool negative_ok = i == 3 || i == 5 || i == 10;
        if (errno || end == p || *p == '+' || *p == ' ' || v[i] > max[i] ||
            (v[i] < 0 && !negative_ok) || *end != (i + 1 < BX_ARRAY_SIZE(max) ? ' ' : '\n')) {
            return NULL;
        }
        p = end + 1;
    }
    *op = (struct bx_ws_op){
        .type = (enum bx_ws_op_type)v[0],
        .put = (enum bx_ws_type)v[1],
        .mode = (uint32_t)v[2],
        .mtime_ns = v[3],
        .size = (uint64_t)v[4],
        .source = (int)v[5],
        .ino = (uint64_t)v[6],
        .old = {.type = (enum bx_ws_type)v[7],
                .mode = (uint32_t)v[8],
                .size = (uint64_t)v[9],
                .mtime_ns = v[10],
                .ino = (uint64_t)v[11]},
    };
    return v[0] >= BX_WS_OP_REMOVE ? p : NULL;
}

static int parse_ops(const char *p, const char *end, struct bx_ws_plan *plan, boxlite_error **err)
{
    while (p < end) {
        struct bx_ws_op op;
        p = parse_numbers(p, &op);
        const char *path = p, *target = path ? path + strlen(path) + 1 : NULL;
        if (!path || target >= end || target + strlen(target) >= end || !bx_ws_path_ok(path)) {
            return -EBADMSG;
        }
        op.path = strdup(path);
        op.target = *target ? strdup(target) : NULL;
        int r = op.path && (!*target || op.target) ? 0 : -ENOMEM;
        if (r < 0) {
            free(op.path);
            free(op.target);
            return r;
        }
        r = bx_ws_plan_add(plan, &op, err);
        if (r < 0) {
            return r;
        }
        p = target + strlen(target) + 1;
    }
    return 0;
}

int bx_ws_journal_parse(const char *text, size_t len, char **ret_root, struct bx_ws_plan *ret,
                        boxlite_error **err)
{
    struct bx_ws_plan plan = {0};
    char digest[BX_DIGEST_LEN + 1];
    const size_t magic = strlen(MAGIC);
    int r = -EBADMSG;
    /* The caller's text ends with a NUL behind it. */
    if (len > magic + BX_DIGEST_LEN && memcmp(text, MAGIC, magic) == 0 &&
        bx_sha256_mem(text, len - BX_DIGEST_LEN, digest) == 0 &&
        memcmp(text + len - BX_DIGEST_LEN, digest, BX_DIGEST_LEN) == 0) {
        const char *end = text + len - BX_DIGEST_LEN, *root = text + magic;
        const char *ops = memchr(root, 0, (size_t)(end - root));
        r = ops && *root == '/' ? parse_ops(ops + 1, end, &plan, NULL) : -EBADMSG;
        if (r == 0 && !(*ret_root = strdup(root))) {
            r = -ENOMEM;
        }
    }
    if (r < 0) {
        bx_ws_plan_done(&plan);
        return r == -ENOMEM ? bx_fail_oom(err)
                            : bx_fail(err, BOXLITE_E_INTEGRITY, "the journal is damaged");
    }
    *ret = plan;
    return 0;
}
