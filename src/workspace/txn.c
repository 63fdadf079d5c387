/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn.c: an apply: all of a plan or nothing, whatever happens at whatever moment.
 *
 *   HOME/workspaces/ID/lock      held by the process that does it: without a holder it has crashed
 *                      root      the workspace's path
 *                      journal   the plan, on disk before the first step (journal.c)
 *                      done      all steps were made and are on disk
 *                      old/oN    what operation N replaced, for undo
 *   WORKSPACE/.boxlite-apply-ID/ nN  the new node of operation N, whole and synced before the first step
 *                                oN  the old one
 *
 * Steps: stage everything, sync, write the journal, make each operation by renames, sync, write `done`, move the old
 * nodes to the home, remove the stage. Until `done` is there a crash is taken back: each operation can be told from
 * what is in the stage and from inode numbers, so taking back needs no record of how far it came, and can itself be
 * interrupted. After it a crash is carried on. A node that is in nobody's plan (made meanwhile) is never replaced: an
 * old node is moved aside and looked at before it is given up, and new ones do not replace anything unseen.
 *
 * Everything below the workspace goes by tree.c; the stage lies on the same file system, so nothing is copied there
 * while the tree changes, and a full disk shows before the first step.
 */
#include "workspace/txn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/timeutil.h"
#include "workspace/txn_ops.h"

#define JOURNAL_MAX (1u << 30)

void (*bx_ws_txn_step)(void);

void bx_ws_step(void)
{
    if (bx_ws_txn_step) {
        bx_ws_txn_step();
    }
}

static void stage_name(const char *id, char ret[64])
{
    (void)snprintf(ret, 64, "%s%s", BX_WS_STAGE_PREFIX, id);
}

/* ---- before */

static int conflict(struct bx_strv *list, const char *path, const char *why)
{
    _cleanup_free_ char *line = bx_asprintf("%s: %s", path, why);
    return line ? bx_strv_add(list, line) : -ENOMEM;
}

static const char *difference(const struct bx_ws_op *op, const struct bx_ws_node *host)
{
    if (op->type == BX_WS_OP_MKDIR && host->type == BX_WS_DIR) {
        return NULL;
    }
    if (bx_ws_node_same(host, &op->old)) {
        return NULL;
    }
    return host->type == BX_WS_NONE     ? "it is not there any more"
           : op->old.type == BX_WS_NONE ? "something is there already"
                                        : "it was changed meanwhile";
}

/* Something goes from there first, so what is there now is that one's matter. The removals stand first, by falling
 * path. */
static bool is_freed(const struct bx_ws_plan *plan, size_t removals, const char *path)
{
    size_t low = 0, high = removals;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = bx_ws_path_cmp(plan->v[mid].path, path);
        if (c == 0) {
            return true;
        }
        if (c > 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return false;
}

int bx_ws_txn_check(const struct bx_ws_txn *t, const struct bx_ws_plan *plan,
                    struct bx_strv *conflicts, boxlite_error **err)
{
    size_t removals = 0;
    while (removals < plan->n && plan->v[removals].type <= BX_WS_OP_RMDIR) {
        removals++;
    }
    for (size_t i = 0; i < plan->n; i++) {
        struct bx_ws_node host;
        const struct bx_ws_op *op = &plan->v[i];
        if (op->old.type == BX_WS_NONE && is_freed(plan, removals, op->path)) {
            continue;
        }
        int r = bx_ws_stat(t->root, op->path, &host);
        const char *why = r < 0 ? NULL : difference(op, &host);
        r = r == 0 && why ? conflict(conflicts, op->path, why) : r;
        if (r < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, r, "%s", op->path);
        }
    }
    return 0;
}

