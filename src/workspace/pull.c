/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c: a layer from the guest as a checked list. The stream is hostile. What must hold:
 *  - no name of it is ever used as a path: contents become files "0", "1", … of a private folder, and names are
 *    kept as text once bx_ws_path_ok() has passed them; ".." and absolute names are refused, not mended;
 *  - each path comes once; what lies "in" a file or link of the same stream is refused;
 *  - entries, bytes of names and bytes of content have maxima; holes are written as holes, but count as content;
 *  - set-user-ID bits, devices and the like are kept as facts, so that the gate can name them; none is made here.
 */
#include <archive.h>
#include <archive_entry.h>
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

#define CHUNK (128u << 10)
#define LINKS_MAX 10000u /* each is looked for in all that came before */
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct pull {
    bx_ws_read_fn read;
    void *data;
    struct archive *archive;
    char *in;
    int dirfd;
    uint64_t limit, taken;
    unsigned files, links;
    struct bx_ws_pulled *list;
    boxlite_error *error;
};

void bx_ws_pulled_done(struct bx_ws_pulled *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->v[i].path);
        free(p->v[i].target);
    }
    free(p->v);
    *p = (struct bx_ws_pulled){.dirfd = -1};
}

static la_ssize_t get(struct archive *a, void *data, const void **ret)
{
    struct pull *p = data;
    (void)a;
    *ret = p->in;
    return p->read(p->data, p->in, CHUNK, &p->error);
}

static int broke(struct pull *p, boxlite_error **err)
{
    const char *why = archive_error_string(p->archive);
    return p->error ? bx_fail_again(err, p->error)
                    : bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent a damaged archive: %s",
                              why ? why : "no reason given");
}

static int refuse(const char *name, const char *why, boxlite_error **err)
{
    _cleanup_free_ char *shown = bx_escape(name, strlen(name), 200);
    return bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent \"%s\", which %s", shown ? shown : "",
                   why);
}

/* Takes the strings of the item. */
static int add(struct pull *p, struct bx_ws_item *take, boxlite_error **err)
{
    struct bx_ws_pulled *l = p->list;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        struct bx_ws_item *v = l->n < BX_WS_CHANGES_MAX ? realloc(l->v, cap * sizeof(*v)) : NULL;
        if (!v) {
            int r = l->n < BX_WS_CHANGES_MAX
                        ? bx_fail_oom(err)
                        : bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent more than %u changes",
                                  BX_WS_CHANGES_MAX);
            free(take->path);
            free(take->target);
            return r;
        }
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = *take;
    return 0;
}

/* ---- contents */

/* Zeros up to there count for the digest. */
static void hash_zeros(struct bx_sha256 *h, uint64_t n)
{
    static const char zeros[65536];
    for (; n > 0; n -= n < sizeof(zeros) ? n : sizeof(zeros)) {
        bx_sha256_update(h, zeros, n < sizeof(zeros) ? (size_t)n : sizeof(zeros));
    }
}

static int save_blocks(struct pull *p, int fd, struct bx_sha256 *hash, const struct bx_ws_item *it,
                       boxlite_error **err)
{
    uint64_t at = 0;
    for (;;) {
        const void *block;
        size_t len;
        int64_t off;
        int a = archive_read_data_block(p->archive, &block, &len, &off);
        if (a == ARCHIVE_EOF) {
            break;
        }
        if (a < ARCHIVE_WARN) {
            return broke(p, err);
        }
        if (off < 0 || (uint64_t)off < at || (uint64_t)off > it->size ||
            len > it->size - (uint64_t)off) {
            return refuse(it->path, "is larger than it says", err);
        }
        int r = bx_pwrite_full(fd, block, len, off);
        if (r < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, r, "keeping the content of %s", it->path);
        }
        hash_zeros(hash, (uint64_t)off - at);
        bx_sha256_update(hash, block, len);
        at = (uint64_t)off + len;
    }
    hash_zeros(hash, it->size - at);
    return 0;
}

