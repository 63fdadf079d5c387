/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.c: reading kernels through libarchive.
 *
 * A .deb is an ar archive with a data.tar.* in it: the outer reader's entry feeds the inner reader, so
 * the package streams through memory once per pass. Only wanted entries are read; each has a maximum
 * size that holds for its unpacked bytes, whatever its header says.
 */
#include "boot/source.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"

#define CHUNK 65536
#define DEPTH_MAX 16

BX_DEFINE_CLEANUP(struct archive *, archive_read_free, cleanup_archive);
#define _cleanup_archive_ _cleanup_(cleanup_archive)

static const char *message(struct archive *a)
{
    const char *s = archive_error_string(a);
    return s ? s : "damaged";
}

static int read_entry(struct archive *a, const char *what, struct bx_buf *out, boxlite_error **err)
{
    for (;;) {
        void *room = bx_buf_reserve(out, CHUNK);
        if (!room) {
            return errno == ENOMEM ? bx_fail_oom(err)
                                   : bx_fail(err, BOXLITE_E_INTEGRITY, "%s is over %zu MiB", what,
                                             out->max >> 20);
        }
        la_ssize_t n = archive_read_data(a, room, CHUNK);
        if (n < 0) {
            return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: %s", what, message(a));
        }
        if (n == 0) {
            return 0;
        }
        bx_buf_commit(out, (size_t)n);
    }
}

static void support_filters(struct archive *a)
{
    /* A filter that needs an outside program gives ARCHIVE_WARN, and fails later by itself. */
    (void)archive_read_support_filter_gzip(a);
    (void)archive_read_support_filter_xz(a);
    (void)archive_read_support_filter_lzma(a);
    (void)archive_read_support_filter_zstd(a);
    (void)archive_read_support_filter_lz4(a);
    (void)archive_read_support_filter_bzip2(a);
}

int bx_source_unpack(const void *data, size_t len, const char *what, struct bx_buf *out,
                     boxlite_error **err)
{
    _cleanup_archive_ struct archive *a = archive_read_new();
    struct archive_entry *entry;
    if (!a) {
        return bx_fail_oom(err);
    }
    support_filters(a);
    if (archive_read_support_format_raw(a) != ARCHIVE_OK ||
        archive_read_open_memory(a, data, len) != ARCHIVE_OK ||
        archive_read_next_header(a, &entry) != ARCHIVE_OK) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s: %s", what, message(a));
    }
    return read_entry(a, what, out, err);
}

/* A module's bytes, unpacked if its file is compressed. */
static int give(struct bx_module *mod, const char *path, const struct bx_buf *raw,
                boxlite_error **err)
{
    if (bx_endswith(path, ".ko")) {
        return bx_modules_give(mod, bx_buf_data(raw), raw->len, err);
    }
    _cleanup_buf_ struct bx_buf plain = BX_BUF_INIT(BX_MODULE_SIZE_MAX);
    int r = bx_source_unpack(bx_buf_data(raw), raw->len, mod->name, &plain, err);
    return r < 0 ? r : bx_modules_give(mod, bx_buf_data(&plain), plain.len, err);
}

/* ---- Debian packages ---------------------------------------------------------------------- */

struct outer {
    struct archive *ar;
    uint8_t chunk[CHUNK];
};

static la_ssize_t outer_read(struct archive *inner, void *data, const void **ret)
{
    struct outer *o = data;
    la_ssize_t n = archive_read_data(o->ar, o->chunk, sizeof(o->chunk));
    if (n < 0) {
        archive_set_error(inner, EIO, "%s", message(o->ar));
    }
    *ret = o->chunk;
    return n;
}

static int take_entry(struct archive *a, const char *name, struct bx_modules *m,
                      struct bx_buf *vmlinuz, boxlite_error **err)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    if (vmlinuz->len == 0 && strstr(name, "boot/vmlinuz-")) {
        return read_entry(a, name, vmlinuz, err);
    }
    struct bx_module *mod = bx_modules_wants(m, name);
    bool builtin = bx_streq(base, "modules.builtin");
    if (!mod && !builtin) {
        return 0;
    }
    _cleanup_buf_ struct bx_buf raw =
        BX_BUF_INIT(builtin ? BX_MODULES_BUILTIN_MAX : BX_MODULE_SIZE_MAX);
    int r = read_entry(a, name, &raw, err);
    if (r < 0) {
        return r;
    }
    if (builtin) {
        bx_modules_builtin(m, bx_buf_str(&raw), raw.len);
        return 0;
    }
    return give(mod, name, &raw, err);
}

