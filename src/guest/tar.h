/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.h: the archive format of copies in and out of a box: pax (POSIX.1-2001) written, and read together
 * with plain ustar and GNU long names.
 *
 * A built-in runs as a command of the container, in its root and with its rights: no name in an archive
 * leads outside it. Its result is an exit code; complaints go to standard error.
 */
#ifndef BX_GUEST_TAR_H
#define BX_GUEST_TAR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define TAR_BLOCK 512u

enum tar_type {
    TAR_FILE = '0',
    TAR_HARDLINK = '1',
    TAR_SYMLINK = '2',
    TAR_CHAR = '3',
    TAR_BLOCKDEV = '4',
    TAR_DIR = '5',
    TAR_FIFO = '6',
};

struct tar_entry {
    char type;  /* enum tar_type */
    char *name; /* owned by the reader or, when writing, by the caller */
    char *link;
    uint32_t mode; /* permission bits */
    uint32_t uid;
    uint32_t gid;
    uint64_t size; /* of the data that follows; 0 for all but files */
    int64_t mtime;
    uint32_t mtime_nsec;
    uint32_t major;
    uint32_t minor;
    const struct bx_buf *extra; /* when writing: more pax records, or NULL */
};

/* The built-ins; argv holds their arguments only.
 * tar-out PATH: writes PATH and all below it to standard output, names starting with its last part. */
int tar_out(char *const *argv, size_t argc);
/* tar-in DIR: extracts standard input below DIR, which is made if it is missing. */
int tar_in(char *const *argv, size_t argc);
/* tar-in DIR OWNER: the same; all of it belongs to that user ("name", "1000:1000", as for a command). */

/* changes-out UPPER MERGED|"" [PATH…]: writes what an overlay's upper folder changes, as a layer; see
 * changes_out.c. */
int changes_out(char *const *argv, size_t argc);
extern int changes_container_root; /* set by who calls it outside the container */
/* changes-drop UPPER [PATH…]: takes changes out of it; see changes_drop.c. */
int changes_drop(char *const *argv, size_t argc);

/* Appends a record of a pax header; the value may be any bytes. */
int tar_put_record(struct bx_buf *pax, const char *key, const void *value, size_t size);
/* Appends the header blocks of an entry: one, or with a pax header in front what does not fit. */
int tar_write_header(struct bx_buf *b, const struct tar_entry *e);

/* Reading: read() gives exactly len bytes or fails (-errno; -ENODATA: the input ended before any). */
struct tar_reader {
    int (*read)(void *data, void *p, size_t len);
    void *data;
    struct tar_entry entry;
    const char *problem; /* what was wrong, after -EBADMSG */
};
/* 1: r->entry is filled and its size bytes (padded to blocks) come next, to be read by the caller;
 * 0: the end; -EBADMSG, or read's error. */
int tar_read_header(struct tar_reader *r);
void tar_reader_done(struct tar_reader *r);

#endif
