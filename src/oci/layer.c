/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.c: the layer reader. tar.c takes the archive apart; what it says is checked here before the tree hears of it, and the tree (disk/tree.c) checks what depends on other entries.
 *
 * Whiteouts are those of the OCI image specification: ".wh.NAME" hides NAME of lower layers, ".wh..wh..opq" all
 * that lower layers put into its folder. Other ".wh..wh." names are marks of aufs and mean nothing.
 * A hard link may come before its target; such links are made when the layer has been read.
 */
#include "oci/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/str.h"
#include "oci/tar.h"

#define XATTRS_MAX 64u
#define PENDING_MAX 100000u
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define AUFS_MARK ".wh..wh."

struct reader {
    struct bx_stream *in;
    struct bx_rootfs *root;
    struct bx_tar tar;
    struct bx_strv pending; /* hard links before their targets: path, target, path, … */
    uint32_t layer;
};

static int apply_whiteout(struct reader *rd, const char *path, const char *base,
                          boxlite_error **err)
{
    _cleanup_free_ char *dir = strndup(path, base == path ? 0 : (size_t)(base - path) - 1);
    _cleanup_free_ char *target = NULL;
    const char *name = base + strlen(WHITEOUT);

    if (!dir) {
        return bx_fail_oom(err);
    }
    if (bx_streq(base, OPAQUE)) {
        return bx_rootfs_opaque(rd->root, dir, rd->layer, err);
    }
    if (bx_startswith(base, AUFS_MARK)) {
        return 0;
    }
    if (*name == '\0' || bx_streq(name, ".") || bx_streq(name, "..")) {
        return bx_tar_refuse(err, path, "a whiteout of nothing");
    }
    target = *dir ? bx_asprintf("%s/%s", dir, name) : strdup(name);
    return target ? bx_rootfs_remove(rd->root, target, err) : bx_fail_oom(err);
}

static int apply_link(struct reader *rd, const char *path, const char *to, boxlite_error **err)
{
    _cleanup_free_ char *target = NULL;
    _cleanup_error_ boxlite_error *why = NULL;
    int r = bx_tar_clean_name(to, path, &target, err);

    if (r < 0) {
        bx_wrap(err, "hard link");
        return r;
    }
    r = bx_rootfs_link(rd->root, path, target, &why);
    if (r != BOXLITE_E_NOT_FOUND) {
        if (r < 0 && err) {
            *err = steal_ptr(&why);
        }
        return r;
    }
    rd->pending.max = 2 * PENDING_MAX;
    r = bx_strv_add(&rd->pending, path);
    if (r == 0) {
        r = bx_strv_add(&rd->pending, target);
    }
    return r == 0         ? 0
           : r == -ENOMEM ? bx_fail_oom(err)
                          : bx_tar_refuse(err, path, "too many hard links before their targets");
}

