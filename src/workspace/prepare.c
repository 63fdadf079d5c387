/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepare.c: what is remembered of a workspace for its box: baseline and contents for merges. See box.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sha256.h"
#include "workspace/box.h"

#define BASE_FILE (128u << 10)
#define BASE_FILES 2000u
#define BASE_BYTES (32u << 20)

int bx_ws_box_dir(boxlite_box *box, bool make)
{
    return bx_open_dir(box->fd, "workspace", make ? 0700 : 0);
}

static void baseline_name(size_t index, char ret[32])
{
    (void)snprintf(ret, 32, "baseline.%zu", index);
}

/* ---- contents for merges */

static int base_place(int dir, size_t index, const char *path, bool make, char ret[80])
{
    char folder[32], digest[BX_DIGEST_LEN + 1];
    (void)snprintf(folder, sizeof(folder), "base.%zu", index);
    if (bx_sha256_mem(path, strlen(path), digest) < 0) {
        return -ENOMEM;
    }
    (void)snprintf(ret, 80, "%s", digest + strlen("sha256:"));
    return bx_open_dir(dir, folder, make ? 0700 : 0);
}

int bx_ws_base_save(int dir, size_t index, int root, const char *path)
{
    char name[80];
    struct stat st;
    _cleanup_close_ int folder = base_place(dir, index, path, true, name);
    _cleanup_close_ int in = bx_ws_openat(root, path, O_RDONLY | O_NONBLOCK, 0);
    if (folder < 0 || in < 0) {
        return folder < 0 ? folder : in;
    }
    (void)unlinkat(folder, name, 0);
    if (fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > BASE_FILE) {
        return 0;
    }
    _cleanup_close_ int out = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return out < 0 ? -errno : bx_copy_sparse(in, out);
}

int bx_ws_base_load(int dir, size_t index, const char *path, struct bx_buf *ret)
{
    char name[80];
    _cleanup_close_ int folder = base_place(dir, index, path, false, name);
    int r = folder < 0 ? folder : bx_read_file(folder, name, ret);
    return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static void save_first(int dir, size_t index, int root, const struct bx_ws_baseline *b)
{
    uint64_t bytes = 0;
    unsigned files = 0;
    for (size_t i = 0; i < b->n && files < BASE_FILES && bytes < BASE_BYTES; i++) {
        const struct bx_ws_entry *e = &b->v[i];
        bool git = bx_startswith(e->path, ".git/") || strstr(e->path, "/.git/");
        if (e->node.type == BX_WS_FILE && e->node.size > 0 && e->node.size <= BASE_FILE && !git &&
            bx_ws_base_save(dir, index, root, e->path) == 0) {
            files++;
            bytes += e->node.size;
        }
    }
}

/* ---- baselines */

static int prepare_one(int dir, size_t index, const char *host, boxlite_error **err)
{
    _cleanup_(bx_ws_baseline_done) struct bx_ws_baseline b = {0};
    _cleanup_close_ int root = -1;
    char name[32];
    baseline_name(index, name);
    if (faccessat(dir, name, F_OK, 0) == 0) {
        return 0;
    }
    int r = bx_ws_open_root(host, &root, err);
    r = r < 0 ? r : bx_ws_baseline_walk(root, &b, err);
    if (r < 0) {
        return r;
    }
    save_first(dir, index, root, &b);
    return bx_ws_baseline_write(&b, dir, name, err);
}

int bx_ws_prepare(boxlite_box *box, boxlite_error **err)
{
    _cleanup_close_ int dir = -1;
    int r = bx_box_need_config(box, err);
    r = r < 0 ? r : bx_box_need_folder(box, err);
    const struct bx_box_mount *m = r < 0 ? NULL : bx_box_mounts(&box->config);
    for (size_t i = 0; r == 0 && i < box->config.mounts.n; i++) {
        if (!bx_streq(m[i].kind, BX_MOUNT_WORKSPACE)) {
            continue;
        }
        if (dir < 0 && (dir = bx_ws_box_dir(box, true)) < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, dir, "making the box' folder for workspaces");
        }
        r = prepare_one(dir, i, m[i].host, err);
    }
    return r;
}

static int compare_strings(const void *a, const void *b)
{
    return bx_ws_path_cmp(*(const char *const *)a, *(const char *const *)b);
}

/* The plan's paths, sorted; borrowed. */
static const char **touched(const struct bx_ws_plan *plan)
{
    const char **v = calloc(plan->n + 1, sizeof(*v));
    for (size_t i = 0; v && i < plan->n; i++) {
        v[i] = plan->v[i].path;
    }
    if (v && plan->n > 1) {
        qsort(v, plan->n, sizeof(*v), compare_strings);
    }
    return v;
}

/* The old entries and the touched paths, as they are now, merged in order. */
static int follow(const struct bx_ws_baseline *old, const char *const *paths, size_t n, int root,
                  struct bx_ws_baseline *ret)
{
    size_t i = 0, k = 0;
    ret->v = calloc(old->n + n + 1, sizeof(*ret->v));
    ret->text = ret->v ? strdup("") : NULL; /* the paths are the others' */
    if (!ret->text) {
        return -ENOMEM;
    }
    while (i < old->n || k < n) {
        int c = i == old->n ? 1 : k == n ? -1 : bx_ws_path_cmp(old->v[i].path, paths[k]);
        if (c < 0) {
            ret->v[ret->n++] = old->v[i++];
            continue;
        }
        struct bx_ws_node node;
        int r = bx_ws_stat(root, paths[k], &node);
        if (r < 0) {
            return r;
        }
        if (node.type != BX_WS_NONE) {
            ret->v[ret->n++] = (struct bx_ws_entry){(char *)paths[k], node};
        }
        i += c == 0;
        for (const char *done = paths[k]; k < n && bx_streq(paths[k], done);) {
            k++;
        }
    }
    return 0;
}

int bx_ws_baseline_follow(boxlite_box *box, size_t index, int root, const struct bx_ws_plan *plan,
                          boxlite_error **err)
{
    _cleanup_(bx_ws_baseline_done) struct bx_ws_baseline old = {0}, fresh = {0};
    _cleanup_free_ const char **paths = touched(plan);
    _cleanup_close_ int dir = bx_ws_box_dir(box, false);
    char name[32];
    if (dir < 0 || !paths) {
        return dir < 0 ? bx_fail_errno(err, BOXLITE_E_IO, dir, "the box' folder for workspaces")
                       : bx_fail_oom(err);
    }
    baseline_name(index, name);
    int r = bx_ws_baseline_read(dir, name, &old, err);
    if (r < 0) {
        return r;
    }
    r = follow(&old, paths, plan->n, root, &fresh);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "bringing the list of files up to date");
    }
    for (size_t i = 0; i < plan->n; i++) {
        if (plan->v[i].type == BX_WS_OP_PUT && plan->v[i].put == BX_WS_FILE) {
            (void)bx_ws_base_save(dir, index, root, plan->v[i].path);
        }
    }
    return bx_ws_baseline_write(&fresh, dir, name, err);
}