static int save(struct pull *p, struct bx_ws_item *it, boxlite_error **err)
{
    _cleanup_sha256_ struct bx_sha256 *hash = bx_sha256_new();
    char name[16];
    if (!hash) {
        return bx_fail_oom(err);
    }
    if (it->size > p->limit - p->taken) {
        int r = bx_fail(err, BOXLITE_E_NO_SPACE, "the changes are larger than %llu MiB together",
                        (unsigned long long)(p->limit >> 20));
        bx_hint(err, "copy what you need with: boxlite cp");
        return r;
    }
    p->taken += it->size;
    it->file = p->files++;
    (void)snprintf(name, sizeof(name), "%u", it->file);
    _cleanup_close_ int fd =
        openat(p->dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "keeping the content of %s", it->path);
    }
    int r = save_blocks(p, fd, hash, it, err);
    if (r == 0 && ftruncate(fd, (off_t)it->size) < 0) {
        r = bx_fail_errno(err, BOXLITE_E_IO, errno, "keeping the content of %s", it->path);
    }
    if (r == 0) {
        bx_sha256_final(hash, it->digest);
    }
    return r;
}

/* ---- entries */

/* The path that an entry is about, without the slash of a folder; a whiteout's own prefix taken off. */
static char *path_of(const char *name, bool *whiteout, bool *opaque)
{
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] == '/') {
        n--;
    }
    _cleanup_free_ char *path = strndup(name, n);
    if (!path) {
        return NULL;
    }
    char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    *opaque = bx_streq(base, OPAQUE);
    *whiteout = !*opaque && bx_startswith(base, WHITEOUT);
    if (*opaque) {
        *(slash ? slash : path) = '\0';
    } else if (*whiteout) {
        memmove(base, base + strlen(WHITEOUT), strlen(base + strlen(WHITEOUT)) + 1);
    }
    return steal_ptr(&path);
}

/* A further name of a file that came before: the same content. */
static int take_hardlink(struct pull *p, const char *to, struct bx_ws_item *it, boxlite_error **err)
{
    if (p->links++ == LINKS_MAX) {
        return refuse(it->path, "is one hard link too many", err);
    }
    for (size_t i = p->list->n; i-- > 0;) {
        const struct bx_ws_item *old = &p->list->v[i];
        if (old->type == BX_WS_FILE && bx_streq(old->path, to)) {
            it->type = BX_WS_FILE;
            it->size = old->size;
            it->file = old->file;
            memcpy(it->digest, old->digest, sizeof(it->digest));
            return 0;
        }
    }
    return refuse(it->path, "is a link to a file that did not come before", err);
}

static int take_type(struct pull *p, struct archive_entry *e, struct bx_ws_item *it,
                     boxlite_error **err)
{
    const char *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);
    hard = hard ? hard : archive_entry_hardlink_utf8(e);
    soft = soft ? soft : archive_entry_symlink_utf8(e);
    if (hard) {
        return take_hardlink(p, hard, it, err);
    }
    switch (archive_entry_filetype(e)) {
    case S_IFREG:
        it->type = BX_WS_FILE;
        it->size = archive_entry_size(e) < 0 ? 0 : (uint64_t)archive_entry_size(e);
        return save(p, it, err);
    case S_IFDIR:
        it->type = BX_WS_DIR;
        return 0;
    case S_IFLNK:
        it->type = BX_WS_LINK;
        if (!soft || !*soft || strlen(soft) > BX_WS_PATH_MAX) {
            return refuse(it->path, "is a link without a target", err);
        }
        it->target = strdup(soft);
        it->size = strlen(soft);
        return it->target ? 0 : bx_fail_oom(err);
    default:
        it->type = BX_WS_OTHER;
        return 0;
    }
}

