/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apply.c: changes of a box onto the host's folder, back again, and away.
 *
 * An apply writes nothing as long as one change that is to be applied is in conflict. What the gate holds back stays in
 * the box, and is listed; the rest is applied as one (txn.c). Afterwards the baseline follows, so that what was applied
 * is no change any more, and what the host changes from then on is seen as such.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "box/changes.h"
#include "box/quiet.h"
#include "workspace/session.h"
#include "workspace/txn.h"

#define MERGE_MAX (8u << 20)
#define BOX_FILE "box" /* in an apply's folder: "ID N" */

static int open_txns(boxlite_runtime *rt, int *ret, boxlite_error **err)
{
    int fd = bx_open_dir(rt->home->fd, "workspaces", 0700);
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, fd, "opening the journals of the home");
    }
    *ret = fd;
    return 0;
}

int bx_ws_recover(boxlite_runtime *rt, boxlite_error **err)
{
    _cleanup_close_ int txns = bx_open_dir(rt->home->fd, "workspaces", 0);
    return txns < 0 ? 0 : bx_ws_txn_recover(txns, &rt->log, err);
}

/* ---- merging */

static int read_number(int dirfd, int number, struct bx_buf *ret)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "%d", number);
    return bx_read_file(dirfd, name, ret);
}

static bool may_merge(const boxlite_changes *c, const struct bx_ws_change *ch,
                      struct bx_ws_node *host)
{
    return ch->kind == BX_WS_MODIFIED && ch->fresh.type == BX_WS_FILE && !ch->binary && !ch->rule &&
           bx_ws_stat(c->root, ch->path, host) == 0 && host->type == BX_WS_FILE;
}

/* 1: the conflict is gone; 0: it stays. The merged text takes the place of the box' content. */
static int merge_one(int dir, size_t index, boxlite_changes *c, struct bx_ws_change *ch,
                     boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf base = BX_BUF_INIT(MERGE_MAX), ours = BX_BUF_INIT(MERGE_MAX),
                                theirs = BX_BUF_INIT(MERGE_MAX), text = BX_BUF_INIT(3 * MERGE_MAX);
    struct bx_ws_node host;
    char name[32];
    if (!may_merge(c, ch, &host) || bx_ws_base_load(dir, index, ch->path, &base) != 1) {
        return 0;
    }
    _cleanup_close_ int fd = bx_ws_openat(c->root, ch->path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0 || bx_read_fd(fd, &ours) < 0 || read_number(c->dirfd, ch->file, &theirs) < 0 ||
        memchr(bx_buf_data(&ours), 0, ours.len)) {
        return 0;
    }
    int r = bx_ws_merge(&base, &ours, &theirs, &text, err);
    if (r <= 0) {
        return r;
    }
    (void)snprintf(name, sizeof(name), "%d", ch->file);
    r = bx_write_file(c->dirfd, name, bx_buf_data(&text), text.len, 0600);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "keeping the merged %s", ch->path);
    }
    ch->old = host;
    ch->fresh.size = text.len;
    ch->fresh.mtime_ns = 0;
    free(steal_ptr(&ch->conflict));
    return 1;
}

static int merge_all(int dir, size_t index, boxlite_changes *c, boxlite_error **err)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < c->list.n; i++) {
        if (c->list.v[i].conflict) {
            r = merge_one(dir, index, c, &c->list.v[i], err);
        }
    }
    return r < 0 ? r : 0;
}

/* ---- apply */

static int list_conflicts(boxlite_changes *c, boxlite_error **err)
{
    for (size_t i = 0; i < c->list.n; i++) {
        const struct bx_ws_change *ch = &c->list.v[i];
        _cleanup_free_ char *line =
            ch->conflict && !ch->rule ? bx_asprintf("%s: %s", ch->path, ch->conflict) : NULL;
        if (ch->conflict && !ch->rule && (!line || bx_strv_add(&c->conflicts, line) < 0)) {
            return bx_fail_oom(err);
        }
    }
    return 0;
}

