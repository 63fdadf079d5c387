/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h: boxlite.db. The one place that knows SQLite: WAL, STRICT tables, migrations in numbered steps inside
 * one transaction, busy time-out, foreign keys. A database that is damaged, or newer than this library, is
 * reported with what to do and never overwritten. Rows come out as plain structs; text from a database is outside
 * input and is checked. Several processes use one database at once.
 */
#ifndef BX_STATE_STORE_H
#define BX_STATE_STORE_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "state/home.h"

struct bx_store;

int bx_store_open(const struct bx_home *home, struct bx_store **ret, boxlite_error **err);
void bx_store_free(struct bx_store *store);
BX_DEFINE_CLEANUP(struct bx_store *, bx_store_free, bx_cleanup_store);
#define _cleanup_store_ _cleanup_(bx_cleanup_store)

/* ---- images (images.c) */

struct bx_image_row {
    char *digest;   /* of the manifest */
    char *config;   /* image config JSON as in the OCI image specification */
    char *manifest; /* manifest JSON */
    char *platform; /* "linux/amd64" */
    uint64_t blob_size;
    uint64_t rootfs_size; /* of rootfs/HEX.sqfs; 0: not built */
    int64_t created;      /* when it came here */
    struct bx_strv names; /* "docker.io/library/x:tag" style full names or local names as given */
};
void bx_image_row_done(struct bx_image_row *row);
/* Inserts or replaces the image; names are kept. */
int bx_store_image_put(struct bx_store *s, const struct bx_image_row *row, boxlite_error **err);
/* Gives the name to the image, taking it from another that has it. */
int bx_store_image_name(struct bx_store *s, const char *name, const char *digest,
                        boxlite_error **err);
int bx_store_image_unname(struct bx_store *s, const char *name,
                          boxlite_error **err); /* NOT_FOUND */
/* By exact name, else digest, else unique hex prefix of it (>= 12): NOT_FOUND; INVALID if several. */
int bx_store_image_find(struct bx_store *s, const char *ref, struct bx_image_row *ret,
                        boxlite_error **err);
/* Calls fn for each, newest first; a negative return ends it and is returned. */
int bx_store_image_each(struct bx_store *s, int (*fn)(void *data, const struct bx_image_row *row),
                        void *data, boxlite_error **err);
int bx_store_image_delete(struct bx_store *s, const char *digest, boxlite_error **err);

/* ---- boxes (boxes.c) */

struct bx_box_row {
    char *id; /* 16 hex digits */
    char *name;
    char *image;  /* as the user named it */
    char *digest; /* of its manifest */
    char *config; /* JSON of box/config.h */
    int64_t created;
    bool auto_remove;
};
void bx_box_row_done(struct bx_box_row *row);
int bx_store_box_insert(struct bx_store *s, const struct bx_box_row *row,
                        boxlite_error **err); /* EXISTS: name */
/* By exact id or name, else unique id prefix (>= 2): NOT_FOUND; INVALID if several. */
int bx_store_box_find(struct bx_store *s, const char *ref, struct bx_box_row *ret,
                      boxlite_error **err);
int bx_store_box_each(struct bx_store *s, int (*fn)(void *data, const struct bx_box_row *row),
                      void *data, boxlite_error **err); /* oldest first */
int bx_store_box_delete(struct bx_store *s, const char *id, boxlite_error **err);
int bx_store_box_count_image(struct bx_store *s, const char *digest, uint64_t *ret,
                             boxlite_error **err);

#endif
