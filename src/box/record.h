/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: plain structs as JSON objects, by a table of their fields.
 *
 * A table names each member once: key, type, offset, bounds. Reading checks everything a table
 * says, so a file that someone damaged gives an error that names the field, never a half-filled
 * struct. Program text (arguments, environment, folders) is bytes, and JSON is not: a string that
 * is no UTF-8 is written as {"hex": "…"}, so that it comes back as it was.
 */
#ifndef BX_BOX_RECORD_H
#define BX_BOX_RECORD_H

#include <boxlite.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum bx_rec_type {
    BX_REC_STR,  /* char *, owned; NULL when absent */
    BX_REC_STRV, /* struct bx_strv */
    BX_REC_BOOL, /* bool */
    BX_REC_U16,
    BX_REC_U32,
    BX_REC_U64,
    BX_REC_I32, /* also int */
    BX_REC_I64,
    BX_REC_LIST, /* struct bx_rec_list of structs with a table of their own */
};

struct bx_rec_table;

struct bx_rec_field {
    const char *key;
    enum bx_rec_type type;
    size_t offset;
    bool optional;                   /* may be absent; strings: may be NULL */
    int64_t min;                     /* numbers */
    uint64_t max;                    /* numbers; strings: bytes, vectors, lists: entries, 0: 4096 */
    bool (*ok)(const char *str);     /* strings, and each string of a vector; may be NULL */
    const struct bx_rec_table *item; /* lists: what an entry is made of */
};

struct bx_rec_table {
    const struct bx_rec_field *fields;
    size_t n;
    size_t size; /* of the struct; needed of a list's entries */
};

/* n structs in a row, owned. A list that is empty is left out of the JSON. */
struct bx_rec_list {
    void *v;
    size_t n;
};

void bx_rec_done(const struct bx_rec_table *t, void *rec);
/* Empties a list of such structs. */
void bx_rec_list_done(const struct bx_rec_table *t, struct bx_rec_list *list);
/* NULL: out of memory. */
char *bx_rec_text(const struct bx_rec_table *t, const void *rec);
/* Fills a zeroed struct; on failure it is zeroed again. `what` goes before the message. */
int bx_rec_from_json(const struct bx_rec_table *t, const json_t *obj, const char *what, void *rec,
                     boxlite_error **err);
/* The same from and to a file below dirfd, replaced atomically, at most max bytes. durable: on
 * disk when the call returns; without it a loss of power can leave an empty file. */
int bx_rec_read(const struct bx_rec_table *t, int dirfd, const char *name, size_t max, void *rec,
                boxlite_error **err);
int bx_rec_write(const struct bx_rec_table *t, const void *rec, int dirfd, const char *name,
                 size_t max, bool durable, boxlite_error **err);

#endif
