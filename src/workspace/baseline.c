/* SPDX-License-Identifier: Apache-2.0 */
/*
 * baseline.c: what a workspace was when the box saw it first: one record a node, made by one walk without reading
 * any content, so that 50,000 files cost a fraction of a second.
 *
 * The file: "boxlite-baseline 1\n", then records "TYPE MODE SIZE MTIME_NS CTIME_NS INO PATH\0" in path order. It
 * lies in the home, which may be damaged: everything is checked when it is read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "workspace/workspace.h"

#define MAGIC "boxlite-baseline 1\n"
#define FILE_MAX_BYTES (1u << 30)

static const char type_letters[] = "?fdlo"; /* by enum bx_ws_type */

int bx_ws_path_cmp(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
    int y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
    return x - y;
}

void bx_ws_baseline_done(struct bx_ws_baseline *b)
{
    for (size_t i = 0; i < b->n && !b->text; i++) {
        free(b->v[i].path);
    }
    free(b->v);
    free(b->text);
    *b = (struct bx_ws_baseline){0};
}

static int add(struct bx_ws_baseline *b, char *take_path, const struct bx_ws_node *node)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 1024;
        struct bx_ws_entry *v = b->n < BX_WS_NODES_MAX ? realloc(b->v, cap * sizeof(*v)) : NULL;
        if (!v) {
            return b->n < BX_WS_NODES_MAX ? -ENOMEM : -E2BIG;
        }
        b->v = v;
        b->cap = cap;
    }
    b->v[b->n++] = (struct bx_ws_entry){take_path, *node};
    return 0;
}

/* ---- the walk */

struct walk {
    struct bx_ws_baseline *b;
    struct bx_buf path;
    unsigned depth;
};

static int walk_dir(struct walk *w, int dirfd, const char *name, boxlite_error **err);

static int walk_node(struct walk *w, int dirfd, const char *name, boxlite_error **err)
{
    struct bx_ws_node node;
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT
                   ? 0
                   : bx_fail_errno(err, BOXLITE_E_IO, errno, "%s", bx_buf_str(&w->path));
    }
    bx_ws_node_of(&st, &node);
    char *path = strdup(bx_buf_str(&w->path));
    int r = path ? add(w->b, path, &node) : -ENOMEM;
    if (r < 0) {
        free(path);
        return r == -ENOMEM ? bx_fail_oom(err)
                            : bx_fail(err, BOXLITE_E_INVALID,
                                      "the workspace has more than %u files", BX_WS_NODES_MAX);
    }
    return node.type == BX_WS_DIR ? walk_dir(w, dirfd, name, err) : 0;
}

static int walk_dir(struct walk *w, int dirfd, const char *name, boxlite_error **err)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const size_t len = w->path.len;
    struct dirent *d;
    int r = 0;
    if (!dir) {
        if (errno == ENOENT ||
            errno == EACCES) { /* gone; or what neither we nor the box can read */
            return 0;
        }
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening %s", bx_buf_str(&w->path));
    }
    if (w->depth++ == BX_WS_DEPTH_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: folders are nested too deeply",
                       bx_buf_str(&w->path));
    }
    while (r == 0 && (errno = 0, d = readdir(dir))) {
        if (bx_streq(d->d_name, ".") || bx_streq(d->d_name, "..")) {
            continue;
        }
        if (bx_buf_appendf(&w->path, "%s%s", len ? "/" : "", d->d_name) < 0) {
            return bx_fail(err, BOXLITE_E_INVALID, "%s: the path is too long", d->d_name);
        }
        r = walk_node(w, fd, d->d_name, err);
        w->path.len = len;
        bx_buf_data(&w->path)[len] = '\0';
    }
    w->depth--;
    return r == 0 && errno
               ? bx_fail_errno(err, BOXLITE_E_IO, errno, "reading %s", bx_buf_str(&w->path))
               : r;
}

static int compare_entries(const void *a, const void *b)
{
    return bx_ws_path_cmp(((const struct bx_ws_entry *)a)->path,
                          ((const struct bx_ws_entry *)b)->path);
}

int bx_ws_baseline_walk(int root, struct bx_ws_baseline *ret, boxlite_error **err)
{
    struct bx_ws_baseline b = {0};
    struct walk w = {.b = &b, .path = BX_BUF_INIT(BX_WS_PATH_MAX)};
    int r = walk_dir(&w, root, ".", err);
    bx_buf_done(&w.path);
    if (r < 0) {
        bx_ws_baseline_done(&b);
        bx_wrap(err, "looking through the workspace");
        return r;
    }
    if (b.n > 1) {
        qsort(b.v, b.n, sizeof(*b.v), compare_entries);
    }
    *ret = b;
    return 0;
}

