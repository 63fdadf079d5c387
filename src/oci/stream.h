/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h: bytes on their way from a file to the layer reader. A stream hands out chunks; stages are put one
 * behind the other: source (descriptor, digest, copy, progress) → unpack (gzip, zstd; digest of what is inside).
 */
#ifndef BX_OCI_STREAM_H
#define BX_OCI_STREAM_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sha256.h"

struct archive;

struct bx_stream {
    /* The next bytes, valid until the next call: their number, 0 at the end, or an error. */
    ssize_t (*next)(struct bx_stream *s, const void **ret, boxlite_error **err);
};

/* ---- source */

struct bx_sink;

struct bx_source {
    struct bx_stream stream; /* first */
    int fd;                  /* borrowed */
    uint64_t bytes;
    struct bx_sink *sink;         /* NULL: no digest is kept */
    boxlite_progress_fn progress; /* may be NULL */
    void *progress_data;
    const char *progress_what;
    uint64_t total; /* expected, 0: unknown */
    int (*check)(void *data,
                 boxlite_error **err); /* before each chunk: a failure ends it; may be NULL */
    void *check_data;
    void *buf;
};
/* hash: keep the digest of all bytes; copy (or -1, borrowed): a file that gets them too, then with hash. */
int bx_source_init(struct bx_source *s, int fd, bool hash, int copy, boxlite_error **err);
void bx_source_done(struct bx_source *s);
#define _cleanup_source_ _cleanup_(bx_source_done)
/* After the end: the digest. ret: BX_DIGEST_LEN + 1 bytes. */
int bx_source_digest(struct bx_source *s, char *ret, boxlite_error **err);

/* ---- unpack */

enum bx_hash_when {
    BX_HASH_NEVER,
    BX_HASH_PACKED, /* only if it is packed: else the source's digest is the same */
    BX_HASH_ALWAYS,
};

enum bx_packing {
    BX_PACK_NONE,
    BX_PACK_GZIP,
    BX_PACK_ZSTD,
};

struct bx_unpack {
    struct bx_stream stream; /* first */
    struct bx_stream *from;  /* borrowed */
    enum bx_packing packing;
    uint64_t bytes, max;
    struct bx_sink *sink; /* NULL: no digest is kept */
    struct archive *archive;
    boxlite_error *error; /* of `from`, on its way through libarchive */
    const void *first;    /* the chunk that was looked at */
    ssize_t first_len;
};
/* Looks at the first bytes for how they are packed; others than none, gzip and zstd are refused. max: most bytes
 * that may come out. hash: whether to keep the digest of what comes out. */
int bx_unpack_init(struct bx_unpack *u, struct bx_stream *from, uint64_t max,
                   enum bx_hash_when hash, boxlite_error **err);
void bx_unpack_done(struct bx_unpack *u);
#define _cleanup_unpack_ _cleanup_(bx_unpack_done)
int bx_unpack_digest(struct bx_unpack *u, char *ret, boxlite_error **err);

/* How a blob is packed, by its first bytes (at least 6, unless it is shorter). */
int bx_packing_find(const void *data, size_t len, enum bx_packing *ret, boxlite_error **err);
/* The media type of a layer that is packed so. */
const char *bx_packing_media_type(enum bx_packing packing);
/* Reads a stream to its end and forgets the bytes. */
int bx_stream_drain(struct bx_stream *s, boxlite_error **err);
/* Whether an error of libarchive is one that came through it from a stream: that, else a new INTEGRITY one. */
int bx_archive_fail(struct archive *a, boxlite_error **inner, const char *what,
                    boxlite_error **err);

#endif
