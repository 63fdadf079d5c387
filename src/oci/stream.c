/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c: the stages. Each holds a buffer of fixed size at most, whatever a blob says about itself.
 *
 * Compression is undone by libarchive's "raw" reader, one archive object for that and another for the tar in it
 * (layer.c), so that the digest of the unpacked bytes, which the image's config promises, is taken between.
 */
#include "oci/stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/str.h"
#include "oci/sink.h"

#define CHUNK (256u << 10)
#define PROGRESS_STEP (4u << 20)

/* ---- source */

static ssize_t source_next(struct bx_stream *stream, const void **ret, boxlite_error **err)
{
    struct bx_source *s = (struct bx_source *)stream;
    uint64_t before = s->bytes;
    ssize_t n;
    int r = s->check ? s->check(s->check_data, err) : 0;

    if (r < 0) {
        return r;
    }
    n = bx_read_full(s->fd, s->buf, CHUNK);
    if (n < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, (int)n, "reading");
    }
    if (s->sink) {
        r = bx_sink_put(s->sink, s->buf, (size_t)n, err);
        if (r < 0) {
            return r;
        }
    }
    s->bytes += (uint64_t)n;
    if (s->progress && (n == 0 || before / PROGRESS_STEP != s->bytes / PROGRESS_STEP)) {
        s->progress(s->progress_data, s->progress_what, s->bytes, n == 0 ? s->bytes : s->total);
    }
    *ret = s->buf;
    return n;
}

int bx_source_init(struct bx_source *s, int fd, bool hash, int copy, boxlite_error **err)
{
    int r = 0;

    *s = (struct bx_source){.stream = {.next = source_next}, .fd = fd};
    s->buf = malloc(CHUNK);
    if (!s->buf) {
        return bx_fail_oom(err);
    }
    if (hash) {
        r = bx_sink_new(copy, &s->sink, err);
    }
    if (r < 0) {
        bx_source_done(s);
    }
    return r;
}

void bx_source_done(struct bx_source *s)
{
    bx_sink_free(s->sink);
    free(s->buf);
    *s = (struct bx_source){.fd = -1};
}

int bx_source_digest(struct bx_source *s, char *ret, boxlite_error **err)
{
    return bx_sink_finish(s->sink, ret, err);
}

/* ---- unpack */

static const struct {
    const char *magic;
    size_t len;
    enum bx_packing packing;
    const char *name; /* of one that is not supported */
} packings[] = {
    {"\x1f\x8b", 2, BX_PACK_GZIP, NULL},          {"\x28\xb5\x2f\xfd", 4, BX_PACK_ZSTD, NULL},
    {"\xfd\x37zXZ", 6, BX_PACK_NONE, "xz"},       {"BZh", 3, BX_PACK_NONE, "bzip2"},
    {"\x04\x22\x4d\x18", 4, BX_PACK_NONE, "lz4"}, {"PK\x03\x04", 4, BX_PACK_NONE, "zip"},
};

int bx_packing_find(const void *data, size_t len, enum bx_packing *ret, boxlite_error **err)
{
    int r;

    *ret = BX_PACK_NONE;
    for (size_t i = 0; i < BX_ARRAY_SIZE(packings); i++) {
        if (len < packings[i].len || memcmp(data, packings[i].magic, packings[i].len) != 0) {
            continue;
        }
        if (packings[i].name) {
            r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "the archive is packed with %s",
                        packings[i].name);
            bx_hint(err, "unpack it, or pack it with gzip or zstd");
            return r;
        }
        *ret = packings[i].packing;
    }
    return 0;
}

const char *bx_packing_media_type(enum bx_packing packing)
{
    static const char *const types[] = {
        [BX_PACK_NONE] = "application/vnd.oci.image.layer.v1.tar",
        [BX_PACK_GZIP] = "application/vnd.oci.image.layer.v1.tar+gzip",
        [BX_PACK_ZSTD] = "application/vnd.oci.image.layer.v1.tar+zstd",
    };

    return types[packing];
}

static ssize_t packed_next(struct bx_unpack *u, const void **ret, boxlite_error **err)
{
    ssize_t n;

    if (u->first_len >= 0) {
        n = u->first_len;
        *ret = u->first;
        u->first_len = -1;
        return n;
    }
    return u->from->next(u->from, ret, err);
}

static la_ssize_t archive_reads(struct archive *a, void *data, const void **ret)
{
    struct bx_unpack *u = data;
    ssize_t n = packed_next(u, ret, &u->error);

    if (n < 0) {
        archive_set_error(a, EIO, "reading");
        return ARCHIVE_FATAL;
    }
    return n;
}

