/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_db.h: what the files of the store share: statements that end with their scope, binding, and columns
 * that are checked as they are read.
 */
#ifndef BX_STATE_STORE_DB_H
#define BX_STATE_STORE_DB_H

#include <sqlite3.h>

#include "base/error.h"
#include "state/store.h"

struct bx_store {
    sqlite3 *db;
    char *path;
};

static inline void bx_stmt_done(sqlite3_stmt **stmt)
{
    (void)sqlite3_finalize(*stmt);
}
#define _cleanup_stmt_ _cleanup_(bx_stmt_done)

/* The error for a result code of SQLite, with what the user can do. */
int bx_store_fail(struct bx_store *s, int rc, boxlite_error **err);
/* Prepares a statement and binds its text parameters, one for each '?', from the front. */
int bx_store_prepare(struct bx_store *s, sqlite3_stmt **ret, const char *sql,
                     const char *const *text, size_t ntext, boxlite_error **err);
/* 1: a row is there, 0: done, else an error. */
int bx_store_step(struct bx_store *s, sqlite3_stmt *stmt, boxlite_error **err);
/* Runs statements that return nothing. */
int bx_store_exec(struct bx_store *s, const char *sql, boxlite_error **err);
/* One write transaction. End with commit (which rolls back if it fails) or rollback. */
int bx_store_begin(struct bx_store *s, boxlite_error **err);
int bx_store_commit(struct bx_store *s, boxlite_error **err);
void bx_store_rollback(struct bx_store *s);

/* Columns, checked: text is UTF-8 without NUL, numbers are in range. INTEGRITY if not. */
int bx_store_text(struct bx_store *s, sqlite3_stmt *stmt, int col, char **ret, boxlite_error **err);
int bx_store_u64(struct bx_store *s, sqlite3_stmt *stmt, int col, uint64_t *ret,
                 boxlite_error **err);
/* Adds column 0 of every row to keys. */
int bx_store_keys(struct bx_store *s, sqlite3_stmt *stmt, struct bx_strv *keys,
                  boxlite_error **err);

#endif
