/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_list.c: all boxes at once. Shims are asked together and have one deadline together, so that
 * one that hangs costs a second and not a second each.
 */
#include <stdlib.h>

#include "base/error.h"
#include "box/box.h"
#include "box/shimfind.h"

#define BOXES_MAX 100000u

struct rows {
    boxlite_runtime *rt;
    boxlite_box_list *list;
    size_t cap;
    boxlite_error *error;
};

static int copy_row(const struct bx_box_row *from, struct bx_box_row *to)
{
    const char *const in[] = {from->id, from->name, from->image, from->digest, from->config};
    char **const out[] = {&to->id, &to->name, &to->image, &to->digest, &to->config};

    for (size_t i = 0; i < BX_ARRAY_SIZE(in); i++) {
        if (in[i] && !(*out[i] = strdup(in[i]))) {
            return BOXLITE_E_NO_MEMORY;
        }
    }
    to->created = from->created;
    to->auto_remove = from->auto_remove;
    return 0;
}

static int add_row(void *data, const struct bx_box_row *row)
{
    struct rows *rows = data;
    boxlite_box_list *list = rows->list;
    struct bx_box_row copy = {0};
    boxlite_box *box;
    int r;

    if (list->n == BOXES_MAX) {
        return bx_fail(&rows->error, BOXLITE_E_INVALID, "more than %u boxes", BOXES_MAX);
    }
    if (list->n == rows->cap) {
        size_t cap = rows->cap ? 2 * rows->cap : 16;
        boxlite_box **v = realloc(list->v, cap * sizeof(boxlite_box *));
        if (!v) {
            return bx_fail_oom(&rows->error);
        }
        list->v = v;
        rows->cap = cap;
    }
    r = copy_row(row, &copy);
    r = r < 0 ? bx_fail_oom(&rows->error) : bx_box_from_row(rows->rt, &copy, &box, &rows->error);
    bx_box_row_done(&copy);
    if (r == 0 && box->row.auto_remove && bx_box_need_folder(box, NULL) < 0) {
        bx_sweep_box(rows->rt, box->row.id);
        bx_box_free(box); /* it stopped, and is as good as removed */
    } else if (r == 0) {
        list->v[list->n++] = box;
    }
    return r;
}

/* Connects to all that run; their states arrive together. */
static void ask_all(const boxlite_box_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        boxlite_box *box = list->v[i];
        if (box->fd >= 0 && bx_shim_running(box->fd) == 1) {
            (void)bx_box_need_client(box, NULL);
        }
    }
}

int bx_box_list_new(boxlite_runtime *rt, boxlite_box_list **ret, boxlite_error **err)
{
    boxlite_box_list *list = calloc(1, sizeof(*list));
    struct rows rows = {.rt = rt, .list = list};
    int r;

    if (!list) {
        return bx_fail_oom(err);
    }
    _cleanup_error_ boxlite_error *error = NULL;
    r = bx_store_box_each(rt->store, add_row, &rows, &error);
    if (r < 0) {
        r = bx_fail_again(err, rows.error ? rows.error : error);
        boxlite_error_free(rows.error);
        bx_box_list_free(list);
        return r;
    }
    ask_all(list);
    *ret = list;
    return 0;
}

void bx_box_list_free(boxlite_box_list *list)
{
    if (!list) {
        return;
    }
    for (size_t i = 0; i < list->n; i++) {
        bx_box_free(list->v[i]);
    }
    free(list->v);
    free(list);
}