static void note_box(int txns, const char *id, const char *box_id, size_t index)
{
    char text[128];
    _cleanup_close_ int dir = openat(txns, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int n = snprintf(text, sizeof(text), "%s %zu", box_id, index);
    (void)bx_write_file(dir, BOX_FILE, text, (size_t)n, 0600);
}

static int run_plan(boxlite_box *box, size_t index, boxlite_changes *c, struct bx_ws_plan *plan,
                    boxlite_error **err)
{
    _cleanup_close_ int txns = -1;
    char id[17];
    int r = open_txns(box->rt, &txns, err);
    r = r < 0 ? r : bx_ws_txn_recover(txns, &box->rt->log, err);
    if (r < 0) {
        return r;
    }
    const struct bx_ws_txn t = {.txns = txns,
                                .path = c->host,
                                .root = c->root,
                                .source = c->dirfd,
                                .undo_max = BX_WS_UNDO_BYTES};
    r = bx_ws_txn_check(&t, plan, &c->conflicts, err);
    if (r < 0 || c->conflicts.n > 0) {
        return r;
    }
    r = bx_ws_txn_run(&t, plan, id, err);
    if (r < 0) {
        return r;
    }
    note_box(txns, id, box->row.id, index);
    bx_ws_txn_prune(txns, BX_WS_UNDO_KEEP);
    return bx_ws_baseline_follow(box, index, c->root, plan, err);
}

static bool any_held(const boxlite_changes *c)
{
    for (size_t i = 0; i < c->list.n; i++) {
        if (c->list.v[i].rule) {
            return true;
        }
    }
    return false;
}

static int apply_collected(boxlite_box *box, const struct boxlite_change_options *o, size_t index,
                           boxlite_changes *c, boxlite_error **err)
{
    _cleanup_(bx_ws_plan_done) struct bx_ws_plan plan = {0};
    _cleanup_close_ int dir = bx_ws_box_dir(box, false);
    int r = o->merge ? merge_all(dir, index, c, err) : 0;
    r = r < 0 ? r : list_conflicts(c, err);
    if (r == 0 && c->conflicts.n == 0) {
        r = bx_ws_plan_of(&c->list, c->root, &plan, err);
        if (r == 0 && !o->dry_run && plan.n > 0) {
            r = run_plan(box, index, c, &plan, err);
        }
    }
    c->status = c->conflicts.n > 0 ? BOXLITE_CHANGES_CONFLICT
                : plan.n == 0      ? (any_held(c) ? BOXLITE_CHANGES_HELD : BOXLITE_CHANGES_NONE)
                : o->dry_run       ? BOXLITE_CHANGES_LISTED
                : any_held(c)      ? BOXLITE_CHANGES_HELD
                                   : BOXLITE_CHANGES_APPLIED;
    return r;
}

int bx_ws_apply(boxlite_box *box, const struct boxlite_change_options *o, boxlite_changes **ret,
                boxlite_error **err)
{
    struct boxlite_change_options own = *o;
    boxlite_changes *c = NULL;
    size_t index = 0;
    int r = bx_ws_recover(box->rt, err);
    r = r < 0 ? r : bx_ws_collect(box, &own, &index, &c, err);
    r = r < 0 ? r : apply_collected(box, o, index, c, err);
    if (r < 0) {
        bx_ws_changes_free(c);
        bx_wrap(err, "applying the changes of box %s", box->row.name);
        return r;
    }
    *ret = c;
    return 0;
}

/* ---- discard */

/* In the guest: the upper's nodes go; then the box sees the host's again. */
static int drop_in_guest(boxlite_box *box, size_t index, const struct bx_strv *paths,
                         boxlite_error **err)
{
    _cleanup_quiet_ struct bx_quiet quiet = {0};
    _cleanup_(bx_copy_done) struct bx_copy copy = {0};
    char upper[64];
    const char *argv[64] = {upper};
    (void)snprintf(upper, sizeof(upper), "/box/upper/" BX_WORKSPACE_UPPER, index);
    if (bx_ws_upper_for_tests) {
        argv[0] = bx_ws_upper_for_tests;
    }
    if (paths->n + 1 > BX_ARRAY_SIZE(argv)) {
        return bx_fail(err, BOXLITE_E_INVALID, "discard: %zu paths at once, at most %zu", paths->n,
                       BX_ARRAY_SIZE(argv) - 1);
    }
    for (size_t i = 0; i < paths->n; i++) {
        argv[i + 1] = paths->v[i];
    }
    int r = bx_quiet_begin(box, &quiet, err);
    r = r < 0 ? r
              : bx_copy_start_builtin(box, "changes-drop", argv, paths->n + 1, false, &copy, err);
    r = r < 0 ? r : bx_copy_finish(&copy, err);
    bx_copy_done(&copy);
    copy = (struct bx_copy){0};
    return r < 0 ? r : bx_quiet_end(&quiet, err);
}

static bool is_below(const char *path, const struct bx_strv *folders)
{
    for (size_t i = 0; i < folders->n; i++) {
        size_t n = strlen(folders->v[i]);
        if (strncmp(path, folders->v[i], n) == 0 && (path[n] == '\0' || path[n] == '/')) {
            return true;
        }
    }
    return folders->n == 0;
}

/* From the old list what is not below the paths, from the new one what is. */
static int renew_baseline(boxlite_box *box, size_t index, int root, const struct bx_strv *paths,
                          boxlite_error **err)
{
    _cleanup_(bx_ws_baseline_done) struct bx_ws_baseline old = {0}, now = {0}, both = {0};
    _cleanup_close_ int dir = bx_ws_box_dir(box, false);
    char name[32];
    (void)snprintf(name, sizeof(name), "baseline.%zu", index);
    int r = bx_ws_baseline_read(dir, name, &old, err);
    r = r < 0 ? r : bx_ws_baseline_walk(root, &now, err);
    if (r < 0) {
        return r;
    }
    both.v = calloc(old.n + now.n + 1, sizeof(*both.v));
    both.text = both.v ? strdup("") : NULL;
    if (!both.text) {
        return bx_fail_oom(err);
    }
    for (size_t i = 0, k = 0; i < old.n || k < now.n;) {
        int c = i == old.n ? 1 : k == now.n ? -1 : bx_ws_path_cmp(old.v[i].path, now.v[k].path);
        const char *path = c <= 0 ? old.v[i].path : now.v[k].path;
        bool fresh = is_below(path, paths);
        if (fresh ? c >= 0 : c <= 0) {
            both.v[both.n++] = fresh ? now.v[k] : old.v[i];
        }
        i += c <= 0;
        k += c >= 0;
    }
    return bx_ws_baseline_write(&both, dir, name, err);
}

int bx_ws_discard(boxlite_box *box, const struct boxlite_change_options *o, boxlite_error **err)
{
    _cleanup_(bx_strv_done) struct bx_strv paths = {0};
    boxlite_changes *c = NULL;
    size_t index = 0;
    int r = bx_ws_find(box, o->workspace, &index, err);
    int state = r < 0 ? r : bx_box_state(box, err);
    if (state < 0) {
        return state;
    }
    if (state == BOXLITE_BOX_CREATED) {
        return 0; /* it never ran: there is nothing */
    }
    if (state != BOXLITE_BOX_STOPPED) {
        r = bx_fail(err, BOXLITE_E_STATE, "box %s is running", box->row.name);
        bx_hint(err, "stop it first: boxlite stop %s", box->row.name);
        return r;
    }
    r = bx_ws_prepare(box, err);
    r = r < 0 ? r : bx_ws_open(box, index, &c, err);
    r = r < 0 ? r : bx_ws_normal_paths(c, &o->paths, &paths, err);
    for (size_t i = 0; r == 0 && i < paths.n; i++) {
        if (bx_streq(paths.v[i], ".")) {
            bx_strv_done(&paths);
            paths = (struct bx_strv){.max = 1};
        }
    }
    r = r < 0 ? r : drop_in_guest(box, index, &paths, err);
    r = r < 0 ? r : renew_baseline(box, index, c->root, &paths, err);
    bx_ws_changes_free(c);
    if (r < 0) {
        bx_wrap(err, "discarding changes of box %s", box->row.name);
    }
    return r;
}

/* ---- undo */

/* The box that the apply came from, if it is still there: its baseline follows. */
static void follow_box(boxlite_runtime *rt, int txns, const char *id, int root,
                       const struct bx_ws_plan *plan)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(128);
    _cleanup_box_ boxlite_box *box = NULL;
    _cleanup_close_ int dir = openat(txns, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    uint64_t index;
    if (dir < 0 || bx_read_file(dir, BOX_FILE, &text) < 0) {
        return;
    }
    char *number = strchr((char *)bx_buf_data(&text), ' ');
    if (!number) {
        return;
    }
    *number++ = '\0';
    if (bx_parse_u64(number, BX_BOX_MOUNTS_MAX, &index) == 0 &&
        bx_box_open(rt, bx_buf_str(&text), &box, NULL) == 0) {
        (void)bx_ws_baseline_follow(box, index, root, plan, NULL);
    }
}

/* What undo does, as changes for the caller to see. */
static int describe(const struct bx_ws_plan *plan, struct bx_ws_changes *ret, boxlite_error **err)
{
    static const enum bx_ws_kind kinds[] = {0,           BX_WS_DELETED,  BX_WS_DELETED,
                                            BX_WS_ADDED, BX_WS_MODIFIED, BX_WS_MODE};
    for (size_t i = 0; i < plan->n; i++) {
        const struct bx_ws_op *op = &plan->v[i];
        const bool comes = op->type == BX_WS_OP_PUT || op->type == BX_WS_OP_MKDIR;
        const struct bx_ws_node fresh = {.type = op->type == BX_WS_OP_PUT     ? op->put
                                                 : op->type == BX_WS_OP_MKDIR ? BX_WS_DIR
                                                 : op->type == BX_WS_OP_CHMOD ? op->old.type
                                                                              : BX_WS_NONE,
                                         .mode = op->mode,
                                         .size = op->size};
        struct bx_ws_change c = {.kind = comes && op->old.type == BX_WS_NONE ? BX_WS_ADDED
                                                                             : kinds[op->type],
                                 .path = strdup(op->path),
                                 .old = op->old,
                                 .fresh = fresh,
                                 .file = -1};
        int r = c.path ? bx_ws_changes_add(ret, &c, err) : bx_fail_oom(err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int undo_in(boxlite_runtime *rt, int txns, const char *path, bool dry_run,
                   boxlite_changes *c, boxlite_error **err)
{
    _cleanup_(bx_ws_plan_done) struct bx_ws_plan plan = {0};
    _cleanup_close_ int old = -1;
    char id[17], own[17];
    int r = bx_ws_txn_last(txns, path, id, &plan, &old, err);
    r = r < 0 ? r : bx_ws_open_root(path, &c->root, err);
    if (r < 0) {
        return r;
    }
    const struct bx_ws_txn t = {.txns = txns,
                                .path = path,
                                .root = c->root,
                                .source = old,
                                .undo_max = BX_WS_UNDO_BYTES,
                                .undo_source = 1};
    r = bx_ws_txn_check(&t, &plan, &c->conflicts, err);
    if (r == 0 && c->conflicts.n == 0 && !dry_run) {
        r = bx_ws_txn_run(&t, &plan, own, err);
        if (r == 0) {
            follow_box(rt, txns, id, c->root, &plan);
            (void)bx_ws_txn_forget(txns, id);
            (void)bx_ws_txn_forget(txns, own);
        }
    }
    r = r < 0 ? r : describe(&plan, &c->list, err);
    c->status = c->conflicts.n > 0 ? BOXLITE_CHANGES_CONFLICT
                : dry_run          ? BOXLITE_CHANGES_LISTED
                                   : BOXLITE_CHANGES_APPLIED;
    return r;
}

int bx_ws_undo(boxlite_runtime *rt, const char *dir, bool dry_run, boxlite_changes **ret,
               boxlite_error **err)
{
    _cleanup_close_ int txns = -1;
    _cleanup_free_ char *path = realpath(dir, NULL);
    if (!path) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "%s", dir);
    }
    boxlite_changes *c = bx_ws_changes_new(path, path);
    if (!c) {
        return bx_fail_oom(err);
    }
    int r = open_txns(rt, &txns, err);
    r = r < 0 ? r : bx_ws_txn_recover(txns, &rt->log, err);
    r = r < 0 ? r : undo_in(rt, txns, path, dry_run, c, err);
    if (r < 0) {
        bx_ws_changes_free(c);
        bx_wrap(err, "undo");
        return r;
    }
    *ret = c;
    return 0;
}