/* ---- the file */

int bx_ws_baseline_write(const struct bx_ws_baseline *b, int dirfd, const char *name,
                         boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(FILE_MAX_BYTES);
    int r = bx_buf_appends(&text, MAGIC);
    for (size_t i = 0; r == 0 && i < b->n; i++) {
        const struct bx_ws_node *n = &b->v[i].node;
        r = bx_buf_appendf(&text, "%c %o %" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 " %s",
                           type_letters[n->type], n->mode, n->size, n->mtime_ns, n->ctime_ns,
                           n->ino, b->v[i].path);
        r = r < 0 ? r : bx_buf_append(&text, "", 1);
    }
    r = r < 0 ? r : bx_write_file(dirfd, name, bx_buf_data(&text), text.len, 0600);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing the workspace's list of files") : 0;
}

/* A number and the blank behind it. */
static bool number(char **p, int base, int64_t *ret)
{
    char *end;
    if (**p == '+' || **p == ' ') {
        return false;
    }
    errno = 0;
    *ret = strtoll(*p, &end, base);
    if (errno || end == *p || *end != ' ') {
        return false;
    }
    *p = end + 1;
    return true;
}

static bool parse_record(char *p, struct bx_ws_node *n, char **ret_path)
{
    const char *type = *p && p[1] == ' ' ? strchr(type_letters + 1, *p) : NULL;
    int64_t mode, size, ino;
    if (!type) {
        return false;
    }
    p += 2;
    if (!number(&p, 8, &mode) || !number(&p, 10, &size) || !number(&p, 10, &n->mtime_ns) ||
        !number(&p, 10, &n->ctime_ns) || !number(&p, 10, &ino)) {
        return false;
    }
    n->type = (enum bx_ws_type)(type - type_letters);
    n->mode = (uint32_t)mode;
    n->size = (uint64_t)size;
    n->ino = (uint64_t)ino;
    *ret_path = p;
    return mode >= 0 && mode <= 07777 && size >= 0 && bx_ws_path_ok(p);
}

static int parse_all(struct bx_ws_baseline *b, char *p, const char *end)
{
    while (p < end) {
        struct bx_ws_node node = {0};
        size_t len = strlen(p); /* a NUL follows the buffer */
        char *path;
        if (p + len >= end || !parse_record(p, &node, &path) ||
            (b->n > 0 && bx_ws_path_cmp(b->v[b->n - 1].path, path) >= 0)) {
            return -EBADMSG;
        }
        int r = add(b, path, &node);
        if (r < 0) {
            return r;
        }
        p += len + 1;
    }
    return 0;
}

int bx_ws_baseline_parse(char *text, size_t len, struct bx_ws_baseline *ret, boxlite_error **err)
{
    struct bx_ws_baseline b = {.text = text};
    const size_t magic = strlen(MAGIC);
    int r = len >= magic && memcmp(text, MAGIC, magic) == 0
                ? parse_all(&b, text + magic, text + len)
                : -EBADMSG;
    if (r < 0) {
        bx_ws_baseline_done(&b);
        return r == -ENOMEM ? bx_fail_oom(err)
                            : bx_fail(err, BOXLITE_E_INTEGRITY,
                                      "the box' list of the workspace's files is damaged");
    }
    *ret = b;
    return 0;
}

int bx_ws_baseline_read(int dirfd, const char *name, struct bx_ws_baseline *ret,
                        boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(FILE_MAX_BYTES);
    size_t len;
    int r = bx_read_file(dirfd, name, &b);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading the workspace's list of files");
    }
    char *text = bx_buf_steal(&b, &len);
    return text ? bx_ws_baseline_parse(text, len, ret, err) : bx_fail_oom(err);
}

/* ---- looking up */

/* The first entry that is not before path. */
static size_t lower_bound(const struct bx_ws_baseline *b, const char *path)
{
    size_t low = 0, high = b->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (bx_ws_path_cmp(b->v[mid].path, path) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

const struct bx_ws_node *bx_ws_baseline_find(const struct bx_ws_baseline *b, const char *path)
{
    size_t i = lower_bound(b, path);
    return i < b->n && bx_streq(b->v[i].path, path) ? &b->v[i].node : NULL;
}

size_t bx_ws_baseline_below(const struct bx_ws_baseline *b, const char *dir, size_t *ret_first)
{
    size_t first = lower_bound(b, dir), len = strlen(dir), n = 0;
    if (first < b->n && bx_streq(b->v[first].path, dir)) {
        first++;
    }
    while (first + n < b->n && strncmp(b->v[first + n].path, dir, len) == 0 &&
           b->v[first + n].path[len] == '/') {
        n++;
    }
    *ret_first = first;
    return n;
}