int bx_archive_fail(struct archive *a, boxlite_error **inner, const char *what, boxlite_error **err)
{
    const char *why = archive_error_string(a);
    _cleanup_free_ char *shown = bx_escape(why ? why : "?", strlen(why ? why : "?"), 200);

    if (*inner) {
        int code = boxlite_error_code(*inner);
        if (err) {
            *err = steal_ptr(inner);
        }
        return code;
    }
    if (archive_errno(a) == ENOMEM) {
        return bx_fail_oom(err);
    }
    return bx_fail(err, BOXLITE_E_INTEGRITY, "%s is damaged: %s", what, shown ? shown : "?");
}

static int open_raw(struct bx_unpack *u, boxlite_error **err)
{
    struct archive_entry *entry;
    int r;

    u->archive = archive_read_new();
    if (!u->archive) {
        return bx_fail_oom(err);
    }
    r = u->packing == BX_PACK_GZIP ? archive_read_support_filter_gzip(u->archive)
                                   : archive_read_support_filter_zstd(u->archive);
    if (r != ARCHIVE_OK) { /* it would start a program */
        return bx_fail(err, BOXLITE_E_UNSUPPORTED, "libarchive was built without zlib or zstd");
    }
    if (archive_read_support_format_raw(u->archive) != ARCHIVE_OK ||
        archive_read_support_format_empty(u->archive) != ARCHIVE_OK ||
        archive_read_open(u->archive, u, NULL, archive_reads, NULL) != ARCHIVE_OK) {
        return bx_archive_fail(u->archive, &u->error, "the packed archive", err);
    }
    r = archive_read_next_header(u->archive, &entry);
    if (r != ARCHIVE_OK && r != ARCHIVE_EOF) {
        return bx_archive_fail(u->archive, &u->error, "the packed archive", err);
    }
    return 0;
}

static ssize_t unpacked_next(struct bx_unpack *u, const void **ret, boxlite_error **err)
{
    size_t n = 0;
    int64_t off;
    int r;

    if (!u->archive) {
        return packed_next(u, ret, err);
    }
    r = archive_read_data_block(u->archive, ret, &n, &off);
    if (r == ARCHIVE_EOF) {
        return 0;
    }
    if (r != ARCHIVE_OK && r != ARCHIVE_WARN) {
        return bx_archive_fail(u->archive, &u->error, "the packed archive", err);
    }
    return (ssize_t)n;
}

static ssize_t unpack_next(struct bx_stream *stream, const void **ret, boxlite_error **err)
{
    struct bx_unpack *u = (struct bx_unpack *)stream;
    ssize_t n = unpacked_next(u, ret, err);
    int r;

    if (n <= 0) {
        return n;
    }
    if ((uint64_t)n > u->max - u->bytes) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the archive unpacks to more than %llu bytes",
                       (unsigned long long)u->max);
    }
    u->bytes += (uint64_t)n;
    if (u->sink) {
        r = bx_sink_put(u->sink, *ret, (size_t)n, err);
        if (r < 0) {
            return r;
        }
    }
    return n;
}

static int start_unpack(struct bx_unpack *u, enum bx_hash_when hash, boxlite_error **err)
{
    int r;

    u->first_len = u->from->next(u->from, &u->first, err);
    r = u->first_len < 0 ? (int)u->first_len
                         : bx_packing_find(u->first, (size_t)u->first_len, &u->packing, err);
    if (r < 0) {
        return r;
    }
    if (hash == BX_HASH_ALWAYS || (hash == BX_HASH_PACKED && u->packing != BX_PACK_NONE)) {
        r = bx_sink_new(-1, &u->sink, err);
        if (r < 0) {
            return r;
        }
    }
    return u->packing == BX_PACK_NONE ? 0 : open_raw(u, err);
}

int bx_unpack_init(struct bx_unpack *u, struct bx_stream *from, uint64_t max,
                   enum bx_hash_when hash, boxlite_error **err)
{
    int r;

    *u = (struct bx_unpack){
        .stream = {.next = unpack_next}, .from = from, .max = max, .first_len = -1};
    r = start_unpack(u, hash, err);
    if (r < 0) {
        bx_unpack_done(u);
    }
    return r;
}

void bx_unpack_done(struct bx_unpack *u)
{
    (void)archive_read_free(u->archive);
    boxlite_error_free(u->error);
    bx_sink_free(u->sink);
    *u = (struct bx_unpack){.first_len = -1};
}

int bx_unpack_digest(struct bx_unpack *u, char *ret, boxlite_error **err)
{
    return bx_sink_finish(u->sink, ret, err);
}

int bx_stream_drain(struct bx_stream *s, boxlite_error **err)
{
    const void *data;
    ssize_t n;

    while ((n = s->next(s, &data, err)) > 0) {
    }
    return (int)n;
}