static int apply_pending(struct reader *rd, boxlite_error **err)
{
    for (size_t i = 0; i + 1 < rd->pending.n; i += 2) {
        int r = bx_rootfs_link(rd->root, rd->pending.v[i], rd->pending.v[i + 1], err);
        if (r == BOXLITE_E_NOT_FOUND && err) {
            boxlite_error_free(steal_ptr(err));
        }
        if (r == BOXLITE_E_NOT_FOUND) {
            return bx_tar_refuse(err, rd->pending.v[i], "a hard link to what is not in the image");
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int write_zeros(struct reader *rd, uint64_t n, boxlite_error **err)
{
    static const uint8_t zeros[128 << 10];

    while (n > 0) {
        size_t part = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);
        int r = bx_rootfs_write(rd->root, zeros, part, err);
        if (r < 0) {
            return r;
        }
        n -= part;
    }
    return 0;
}

/* The data of a regular file; holes of sparse ones come as gaps between the blocks. */
static int apply_data(struct reader *rd, const char *path, uint64_t size, boxlite_error **err)
{
    uint64_t at = 0, off;
    const void *data;
    size_t n;
    int r;

    while ((r = bx_tar_data(&rd->tar, &data, &n, &off, err)) > 0) {
        if (off < at || off > size || n > size - off) {
            return bx_tar_refuse(err, path, "a sparse file whose parts do not fit");
        }
        r = write_zeros(rd, off - at, err);
        if (r == 0) {
            r = bx_rootfs_write(rd->root, data, n, err);
        }
        if (r < 0) {
            return r;
        }
        at = off + n;
    }
    if (r < 0) {
        return r;
    }
    return write_zeros(rd, size - at, err);
}

static int read_xattrs(struct archive_entry *entry, const char *path,
                       struct bx_rootfs_xattr *xattrs, struct bx_rootfs_entry *e,
                       boxlite_error **err)
{
    const char *name;
    const void *value;
    size_t size;

    e->xattrs = xattrs;
    (void)archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
        if (e->nxattrs == XATTRS_MAX || size > UINT16_MAX || !name || strlen(name) > 255) {
            return bx_tar_refuse(err, path, "too many or too large extended attributes");
        }
        xattrs[e->nxattrs++] = (struct bx_rootfs_xattr){.name = name, .value = value, .size = size};
    }
    return 0;
}

static int read_attributes(struct archive_entry *entry, const char *path, struct bx_rootfs_entry *e,
                           boxlite_error **err)
{
    int64_t uid = archive_entry_uid(entry), gid = archive_entry_gid(entry);

    if (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX) {
        return bx_tar_refuse(err, path, "an owner out of range");
    }
    e->mode = archive_entry_filetype(entry) | (archive_entry_perm(entry) & 07777);
    e->uid = (uint32_t)uid;
    e->gid = (uint32_t)gid;
    e->mtime = archive_entry_mtime(entry);
    e->dev_major = (uint32_t)archive_entry_rdevmajor(entry);
    e->dev_minor = (uint32_t)archive_entry_rdevminor(entry);
    if (S_ISLNK(e->mode)) {
        e->link = archive_entry_symlink(entry);
        if (!e->link) {
            return bx_tar_refuse(err, path, "a symlink without a target");
        }
    }
    return 0;
}

static int apply_node(struct reader *rd, struct archive_entry *entry, const char *path, bool folder,
                      boxlite_error **err)
{
    struct bx_rootfs_xattr xattrs[XATTRS_MAX];
    struct bx_rootfs_entry e = {0};
    int64_t size = archive_entry_size(entry);
    int r = read_attributes(entry, path, &e, err);

    if (r == 0) {
        r = read_xattrs(entry, path, xattrs, &e, err);
    }
    if (r < 0) {
        return r;
    }
    if (folder && S_ISREG(e.mode)) { /* old archives mark folders so */
        e.mode = (e.mode & 07777) | S_IFDIR;
    }
    if (S_ISREG(e.mode) && (size < 0 || (uint64_t)size > bx_rootfs_room(rd->root))) {
        r = bx_tar_refuse(err, path, "larger than an image may be");
        bx_hint(err, "if the image is trustworthy, allow a larger one");
        return r;
    }
    r = bx_rootfs_add(rd->root, path, &e, err);
    return r < 0 || !S_ISREG(e.mode) ? r : apply_data(rd, path, (uint64_t)size, err);
}

static int apply_entry(struct reader *rd, struct archive_entry *entry, boxlite_error **err)
{
    const char *name = archive_entry_pathname(entry), *base, *link;
    _cleanup_free_ char *path = NULL;
    int r;

    if (!name || *name == '\0') {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "an entry without a name");
    }
    r = bx_tar_clean_name(name, name, &path, err);
    if (r < 0) {
        return r;
    }
    base = strrchr(path, '/');
    base = base ? base + 1 : path;
    if (bx_startswith(base, WHITEOUT)) {
        return apply_whiteout(rd, path, base, err);
    }
    link = archive_entry_hardlink(entry);
    return link ? apply_link(rd, path, link, err)
                : apply_node(rd, entry, path, bx_endswith(name, "/"), err);
}

static int apply_all(struct reader *rd, boxlite_error **err)
{
    struct archive_entry *entry;
    int r = bx_tar_open(&rd->tar, rd->in, err);

    while (r == 0 && (r = bx_tar_next(&rd->tar, &entry, err)) > 0) {
        r = apply_entry(rd, entry, err);
    }
    bx_tar_close(&rd->tar);
    return r < 0 ? r : apply_pending(rd, err);
}

int bx_layer_apply(struct bx_stream *in, struct bx_rootfs *root, uint32_t layer,
                   boxlite_error **err)
{
    struct reader rd = {.in = in, .root = root, .layer = layer};
    int r;

    bx_rootfs_set_layer(root, layer);
    r = apply_all(&rd, err);
    bx_strv_done(&rd.pending);
    return r < 0 ? r : bx_stream_drain(in, err);
}
