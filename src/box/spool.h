/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h: the kept output of one stream: a file in which a byte's place is its offset in the
 * stream.
 *
 * The file holds [head, tail). What is no longer kept is a hole at its beginning, so that disk use
 * is bounded however long the stream gets, offsets never change, and a reader who comes after the
 * writer was killed still finds head (the first data in the file) and tail (its size). head moves
 * in whole chunks only, which makes it the place where the hole ends. Invariant of a writer that
 * heeds bx_spool_full(): tail - head <= max + chunk + what was under way. On a file system without
 * holes the spool fills up at 16 * max: -ENOSPC.
 */
#ifndef BX_BOX_SPOOL_H
#define BX_BOX_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bx_spool {
    int fd; /* -1: nothing was written yet */
    uint64_t head, tail;
    uint64_t max, chunk;
    bool no_holes; /* the file system cannot free a part of a file */
};
#define BX_SPOOL_INIT                                                                              \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* max > 0, kept bytes when no one needs older ones. */
void bx_spool_init(struct bx_spool *sp, uint64_t max);
void bx_spool_done(struct bx_spool *sp);
/* Creates dirfd/name. 0 or -errno, as all here. */
int bx_spool_create(struct bx_spool *sp, int dirfd, const char *name);
/* Opens a spool that someone else writes or wrote, for reading. -ENOENT: none. */
int bx_spool_open(struct bx_spool *sp, int dirfd, const char *name);
/* All of it or nothing. */
int bx_spool_append(struct bx_spool *sp, const void *data, size_t len);
/* Bytes from an absolute offset in [head, tail]: their number, 0 at the tail, -ERANGE outside. */
ssize_t bx_spool_read(const struct bx_spool *sp, uint64_t offset, void *data, size_t size);
/* Frees what lies before `needed` and is more than `keep` bytes old. */
int bx_spool_trim(struct bx_spool *sp, uint64_t needed, uint64_t keep);
/* Over the bound: the writer should wait for readers. */
static inline bool bx_spool_full(const struct bx_spool *sp)
{
    return sp->tail - sp->head > sp->max + sp->chunk;
}

#endif
