/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes.c: the guest's upper folder and the baseline together: what a user would call the changes.
 *
 * The upper holds whole files, also those whose content in the end did not change: they are compared with the host's
 * file, byte by byte, as long as that is still the one that the box saw. If it is not, the change is in conflict, and
 * what the host has now decides nothing.
 *
 * A rename is a deleted and an added file with the same content (not empty, not a folder, same type of node). Each
 * change names what must be found on the host (`old`), so that an apply can check it again at the last moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/sha256.h"
#include "workspace/workspace.h"

#define CHUNK 65536
#define BINARY_LOOK 8000 /* bytes in which a NUL makes a file binary, as for git */

void bx_ws_change_done(struct bx_ws_change *c)
{
    free(c->path);
    free(c->from);
    free(c->old_target);
    free(c->target);
    free(c->conflict);
    free(c->rule);
    free(c->allow);
}

void bx_ws_changes_done(struct bx_ws_changes *c)
{
    for (size_t i = 0; i < c->n; i++) {
        bx_ws_change_done(&c->v[i]);
    }
    free(c->v);
    *c = (struct bx_ws_changes){0};
}

const char *bx_ws_kind_name(enum bx_ws_kind kind)
{
    static const char *const names[] = {"?",       "added", "modified",    "deleted",
                                        "renamed", "mode",  "type changed"};
    return names[kind];
}

int bx_ws_changes_add(struct bx_ws_changes *c, struct bx_ws_change *take, boxlite_error **err)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 64;
        struct bx_ws_change *v = c->n < BX_WS_NODES_MAX ? realloc(c->v, cap * sizeof(*v)) : NULL;
        if (!v) {
            bx_ws_change_done(take);
            return bx_fail_oom(err);
        }
        c->v = v;
        c->cap = cap;
    }
    c->v[c->n++] = *take;
    return 0;
}

void bx_ws_changes_filter(struct bx_ws_changes *c,
                          bool (*keep)(const struct bx_ws_change *, void *), void *data,
                          size_t *count)
{
    size_t out = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (keep(&c->v[i], data)) {
            c->v[out++] = c->v[i];
        } else {
            bx_ws_change_done(&c->v[i]);
            ++*count;
        }
    }
    c->n = out;
}

/* ---- comparing */

struct compare {
    int root;
    const struct bx_ws_baseline *base;
    const struct bx_ws_pulled *now;
    struct bx_ws_changes *out;
};

/* The new content as a descriptor. */
static int open_file(const struct compare *c, unsigned number)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "%u", number);
    int fd = openat(c->now->dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int same_bytes(int a, int b)
{
    static __thread char x[CHUNK], y[CHUNK];
    for (;;) {
        ssize_t n = bx_read_full(a, x, CHUNK), m = bx_read_full(b, y, CHUNK);
        if (n < 0 || m < 0) {
            return n < 0 ? (int)n : (int)m;
        }
        if (n != m || memcmp(x, y, (size_t)n) != 0) {
            return 0;
        }
        if (n < CHUNK) {
            return 1;
        }
    }
}

/* 1: the host's file has this content; 0: another one; or -errno. */
static int same_content(const struct compare *c, const char *path, const struct bx_ws_item *it)
{
    _cleanup_close_ int host = bx_ws_openat(c->root, path, O_RDONLY | O_NONBLOCK, 0);
    _cleanup_close_ int fresh = open_file(c, it->file);
    if (host < 0 || fresh < 0) {
        return host < 0 ? host : fresh;
    }
    return same_bytes(host, fresh);
}

/* What must be on the host for the change to fit; a conflict if it is not. */
static int check_host(const struct compare *c, struct bx_ws_change *ch, boxlite_error **err)
{
    struct bx_ws_node host;
    int r = bx_ws_stat(c->root, ch->path, &host);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "%s", ch->path);
    }
    const char *why = bx_ws_node_same(&host, &ch->old) ? NULL
                      : host.type == BX_WS_NONE        ? "it was deleted here meanwhile"
                      : ch->old.type == BX_WS_NONE     ? "it was made here meanwhile"
                                                       : "it was changed here meanwhile";
    if (why && !(ch->conflict = strdup(why))) {
        return bx_fail_oom(err);
    }
    if (ch->old.type == BX_WS_LINK && host.type == BX_WS_LINK && !ch->old_target) {
        r = bx_ws_readlink(c->root, ch->path, &ch->old_target);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "%s", ch->path) : 0;
}

