/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c: what crashed processes left in a home, cleared by the next one. Others work in the home
 * at the same time, so each thing is taken only when it is certain that nobody holds it:
 *  - a box' folder whose row is missing is either being made, then its maker holds a flock(2) on it
 *    until the row is in, or it was being removed;
 *  - a row whose folder is missing was being removed: its maker puts the folder first, its remover
 *    takes the row first, so only a removal that went wrong or a damaged home leads here;
 *  - a box marked for removal goes when it has run, its lock is free and nobody keeps it: who does
 *    holds a second lock, which ends with that process.
 * A folder is renamed into tmp/ before it is deleted, so no half-deleted box is ever seen.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/path.h"
#include "box/box.h"
#include "box/runtime.h"
#include "box/shimfind.h"
#include "oci/fetch.h"

struct known { /* the rows, sorted by id */
    struct known_box {
        char id[65];
        bool auto_remove, seen;
    } * v;
    size_t n, cap;
};

static int by_id(const void *a, const void *b)
{
    return strcmp(a, b); /* id is first */
}

static int collect(void *data, const struct bx_box_row *row)
{
    struct known *k = data;
    if (strlen(row->id) >= sizeof(k->v->id)) {
        return 0;
    }
    if (k->n == k->cap) {
        size_t cap = k->cap ? 2 * k->cap : 64;
        struct known_box *v = realloc(k->v, cap * sizeof(*v));
        if (!v) {
            return BOXLITE_E_NO_MEMORY;
        }
        k->v = v;
        k->cap = cap;
    }
    k->v[k->n] = (struct known_box){.auto_remove = row->auto_remove};
    memcpy(k->v[k->n++].id, row->id, strlen(row->id));
    return 0;
}

int bx_box_discard(boxlite_runtime *rt, const char *id, boxlite_error **err)
{
    _cleanup_close_ int boxes = -1, tmp = -1;
    char gone[96];
    int r = bx_home_dir(rt->home, "boxes", &boxes, err);

    if (r == 0) {
        r = bx_home_dir(rt->home, "tmp", &tmp, err);
    }
    if (r < 0) {
        return r;
    }
    (void)snprintf(gone, sizeof(gone), "gone-%.64s", id);
    if (renameat(boxes, id, tmp, gone) < 0) {
        if (errno == ENOENT) {
            return 0;
        }
        if (errno != EEXIST && errno != ENOTEMPTY) {
            return bx_fail_errno(err, BOXLITE_E_IO, errno, "removing the folder of box %s", id);
        }
        r = bx_rm_rf(boxes, id); /* an id cannot be used twice: whatever is there is garbage */
    }
    r = r < 0 ? r : bx_rm_rf(tmp, gone);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "deleting the files of box %s", id) : 0;
}

static bool has_row(boxlite_runtime *rt, const char *id)
{
    struct bx_box_row row = {0};
    _cleanup_error_ boxlite_error *error = NULL;
    int r = bx_store_box_find(rt->store, id, &row, &error);
    bool same = r == 0 && bx_streq(row.id, id);
    bx_box_row_done(&row);
    return same || (r < 0 && r != BOXLITE_E_NOT_FOUND && r != BOXLITE_E_INVALID);
}

/* A folder that no row names. */
static void sweep_folder(boxlite_runtime *rt, int boxes, const char *name)
{
    _cleanup_close_ int fd = openat(boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || bx_shim_running(fd) != 0 ||
        has_row(rt, name)) {
        return;
    }
    bx_info(&rt->log, "home", "removing the left-over folder boxes/%s", name);
    (void)bx_box_discard(rt, name, NULL);
}

/* It has run, its lock is free and nobody keeps it. */
static bool has_ended(int box_fd)
{
    return bx_shim_running(box_fd) == 0 && !bx_box_kept(box_fd) &&
           (bx_box_emptied(box_fd) || bx_box_state_at_rest(box_fd, NULL) == BOXLITE_BOX_STOPPED);
}

void bx_sweep_box(boxlite_runtime *rt, const char *id)
{
    _cleanup_close_ int boxes = -1, fd = -1, lock = -1;
    struct bx_box_row row = {0};

    if (bx_home_dir(rt->home, "boxes", &boxes, NULL) < 0) {
        return;
    }
    fd = openat(boxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || !has_ended(fd)) {
        return;
    }
    lock = bx_shim_lock(fd);
    if (lock < 0 || bx_box_kept(fd) || bx_store_box_find(rt->store, id, &row, NULL) < 0) {
        return;
    }
    if (bx_streq(row.id, id) && row.auto_remove) {
        bx_info(&rt->log, "home", "removing box %s, which has stopped", row.name);
        if (bx_store_box_delete(rt->store, id, NULL) == 0) {
            (void)bx_box_discard(rt, id, NULL);
        }
    }
    bx_box_row_done(&row);
}

static void sweep_rows(boxlite_runtime *rt, const struct known *k, int boxes)
{
    struct stat st;
    for (size_t i = 0; i < k->n; i++) {
        const struct known_box *b = &k->v[i];
        if (b->seen) {
            if (b->auto_remove) {
                bx_sweep_box(rt, b->id);
            }
        } else if (fstatat(boxes, b->id, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
            bx_info(&rt->log, "home", "removing the record of box %s, which has no folder", b->id);
            (void)bx_store_box_delete(rt->store, b->id, NULL);
        }
    }
}

static int sweep_boxes(boxlite_runtime *rt, struct known *k, int boxes, boxlite_error **err)
{
    int fd = fcntl(boxes, F_DUPFD_CLOEXEC, 3);
    _cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        int r = bx_fail_errno(err, BOXLITE_E_IO, errno, "reading the folder boxes");
        bx_cleanup_close(&fd);
        return r;
    }
    if (k->n) {
        qsort(k->v, k->n, sizeof(*k->v), by_id);
    }
    rewinddir(dir);
    while ((e = readdir(dir))) {
        struct known_box *b = k->n ? bsearch(e->d_name, k->v, k->n, sizeof(*k->v), by_id) : NULL;
        if (b) {
            b->seen = true;
        } else if (bx_is_filename(e->d_name)) {
            sweep_folder(rt, boxes, e->d_name);
        }
    }
    sweep_rows(rt, k, boxes);
    return 0;
}

int bx_sweep(boxlite_runtime *rt, boxlite_error **err)
{
    struct known k = {0};
    _cleanup_close_ int boxes = -1;
    /* Rows first: a box whose folder comes later than this look is still held by its maker, or its
     * row is found by the second look. */
    int r = bx_store_box_each(rt->store, collect, &k, err);
    if (r == 0) {
        r = bx_home_dir(rt->home, "boxes", &boxes, err);
    }
    if (r == 0) {
        r = sweep_boxes(rt, &k, boxes, err);
    }
    free(k.v);
    bx_fetch_sweep(rt->home);
    return r < 0 ? r : bx_home_sweep_tmp(rt->home, err);
}