static int take_entry(struct pull *p, struct archive_entry *e, boxlite_error **err)
{
    const char *plain = archive_entry_pathname(e); /* NULL: the locale does not know its letters */
    const char *name = plain ? plain : archive_entry_pathname_utf8(e);
    struct bx_ws_item it = {.mode = archive_entry_perm(e) & 07777,
                            .mtime_ns = archive_entry_mtime(e) > INT64_MAX / 2000000000 ||
                                                archive_entry_mtime(e) < 0
                                            ? 0
                                            : archive_entry_mtime(e) * 1000000000 +
                                                  archive_entry_mtime_nsec(e) % 1000000000};
    if (!name) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the box sent an entry without a name");
    }
    it.path = path_of(name, &it.whiteout, &it.opaque);
    if (!it.path) {
        return bx_fail_oom(err);
    }
    int r = 0;
    if (it.opaque && !*it.path) {
        free(it.path);
        it.path = strdup(".");
    } else if (!bx_ws_path_ok(it.path)) {
        r = refuse(name, "is no path below the workspace", err);
    }
    if (r == 0 && !it.whiteout && !it.opaque) {
        r = take_type(p, e, &it, err);
    }
    if (r < 0) {
        free(it.path);
        free(it.target);
        return r;
    }
    return add(p, &it, err);
}

/* ---- the list as a whole */

static int compare(const void *a, const void *b)
{
    const struct bx_ws_item *x = a, *y = b;
    int c = bx_ws_path_cmp(x->path, y->path);
    return c ? c : x->opaque - y->opaque; /* the folder, then its mark */
}

/* Joins a folder and its mark; refuses what comes twice and what lies below a thing that is no folder. */
static int settle(struct bx_ws_pulled *l, boxlite_error **err)
{
    size_t out = 0;
    const struct bx_ws_item *above = NULL;
    if (l->n > 1) {
        qsort(l->v, l->n, sizeof(*l->v), compare);
    }
    for (size_t i = 0; i < l->n; i++) {
        struct bx_ws_item *it = &l->v[i], *last = out ? &l->v[out - 1] : NULL;
        if (it->opaque && last && bx_streq(last->path, it->path) &&
            (last->type == BX_WS_DIR || last->opaque)) {
            last->opaque = true;
            free(it->path);
            it->path = NULL;
            continue;
        }
        size_t n = above ? strlen(above->path) : 0;
        const char *why = last && bx_streq(last->path, it->path) ? "came twice"
                          : above && strncmp(above->path, it->path, n) == 0 && it->path[n] == '/'
                              ? "lies in something that is no folder"
                              : NULL;
        if (why) {
            int r = refuse(it->path, why, err);
            for (; i < l->n; i++) { /* what was not moved down yet */
                struct bx_ws_item gone = l->v[i];
                l->v[i] = (struct bx_ws_item){0};
                free(gone.path);
                free(gone.target);
            }
            l->n = out;
            return r;
        }
        struct bx_ws_item moved = *it;
        *it = (struct bx_ws_item){0};
        l->v[out++] = moved;
        above = moved.type != BX_WS_DIR && !moved.opaque ? &l->v[out - 1] : NULL;
    }
    l->n = out;
    return 0;
}

int bx_ws_pull(bx_ws_read_fn read, void *data, int dirfd, uint64_t limit, struct bx_ws_pulled *ret,
               boxlite_error **err)
{
    struct bx_ws_pulled list = {.dirfd = dirfd};
    struct pull p = {.read = read, .data = data, .dirfd = dirfd, .limit = limit, .list = &list};
    struct archive_entry *e;
    int a, r = 0;

    p.archive = archive_read_new();
    p.in = malloc(CHUNK);
    if (!p.archive || !p.in) {
        r = bx_fail_oom(err);
    } else if (archive_read_support_format_tar(p.archive) != ARCHIVE_OK ||
               archive_read_open(p.archive, &p, NULL, get, NULL) != ARCHIVE_OK) {
        r = broke(&p, err);
    }
    while (r == 0 && (a = archive_read_next_header(p.archive, &e)) != ARCHIVE_EOF) {
        r = a < ARCHIVE_WARN ? broke(&p, err) : take_entry(&p, e, err);
    }
    r = r < 0 ? r : settle(&list, err);
    (void)archive_read_free(p.archive);
    boxlite_error_free(p.error);
    free(p.in);
    if (r < 0) {
        bx_ws_pulled_done(&list);
        return r;
    }
    *ret = list;
    return 0;
}