static bool is_binary(const struct compare *c, const struct bx_ws_item *it)
{
    char look[BINARY_LOOK];
    _cleanup_close_ int fd = open_file(c, it->file);
    ssize_t n = fd < 0 ? 0 : bx_read_full(fd, look, sizeof(look));
    return n > 0 && memchr(look, 0, (size_t)n);
}

static bool host_is_binary(const struct compare *c, const char *path)
{
    char look[BINARY_LOOK];
    _cleanup_close_ int fd = bx_ws_openat(c->root, path, O_RDONLY | O_NONBLOCK, 0);
    ssize_t n = fd < 0 ? 0 : bx_read_full(fd, look, sizeof(look));
    return n > 0 && memchr(look, 0, (size_t)n);
}

static int add_deleted(const struct compare *c, const char *path, const struct bx_ws_node *old,
                       boxlite_error **err)
{
    struct bx_ws_change ch = {.kind = BX_WS_DELETED, .path = strdup(path), .old = *old, .file = -1};
    int r = ch.path ? check_host(c, &ch, err) : bx_fail_oom(err);
    if (r < 0) {
        bx_ws_change_done(&ch);
        return r;
    }
    ch.binary = old->type == BX_WS_FILE && !ch.conflict && host_is_binary(c, path);
    return bx_ws_changes_add(c->out, &ch, err);
}

static const struct bx_ws_item *find_item(const struct bx_ws_pulled *l, const char *path)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int k = bx_ws_path_cmp(l->v[mid].path, path);
        if (k == 0) {
            return &l->v[mid];
        }
        if (k < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}

