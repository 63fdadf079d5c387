/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace.c: changes of workspaces, as exported.
 */
#include "workspace/box.h"

#include "api/api.h"

int boxlite_change_options_new(boxlite_change_options **ret, boxlite_error **err)
{
    bx_need(ret, err);
    return bx_ws_options_new(ret, err);
}

void boxlite_change_options_free(boxlite_change_options *o)
{
    bx_ws_options_free(o);
}

int boxlite_change_options_set_workspace(boxlite_change_options *o, const char *path,
                                         boxlite_error **err)
{
    bx_need(o, err);
    bx_need(path, err);
    return bx_ws_options_set_workspace(o, path, err);
}

int boxlite_change_options_add_path(boxlite_change_options *o, const char *path,
                                    boxlite_error **err)
{
    bx_need(o, err);
    bx_need(path, err);
    return bx_ws_options_add(&o->paths, "path", path, err);
}

int boxlite_change_options_add_exclude(boxlite_change_options *o, const char *pattern,
                                       boxlite_error **err)
{
    bx_need(o, err);
    bx_need(pattern, err);
    return bx_ws_options_add(&o->excludes, "exclude", pattern, err);
}

int boxlite_change_options_set_hide_git_ignored(boxlite_change_options *o, int on,
                                                boxlite_error **err)
{
    bx_need(o, err);
    o->hide_git_ignored = on != 0;
    return 0;
}

int boxlite_change_options_add_allow(boxlite_change_options *o, const char *what,
                                     boxlite_error **err)
{
    bx_need(o, err);
    bx_need(what, err);
    return bx_ws_options_add(&o->allow, "allow", what, err);
}

int boxlite_change_options_set_dry_run(boxlite_change_options *o, int on, boxlite_error **err)
{
    bx_need(o, err);
    o->dry_run = on != 0;
    return 0;
}

int boxlite_change_options_set_merge(boxlite_change_options *o, int on, boxlite_error **err)
{
    bx_need(o, err);
    o->merge = on != 0;
    return 0;
}

static const boxlite_change_options defaults;

int boxlite_box_diff(boxlite_box *box, const boxlite_change_options *options, boxlite_changes **ret,
                     boxlite_error **err)
{
    bx_need(box, err);
    bx_need(ret, err);
    return bx_ws_diff(box, options ? options : &defaults, ret, err);
}

int boxlite_box_apply(boxlite_box *box, const boxlite_change_options *options,
                      boxlite_changes **ret, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(ret, err);
    return bx_ws_apply(box, options ? options : &defaults, ret, err);
}

int boxlite_box_discard(boxlite_box *box, const boxlite_change_options *options,
                        boxlite_error **err)
{
    bx_need(box, err);
    return bx_ws_discard(box, options ? options : &defaults, err);
}

int boxlite_workspace_undo(boxlite_runtime *rt, const char *dir, int dry_run, boxlite_changes **ret,
                           boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(dir, err);
    bx_need(ret, err);
    return bx_ws_undo(rt, dir, dry_run != 0, ret, err);
}

/* ---- what came of it */

static const struct bx_ws_change *at(const boxlite_changes *c, size_t i)
{
    return c && i < c->list.n ? &c->list.v[i] : NULL;
}

int boxlite_changes_status(const boxlite_changes *c)
{
    return c ? c->status : 0;
}

const char *boxlite_changes_workspace(const boxlite_changes *c)
{
    return c ? c->host : NULL;
}

size_t boxlite_changes_count(const boxlite_changes *c)
{
    return c ? c->list.n : 0;
}

const char *boxlite_changes_path(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? ch->path : NULL;
}

int boxlite_changes_kind(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? (int)ch->kind : 0;
}

const char *boxlite_changes_from(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? ch->from : NULL;
}

static uint64_t size_of(const struct bx_ws_node *n)
{
    return n->type == BX_WS_FILE ? n->size : 0;
}

uint64_t boxlite_changes_old_size(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? size_of(&ch->old) : 0;
}

uint64_t boxlite_changes_size(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? size_of(&ch->fresh) : 0;
}

uint32_t boxlite_changes_old_mode(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? ch->old.mode : 0;
}

uint32_t boxlite_changes_mode(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? ch->fresh.mode : 0;
}

const char *boxlite_changes_held(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? ch->rule : NULL;
}

const char *boxlite_changes_allow(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? ch->allow : NULL;
}

const char *boxlite_changes_conflict(const boxlite_changes *c, size_t i)
{
    const struct bx_ws_change *ch = at(c, i);
    return ch ? ch->conflict : NULL;
}

size_t boxlite_changes_conflict_count(const boxlite_changes *c)
{
    return c ? c->conflicts.n : 0;
}

const char *boxlite_changes_conflict_line(const boxlite_changes *c, size_t i)
{
    return c && i < c->conflicts.n ? c->conflicts.v[i] : NULL;
}

size_t boxlite_changes_ignored(const boxlite_changes *c)
{
    return c ? c->list.ignored : 0;
}

size_t boxlite_changes_git_ignored(const boxlite_changes *c)
{
    return c ? c->list.git_ignored : 0;
}

size_t boxlite_changes_outside(const boxlite_changes *c)
{
    return c ? c->list.outside : 0;
}

int boxlite_changes_lines(boxlite_changes *c, size_t i, size_t *ret_added, size_t *ret_removed,
                          boxlite_error **err)
{
    bx_need(c, err);
    bx_need(ret_added, err);
    bx_need(ret_removed, err);
    struct bx_ws_lines lines = {0};
    int r = at(c, i) ? bx_ws_report_lines(c, &c->list.v[i], &lines, err)
                     : bx_fail(err, BOXLITE_E_INVALID, "there is no change number %zu", i);
    if (r == 0) {
        *ret_added = lines.added;
        *ret_removed = lines.removed;
    }
    return r;
}

int boxlite_changes_json(boxlite_changes *c, const char **ret, boxlite_error **err)
{
    bx_need(c, err);
    bx_need(ret, err);
    return bx_ws_report_json(c, ret, err);
}

int boxlite_changes_text(boxlite_changes *c, size_t max_bytes, const char **ret,
                         boxlite_error **err)
{
    bx_need(c, err);
    bx_need(ret, err);
    return bx_ws_report_text(c, max_bytes, ret, err);
}

void boxlite_changes_free(boxlite_changes *c)
{
    bx_ws_changes_free(c);
}