static int make_id(const struct bx_ws_txn *t, char ret_id[17], int *ret_dir, int *ret_lock,
                   boxlite_error **err)
{
    for (int tries = 0; tries < 16; tries++) {
        (void)snprintf(ret_id, 17, "%016" PRIx64, bx_now_real());
        if (mkdirat(t->txns, ret_id, 0700) == 0) {
            int dir = openat(t->txns, ret_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            int lock = dir < 0 ? -1 : openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            int r = lock < 0 ? -errno : bx_lock(lock, true, false);
            r = r < 0 ? r : bx_write_file(dir, "root", t->path, strlen(t->path), 0600);
            if (r == 0) {
                *ret_dir = dir;
                *ret_lock = lock;
                return 0;
            }
            bx_close(&dir);
            bx_close(&lock);
            (void)bx_rm_rf(t->txns, ret_id);
            return bx_fail_errno(err, BOXLITE_E_IO, r, "keeping a journal");
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return bx_fail_errno(err, BOXLITE_E_IO, errno, "keeping a journal");
}

/* The new nodes, whole, in the stage. */
static int stage_all(const struct bx_ws_txn *t, int stage, struct bx_ws_plan *plan,
                     boxlite_error **err)
{
    for (size_t i = 0; i < plan->n; i++) {
        bx_ws_step();
        int r = bx_ws_op_stage(t, stage, &plan->v[i], i);
        if (r < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, r, "preparing %s", plan->v[i].path);
        }
    }
    return syncfs(stage) < 0 ? bx_fail_errno(err, BOXLITE_E_IO, errno, "syncing") : 0;
}

static int write_journal(const struct bx_ws_txn *t, int dir, const struct bx_ws_plan *plan,
                         boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(JOURNAL_MAX);
    bx_ws_step();
    int r = bx_ws_journal_text(t->path, plan, &text);
    r = r < 0 ? r : bx_write_file(dir, "journal", bx_buf_data(&text), text.len, 0600);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing the journal") : 0;
}

/* ---- the steps, and back */

static int take_back(int root, int stage, const struct bx_ws_plan *plan)
{
    int r = 0;
    for (size_t i = plan->n; i-- > 0;) {
        bx_ws_step();
        int k = bx_ws_op_undo(root, stage, &plan->v[i], i);
        r = r < 0 ? r : k;
    }
    if (syncfs(stage) < 0 && r == 0) {
        r = -errno;
    }
    return r;
}

static int do_all(const struct bx_ws_txn *t, int stage, const struct bx_ws_plan *plan,
                  boxlite_error **err)
{
    for (size_t i = 0; i < plan->n; i++) {
        bx_ws_step();
        int r = bx_ws_op_do(t->root, stage, &plan->v[i], i);
        if (r == -ESTALE) {
            return bx_fail(err, BOXLITE_E_STATE, "%s was changed meanwhile: nothing was applied",
                           plan->v[i].path);
        }
        if (r < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, r, "%s: nothing was applied", plan->v[i].path);
        }
    }
    return syncfs(stage) < 0 ? bx_fail_errno(err, BOXLITE_E_IO, errno, "syncing") : 0;
}

static void remove_stage(int root, const char *name)
{
    bx_ws_step();
    (void)bx_rm_rf(root, name);
}

/* The old nodes to the home, as far as the bound allows; without room there is no undo, and that is all. */
static void keep_old(int stage, int dir, const struct bx_ws_plan *plan, uint64_t max)
{
    uint64_t total = 0;
    _cleanup_close_ int old = bx_open_dir(dir, "old", 0700);
    bool good = old >= 0;
    for (size_t i = 0; i < plan->n; i++) {
        total += plan->v[i].old.type == BX_WS_FILE ? plan->v[i].old.size : 0;
    }
    good = good && total <= max;
    for (size_t i = 0; good && i < plan->n; i++) {
        bx_ws_step();
        good = bx_ws_op_keep(stage, old, i) == 0;
    }
    if (!good) {
        (void)bx_rm_rf(dir, "old");
    }
}

int bx_ws_txn_run(const struct bx_ws_txn *t, struct bx_ws_plan *plan, char ret_id[17],
                  boxlite_error **err)
{
    _cleanup_close_ int dir = -1, lock = -1, stage = -1;
    char name[64], id[17];
    int r = make_id(t, id, &dir, &lock, err);
    if (r < 0) {
        return r;
    }
    stage_name(id, name);
    bx_ws_step();
    stage = bx_open_dir(t->root, name, 0700);
    r = stage < 0 ? bx_fail_errno(err, BOXLITE_E_IO, stage, "making room in %s", t->path) : 0;
    r = r < 0 ? r : stage_all(t, stage, plan, err);
    r = r < 0 ? r : write_journal(t, dir, plan, err);
    if (r == 0) {
        r = do_all(t, stage, plan, err);
        if (r == 0) {
            bx_ws_step();
            int k = bx_write_file(dir, "done", "", 0, 0600);
            r = k < 0 ? bx_fail_errno(err, BOXLITE_E_IO, k, "writing the journal") : 0;
        }
        int k = r < 0 ? take_back(t->root, stage, plan) : 0;
        if (k < 0) { /* the journal and the stage stay: the next one tries again */
            bx_wrap(err, "taking back was not possible (%s)", strerror(-k));
            return r;
        }
    }
    if (r == 0) {
        keep_old(stage, dir, plan, t->undo_max);
    }
    remove_stage(t->root, name);
    if (r < 0) {
        (void)bx_rm_rf(t->txns, id);
        return r;
    }
    memcpy(ret_id, id, 17);
    return 0;
}

/* ---- after a crash */

static int read_text(int dir, const char *name, size_t max, struct bx_buf *ret)
{
    *ret = (struct bx_buf)BX_BUF_INIT(max);
    return bx_read_file(dir, name, ret);
}

/* Nothing of the tree was touched: only the stage may be there. */
static int drop_unstarted(int dir, const char *stage)
{
    _cleanup_buf_ struct bx_buf root = BX_BUF_INIT(BX_WS_PATH_MAX);
    if (read_text(dir, "root", BX_WS_PATH_MAX, &root) < 0) {
        return 0;
    }
    _cleanup_close_ int fd = open(bx_buf_str(&root), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? 0 : bx_rm_rf(fd, stage);
}

/* 1: it is over and stays, for undo; 0: it was taken back. */
static int recover_one(int dir, const char *stage_dir, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(JOURNAL_MAX);
    _cleanup_free_ char *path = NULL;
    _cleanup_close_ int root = -1, stage = -1;
    _cleanup_(bx_ws_plan_done) struct bx_ws_plan plan = {0};
    int r = read_text(dir, "journal", JOURNAL_MAX, &text);
    if (r == -ENOENT) {
        return drop_unstarted(dir, stage_dir) < 0
                   ? bx_fail(err, BOXLITE_E_IO, "removing %s", stage_dir)
                   : 0;
    }
    r = r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "reading the journal")
              : bx_ws_journal_parse(bx_buf_str(&text), text.len, &path, &plan, err);
    if (r < 0) {
        return r;
    }
    const bool done = faccessat(dir, "done", F_OK, 0) == 0;
    root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    stage =
        root < 0 ? -1 : openat(root, stage_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (stage < 0) {
        return done || (root >= 0 && errno == ENOENT)
                   ? done
                   : bx_fail_errno(err, BOXLITE_E_IO, errno, "opening %s", path);
    }
    if (done) {
        keep_old(stage, dir, &plan, UINT64_MAX);
    } else if ((r = take_back(root, stage, &plan)) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "taking back in %s", path);
    }
    remove_stage(root, stage_dir);
    return done;
}

static int list_ids(int txns, struct bx_strv *ret)
{
    int copy = openat(txns, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        int r = -errno;
        bx_close(&copy);
        return r;
    }
    int r = 0;
    for (struct dirent *d; r == 0 && (d = readdir(dir));) {
        if (strlen(d->d_name) == 16 && strspn(d->d_name, "0123456789abcdef") == 16) {
            r = bx_strv_add(ret, d->d_name);
        }
    }
    return r;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Oldest first. */
static int sorted_ids(int txns, struct bx_strv *ret)
{
    *ret = (struct bx_strv){.max = 100000};
    int r = list_ids(txns, ret);
    if (r == 0 && ret->n > 1) {
        qsort(ret->v, ret->n, sizeof(*ret->v), compare_strings);
    }
    return r;
}

int bx_ws_txn_recover(int txns, const struct bx_log *log, boxlite_error **err)
{
    _cleanup_(bx_strv_done) struct bx_strv ids = {0};
    int r = sorted_ids(txns, &ids);
    for (size_t i = 0; r == 0 && i < ids.n; i++) {
        char stage[64];
        _cleanup_error_ boxlite_error *why = NULL;
        _cleanup_close_ int dir =
            openat(txns, ids.v[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_close_ int lock =
            dir < 0 ? -1 : openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (lock < 0 || bx_lock(lock, true, false) < 0) {
            continue; /* at work, or gone */
        }
        stage_name(ids.v[i], stage);
        int k = recover_one(dir, stage, &why);
        if (k == 0) {
            (void)bx_rm_rf(txns, ids.v[i]);
        } else if (k < 0) {
            bx_warn(log, "workspace", "an apply that was cut off: %s", boxlite_error_message(why));
        }
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "looking for applies that were cut off") : 0;
}

/* ---- undo */

int bx_ws_txn_forget(int txns, const char *id)
{
    return bx_rm_rf(txns, id);
}

void bx_ws_txn_prune(int txns, size_t keep)
{
    _cleanup_(bx_strv_done) struct bx_strv ids = {0};
    if (sorted_ids(txns, &ids) == 0) {
        for (size_t i = 0; i + keep < ids.n; i++) {
            (void)bx_ws_txn_forget(txns, ids.v[i]);
        }
    }
}

static int last_one(int txns, const char *id, const char *path, struct bx_ws_plan *ret,
                    int *ret_old, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(JOURNAL_MAX);
    _cleanup_free_ char *root = NULL;
    _cleanup_(bx_ws_plan_done) struct bx_ws_plan plan = {0};
    _cleanup_close_ int dir = openat(txns, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || faccessat(dir, "done", F_OK, 0) < 0 ||
        read_text(dir, "journal", JOURNAL_MAX, &text) < 0) {
        return 0;
    }
    int r = bx_ws_journal_parse(bx_buf_str(&text), text.len, &root, &plan, err);
    if (r < 0 || !bx_streq(root, path)) {
        return r;
    }
    _cleanup_close_ int old = openat(dir, "old", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (old < 0) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND,
                       "the replaced files were not kept: they were larger than the limit");
    }
    r = bx_ws_plan_reverse(&plan, old, ret, err);
    *ret_old = r < 0 ? -1 : steal_fd(&old);
    return r < 0 ? r : 1;
}

int bx_ws_txn_last(int txns, const char *path, char ret_id[17], struct bx_ws_plan *ret,
                   int *ret_old, boxlite_error **err)
{
    _cleanup_(bx_strv_done) struct bx_strv ids = {0};
    int r = sorted_ids(txns, &ids);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "looking for applies");
    }
    for (size_t i = ids.n; i-- > 0;) {
        r = last_one(txns, ids.v[i], path, ret, ret_old, err);
        if (r != 0) {
            (void)snprintf(ret_id, 17, "%s", ids.v[i]);
            return r < 0 ? r : 0;
        }
    }
    r = bx_fail(err, BOXLITE_E_NOT_FOUND, "there is no apply to %s that could be undone", path);
    bx_hint(err, "name the folder that the box works on");
    return r;
}