/* All below a folder of the baseline, but what the guest has there again (which tells for itself). */
static int delete_below(const struct compare *c, const char *dir, boxlite_error **err)
{
    size_t first = 0, n = c->base->n;
    if (!bx_streq(dir, ".")) {
        n = bx_ws_baseline_below(c->base, dir, &first);
    }
    for (size_t i = first; i < first + n; i++) {
        const struct bx_ws_entry *e = &c->base->v[i];
        int r = find_item(c->now, e->path) ? 0 : add_deleted(c, e->path, &e->node, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Sets the kind; 0: nothing changed; or -errno. */
static int decide(const struct compare *c, const struct bx_ws_item *it, struct bx_ws_change *ch)
{
    const struct bx_ws_node *old = &ch->old;
    if (old->type == BX_WS_NONE) {
        ch->kind = BX_WS_ADDED;
        return 1;
    }
    if (old->type != it->type) {
        ch->kind = BX_WS_RETYPED;
        return 1;
    }
    int same = 1;
    if (it->type == BX_WS_LINK) {
        same = ch->old_target && bx_streq(ch->old_target, it->target);
    } else if (it->type == BX_WS_FILE) {
        same = !ch->conflict && old->size != it->size ? 0 : same_content(c, it->path, it);
        if (ch->conflict && same == 1) {
            return 0; /* the host has come to the same by itself */
        }
        same = ch->conflict ? 0 : same;
    }
    if (same < 0) {
        return same;
    }
    bool mode = it->type != BX_WS_LINK && ((old->mode ^ it->mode) & 0777) != 0;
    ch->kind = same ? BX_WS_MODE : BX_WS_MODIFIED;
    return !same || mode;
}

static int add_present(const struct compare *c, const struct bx_ws_item *it, boxlite_error **err)
{
    const struct bx_ws_node *old = bx_ws_baseline_find(c->base, it->path);
    struct bx_ws_change ch = {
        .path = strdup(it->path),
        .fresh = {.type = it->type, .mode = it->mode, .size = it->size, .mtime_ns = it->mtime_ns},
        .old = old ? *old : (struct bx_ws_node){.type = BX_WS_NONE},
        .target = it->target ? strdup(it->target) : NULL,
        .file = it->type == BX_WS_FILE ? (int)it->file : -1,
    };
    int r = ch.path && (!it->target || ch.target) ? check_host(c, &ch, err) : bx_fail_oom(err);
    if (r == 0) {
        r = decide(c, it, &ch);
        if (r < 0) {
            r = bx_fail_errno(err, BOXLITE_E_IO, r, "comparing %s", it->path);
        }
    }
    if (r <= 0) {
        bx_ws_change_done(&ch);
        return r;
    }
    ch.binary = it->type == BX_WS_FILE &&
                (is_binary(c, it) || (ch.old.type == BX_WS_FILE && host_is_binary(c, it->path)));
    return bx_ws_changes_add(c->out, &ch, err);
}

/* A folder in both that the host has changed in itself is no conflict: nothing of it is replaced. */
static int take_item(const struct compare *c, const struct bx_ws_item *it, boxlite_error **err)
{
    const struct bx_ws_node *old = bx_ws_baseline_find(c->base, it->path);
    int r = 0;
    if (it->whiteout) {
        r = old ? add_deleted(c, it->path, old, err) : 0;
    } else if (it->type != BX_WS_NONE) {
        r = add_present(c, it, err);
    }
    bool gone = it->whiteout || it->opaque ||
                (old && old->type == BX_WS_DIR && it->type != BX_WS_DIR && it->type != BX_WS_NONE);
    return r < 0 || !gone ? r : delete_below(c, it->path, err);
}

/* ---- renames */

static int compare_changes(const void *a, const void *b)
{
    return bx_ws_path_cmp(((const struct bx_ws_change *)a)->path,
                          ((const struct bx_ws_change *)b)->path);
}

static int compare_sizes(const void *a, const void *b)
{
    const struct bx_ws_change *x = *(struct bx_ws_change *const *)a,
                              *y = *(struct bx_ws_change *const *)b;
    return x->old.size != y->old.size ? (x->old.size < y->old.size ? -1 : 1)
                                      : bx_ws_path_cmp(x->path, y->path);
}

static bool may_rename(const struct bx_ws_change *from, const struct bx_ws_change *to)
{
    return from->kind == BX_WS_DELETED && !from->conflict && to->kind == BX_WS_ADDED &&
           !to->conflict && from->old.type == BX_WS_FILE && to->fresh.type == BX_WS_FILE &&
           from->old.size == to->fresh.size && to->fresh.size > 0;
}

static int find_renames(const struct compare *c, boxlite_error **err)
{
    struct bx_ws_changes *l = c->out;
    struct bx_ws_change **gone = calloc(l->n + 1, sizeof(struct bx_ws_change *));
    size_t n = 0;
    if (!gone) {
        return bx_fail_oom(err);
    }
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].kind == BX_WS_DELETED && l->v[i].old.type == BX_WS_FILE) {
            gone[n++] = &l->v[i];
        }
    }
    qsort(gone, n, sizeof(*gone), compare_sizes);
    for (size_t i = 0; i < l->n && n > 0; i++) {
        struct bx_ws_change *to = &l->v[i], key = {.old.size = to->fresh.size, .path = (char *)""};
        size_t low = 0, high = n;
        while (low < high) {
            size_t mid = low + (high - low) / 2;
            const struct bx_ws_change *k = &key;
            if (compare_sizes(&gone[mid], &k) < 0) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        for (size_t tries = 0; low < n && tries < 64 && gone[low]->old.size == to->fresh.size;
             low++, tries++) {
            struct bx_ws_change *from = gone[low];
            const struct bx_ws_item *it = find_item(c->now, to->path);
            if (may_rename(from, to) && it && same_content(c, from->path, it) == 1) {
                to->kind = BX_WS_RENAMED;
                to->from = steal_ptr(&from->path);
                to->old = from->old;
                from->kind = 0;
                break;
            }
        }
    }
    free(gone);
    return 0;
}

static bool is_change(const struct bx_ws_change *c, void *data)
{
    (void)data;
    return c->kind != 0;
}

/* A path can be deleted by several folders above it. */
static bool is_first(const struct bx_ws_change *c, void *data)
{
    const char **last = data;
    bool first = !*last || !bx_streq(*last, c->path);
    *last = first ? c->path : *last;
    return first;
}

int bx_ws_compare(int root, const struct bx_ws_baseline *base, const struct bx_ws_pulled *now,
                  struct bx_ws_changes *ret, boxlite_error **err)
{
    struct bx_ws_changes out = {0};
    struct compare c = {root, base, now, &out};
    size_t merged = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < now->n; i++) {
        r = take_item(&c, &now->v[i], err);
    }
    r = r < 0 ? r : find_renames(&c, err);
    if (r < 0) {
        bx_ws_changes_done(&out);
        bx_wrap(err, "comparing with the workspace");
        return r;
    }
    bx_ws_changes_filter(&out, is_change, NULL, &merged);
    if (out.n > 1) {
        qsort(out.v, out.n, sizeof(*out.v), compare_changes);
    }
    bx_ws_changes_filter(&out, is_first, &(const char *){NULL}, &merged);
    *ret = out;
    return 0;
}