static int read_data_tar(struct archive *ar, struct bx_modules *m, struct bx_buf *vmlinuz,
                         boxlite_error **err)
{
    _cleanup_archive_ struct archive *tar = archive_read_new();
    _cleanup_free_ struct outer *o = malloc(sizeof(*o));
    if (!tar || !o) {
        return bx_fail_oom(err);
    }
    o->ar = ar;
    support_filters(tar);
    if (archive_read_support_format_tar(tar) != ARCHIVE_OK ||
        archive_read_open(tar, o, NULL, outer_read, NULL) != ARCHIVE_OK) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "data.tar: %s", message(tar));
    }
    for (;;) {
        struct archive_entry *entry;
        int r = archive_read_next_header(tar, &entry);
        if (r == ARCHIVE_EOF) {
            return 0;
        }
        if (r < ARCHIVE_WARN) {
            return bx_fail(err, BOXLITE_E_INTEGRITY, "data.tar: %s", message(tar));
        }
        const char *name = archive_entry_pathname(entry);
        if (name && archive_entry_filetype(entry) == AE_IFREG) {
            r = take_entry(tar, name, m, vmlinuz, err);
            if (r < 0) {
                return r;
            }
        }
    }
}

int bx_source_deb(const char *path, struct bx_modules *m, struct bx_buf *vmlinuz,
                  boxlite_error **err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening it");
    }
    _cleanup_archive_ struct archive *ar = archive_read_new();
    if (!ar) {
        return bx_fail_oom(err);
    }
    if (archive_read_support_format_ar(ar) != ARCHIVE_OK ||
        archive_read_open_fd(ar, fd, CHUNK) != ARCHIVE_OK) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "not a Debian package: %s", message(ar));
    }
    struct archive_entry *entry;
    int r;
    while ((r = archive_read_next_header(ar, &entry)) == ARCHIVE_OK) {
        const char *name = archive_entry_pathname(entry);
        if (name && bx_startswith(name, "data.tar")) {
            return read_data_tar(ar, m, vmlinuz, err);
        }
    }
    return r == ARCHIVE_EOF
               ? bx_fail(err, BOXLITE_E_INTEGRITY, "the package has no data.tar")
               : bx_fail(err, BOXLITE_E_INTEGRITY, "not a Debian package: %s", message(ar));
}

/* ---- Module folders ----------------------------------------------------------------------- */

static int take_file(int dirfd, const char *name, struct bx_modules *m, boxlite_error **err)
{
    struct bx_module *mod = bx_modules_wants(m, name);
    bool builtin = bx_streq(name, "modules.builtin");
    if (!mod && !builtin) {
        return 0;
    }
    _cleanup_buf_ struct bx_buf raw =
        BX_BUF_INIT(builtin ? BX_MODULES_BUILTIN_MAX : BX_MODULE_SIZE_MAX);
    int r = bx_read_file(dirfd, name, &raw);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "reading %s", name);
    }
    if (builtin) {
        bx_modules_builtin(m, bx_buf_str(&raw), raw.len);
        return 0;
    }
    return give(mod, name, &raw, err);
}

static int walk(int parent, const char *name, unsigned depth, struct bx_modules *m,
                boxlite_error **err)
{
    _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    _cleanup_closedir_ DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        int saved = errno;
        if (copy >= 0) {
            close(copy);
        }
        return bx_fail_errno(err, BOXLITE_E_IO, saved, "opening %s", name);
    }
    const struct dirent *e;
    while ((e = readdir(dir))) {
        struct stat st;
        int r = 0;
        if (e->d_name[0] == '.' || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
            r = walk(fd, e->d_name, depth + 1, m, err);
        } else if (S_ISREG(st.st_mode)) {
            r = take_file(fd, e->d_name, m, err);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int bx_source_dir(const char *path, struct bx_modules *m, boxlite_error **err)
{
    return walk(AT_FDCWD, path, 0, m, err);
}
