/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c: changes as operations on the host. A rename is a removal and a new file. Folders that are missing on the way
 * to a new file are made, as `mkdir -p` would.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "workspace/box.h"

static int add(struct bx_ws_plan *p, enum bx_ws_op_type type, const char *path,
               const struct bx_ws_node *old, const struct bx_ws_change *c, boxlite_error **err)
{
    struct bx_ws_op op = {.type = type,
                          .path = strdup(path),
                          .old = old ? *old : (struct bx_ws_node){.type = BX_WS_NONE},
                          .source = -1};
    if (!op.path) {
        return bx_fail_oom(err);
    }
    if (c) {
        op.put = c->fresh.type;
        op.mode = c->fresh.mode & 0777;
        op.mtime_ns = c->fresh.mtime_ns;
        op.source = c->file;
        op.target = c->target ? strdup(c->target) : NULL;
        if (c->target && !op.target) {
            free(op.path);
            return bx_fail_oom(err);
        }
    }
    return bx_ws_plan_add(p, &op, err);
}

static int add_parents(struct bx_ws_plan *p, int root, const char *path, boxlite_error **err)
{
    _cleanup_free_ char *dir = strdup(path);
    char *slash;
    if (!dir) {
        return bx_fail_oom(err);
    }
    while ((slash = strrchr(dir, '/'))) {
        struct bx_ws_node node;
        const struct bx_ws_change plain = {.fresh = {.type = BX_WS_DIR, .mode = 0755}, .file = -1};
        *slash = '\0';
        int r = bx_ws_stat(root, dir, &node);
        if (r < 0 || node.type == BX_WS_DIR) {
            return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "%s", dir) : 0;
        }
        r = add(p, BX_WS_OP_MKDIR, dir, NULL, &plain, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static enum bx_ws_op_type removal(const struct bx_ws_node *n)
{
    return n->type == BX_WS_DIR ? BX_WS_OP_RMDIR : BX_WS_OP_REMOVE;
}

static int add_change(struct bx_ws_plan *p, int root, const struct bx_ws_change *c,
                      boxlite_error **err)
{
    const struct bx_ws_node *old = &c->old;
    const enum bx_ws_op_type put = c->fresh.type == BX_WS_DIR ? BX_WS_OP_MKDIR : BX_WS_OP_PUT;
    int r;
    switch (c->kind) {
    case BX_WS_MODE:
        return add(p, BX_WS_OP_CHMOD, c->path, old, c, err);
    case BX_WS_DELETED:
        return add(p, removal(old), c->path, old, NULL, err);
    case BX_WS_MODIFIED:
        return add(p, BX_WS_OP_PUT, c->path, old, c, err);
    case BX_WS_RENAMED:
        r = add(p, BX_WS_OP_REMOVE, c->from, old, NULL, err);
        break;
    case BX_WS_RETYPED:
        r = add(p, removal(old), c->path, old, NULL, err);
        break;
    default:
        r = 0;
    }
    r = r < 0 ? r : add_parents(p, root, c->path, err);
    return r < 0 ? r : add(p, put, c->path, NULL, c, err);
}

/* A folder that is asked for twice keeps the modes that the box gave it. */
static void drop_twice(struct bx_ws_plan *p)
{
    size_t out = 0;
    for (size_t i = 0; i < p->n; i++) {
        struct bx_ws_op *last = out ? &p->v[out - 1] : NULL, *op = &p->v[i];
        if (last && last->type == op->type && bx_streq(last->path, op->path)) {
            last->mode = op->mode != 0755 ? op->mode : last->mode;
            free(op->path);
            free(op->target);
        } else {
            p->v[out++] = *op;
        }
    }
    p->n = out;
}

int bx_ws_plan_of(const struct bx_ws_changes *changes, int root, struct bx_ws_plan *ret,
                  boxlite_error **err)
{
    struct bx_ws_plan p = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < changes->n; i++) {
        const struct bx_ws_change *c = &changes->v[i];
        r = c->rule || c->conflict ? 0 : add_change(&p, root, c, err);
    }
    if (r < 0) {
        bx_ws_plan_done(&p);
        return r;
    }
    bx_ws_plan_sort(&p);
    drop_twice(&p);
    *ret = p;
    return 0;
}
