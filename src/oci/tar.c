/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.c: libarchive's tar reader (ustar, GNU, pax, sparse files), held so that nothing depends on the process.
 *
 * Names are bytes. libarchive wants to convert them by the locale and gives the original bytes only where that
 * fails, so the calling thread is put into the plain C locale while it reads: ASCII is left alone, all else fails
 * to convert and is kept as it is.
 */
#include "oci/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

#define NAME_BYTES_MAX 4095u

int bx_tar_refuse(boxlite_error **err, const char *entry, const char *why)
{
    _cleanup_free_ char *shown = bx_escape(entry, strlen(entry), 200);

    return bx_fail(err, BOXLITE_E_INTEGRITY, "entry %s: %s", shown ? shown : "?", why);
}

int bx_tar_clean_name(const char *name, const char *entry, char **ret, boxlite_error **err)
{
    _cleanup_free_ char *clean = NULL;
    size_t n = 0;

    if (name[0] == '/') {
        return bx_tar_refuse(err, entry, "an absolute name");
    }
    if (strlen(name) > NAME_BYTES_MAX) {
        return bx_tar_refuse(err, entry, "a name that is too long");
    }
    clean = malloc(strlen(name) + 1);
    if (!clean) {
        return bx_fail_oom(err);
    }
    while (*name) {
        size_t len = strcspn(name, "/");
        if (len == 2 && name[0] == '.' && name[1] == '.') {
            return bx_tar_refuse(err, entry, "a name with \"..\"");
        }
        if (len > 0 && !(len == 1 && name[0] == '.')) {
            if (n > 0) {
                clean[n++] = '/';
            }
            memcpy(clean + n, name, len);
            n += len;
        }
        name += len;
        name += *name == '/';
    }
    clean[n] = '\0';
    *ret = steal_ptr(&clean);
    return 0;
}

static la_ssize_t archive_reads(struct archive *a, void *data, const void **ret)
{
    struct bx_tar *t = data;
    ssize_t n;

    /* The stream calls the user's progress function, which shall see the thread as it was. */
    (void)uselocale(t->before);
    n = t->in->next(t->in, ret, &t->error);
    (void)uselocale(t->plain);

    if (n < 0) {
        archive_set_error(a, EIO, "reading");
        return ARCHIVE_FATAL;
    }
    return n;
}

int bx_tar_open(struct bx_tar *t, struct bx_stream *in, boxlite_error **err)
{
    int r;

    *t = (struct bx_tar){.in = in, .plain = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (t->plain == (locale_t)0) {
        return bx_fail_oom(err);
    }
    t->before = uselocale(t->plain);
    t->archive = archive_read_new();
    if (!t->archive || archive_read_support_format_tar(t->archive) != ARCHIVE_OK) {
        return bx_fail_oom(err);
    }
    if (archive_read_open(t->archive, t, NULL, archive_reads, NULL) == ARCHIVE_OK) {
        return 0;
    }
    if (t->error) {
        return bx_archive_fail(t->archive, &t->error, "the archive", err);
    }
    r = bx_fail(err, BOXLITE_E_INTEGRITY, "this is no tar archive");
    bx_hint(err, "give a tar archive, plain or packed with gzip or zstd");
    return r;
}

void bx_tar_close(struct bx_tar *t)
{
    (void)archive_read_free(t->archive);
    boxlite_error_free(t->error);
    if (t->plain != (locale_t)0) {
        (void)uselocale(t->before);
        freelocale(t->plain);
    }
    *t = (struct bx_tar){0};
}

/* A warning of libarchive is fine if it is about names (kept as bytes) or access lists (not kept). */
static bool harmless(struct archive *a)
{
    const char *why = archive_error_string(a);

    return !why || strstr(why, "converted") || strstr(why, "ACL");
}

int bx_tar_next(struct bx_tar *t, struct archive_entry **ret, boxlite_error **err)
{
    int r;

    archive_clear_error(t->archive);
    r = archive_read_next_header(t->archive, ret);
    if (r == ARCHIVE_EOF) {
        return 0;
    }
    if (r != ARCHIVE_OK && !(r == ARCHIVE_WARN && harmless(t->archive))) {
        return bx_archive_fail(t->archive, &t->error, "the archive", err);
    }
    return 1;
}

int bx_tar_data(struct bx_tar *t, const void **ret, size_t *ret_size, uint64_t *ret_offset,
                boxlite_error **err)
{
    int64_t off = 0;
    int r = archive_read_data_block(t->archive, ret, ret_size, &off);

    if (r == ARCHIVE_EOF) {
        return 0;
    }
    if (r != ARCHIVE_OK) {
        return bx_archive_fail(t->archive, &t->error, "the archive", err);
    }
    if (off < 0) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the archive is damaged: negative offset");
    }
    *ret_offset = (uint64_t)off;
    return 1;
}
