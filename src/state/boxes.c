/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxes.c: the rows of boxes. That a name is taken is decided by the table's UNIQUE rule, so of two
 * processes that insert the same name at once exactly one succeeds.
 */
#include <string.h>

#include "state/store_db.h"

#define PREFIX_MIN 2
#define COLUMNS "id, name, image, digest, config, created, auto_remove"

void bx_box_row_done(struct bx_box_row *row)
{
    free(row->id);
    free(row->name);
    free(row->image);
    free(row->digest);
    free(row->config);
    *row = (struct bx_box_row){0};
}
#define _cleanup_box_row_ _cleanup_(bx_box_row_done)

int bx_store_box_insert(struct bx_store *s, const struct bx_box_row *row, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    const char *text[] = {row->id, row->name, row->image, row->digest, row->config};
    int r =
        bx_store_prepare(s, &stmt, "INSERT INTO boxes (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)",
                         text, BX_ARRAY_SIZE(text), err);

    if (r < 0) {
        return r;
    }
    if ((r = sqlite3_bind_int64(stmt, 6, row->created)) != SQLITE_OK ||
        (r = sqlite3_bind_int(stmt, 7, row->auto_remove)) != SQLITE_OK) {
        return bx_store_fail(s, r, err);
    }
    r = sqlite3_step(stmt);
    if ((r & 0xff) == SQLITE_CONSTRAINT) {
        r = bx_fail(err, BOXLITE_E_EXISTS, "a box named %s exists", row->name);
        bx_hint(err, "choose another name or remove it (boxlite rm %s)", row->name);
        return r;
    }
    return r == SQLITE_DONE ? 0 : bx_store_fail(s, r, err);
}

static int read_columns(struct bx_store *s, sqlite3_stmt *stmt, struct bx_box_row *row,
                        boxlite_error **err)
{
    char **text[] = {&row->id, &row->name, &row->image, &row->digest, &row->config};
    int r = 0;

    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(text); i++) {
        r = bx_store_text(s, stmt, (int)i, text[i], err);
    }
    row->created = sqlite3_column_int64(stmt, 5);
    row->auto_remove = sqlite3_column_int(stmt, 6) != 0;
    return r;
}

/* 1: found, 0: not there. */
static int read_box(struct bx_store *s, const char *id, struct bx_box_row *ret, boxlite_error **err)
{
    _cleanup_box_row_ struct bx_box_row row = {0};
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    int r = bx_store_prepare(s, &stmt, "SELECT " COLUMNS " FROM boxes WHERE id = ?", &id, 1, err);

    if (r == 0) {
        r = bx_store_step(s, stmt, err);
    }
    if (r <= 0) {
        return r;
    }
    r = read_columns(s, stmt, &row, err);
    if (r < 0) {
        return r;
    }
    *ret = row;
    row = (struct bx_box_row){0};
    return 1;
}

int bx_store_box_find(struct bx_store *s, const char *ref, struct bx_box_row *ret,
                      boxlite_error **err)
{
    /* A name may look like another box's id: the exact id comes first, a prefix last. */
    static const char *const by_rule[] = {
        "SELECT id FROM boxes WHERE id = ?",
        "SELECT id FROM boxes WHERE name = ?",
        "SELECT id FROM boxes WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2",
    };
    size_t rules = strlen(ref) >= PREFIX_MIN ? 3 : 2;
    _cleanup_strv_ struct bx_strv ids = {0};
    int r = 0;

    for (size_t i = 0; i < rules && ids.n == 0; i++) {
        _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
        r = bx_store_prepare(s, &stmt, by_rule[i], &ref, 1, err);
        if (r == 0) {
            r = bx_store_keys(s, stmt, &ids, err);
        }
        if (r < 0) {
            return r;
        }
    }
    if (ids.n > 1) {
        r = bx_fail(err, BOXLITE_E_INVALID, "several boxes have an id that starts with %s", ref);
        bx_hint(err, "give more digits of the id");
        return r;
    }
    r = ids.n == 0 ? 0 : read_box(s, ids.v[0], ret, err);
    if (r == 0) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "no box %s", ref);
    }
    return r < 0 ? r : 0;
}

int bx_store_box_each(struct bx_store *s, int (*fn)(void *data, const struct bx_box_row *row),
                      void *data, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    _cleanup_strv_ struct bx_strv ids = {0};
    int r =
        bx_store_prepare(s, &stmt, "SELECT id FROM boxes ORDER BY created, rowid", NULL, 0, err);

    if (r == 0) {
        r = bx_store_keys(s, stmt, &ids, err);
    }
    /* No statement is open while fn runs, so it may change the store. */
    for (size_t i = 0; r >= 0 && i < ids.n; i++) {
        _cleanup_box_row_ struct bx_box_row row = {0};
        r = read_box(s, ids.v[i], &row, err);
        if (r > 0) {
            r = fn(data, &row);
        }
    }
    return r < 0 ? r : 0;
}

int bx_store_box_delete(struct bx_store *s, const char *id, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    int r = bx_store_prepare(s, &stmt, "DELETE FROM boxes WHERE id = ?", &id, 1, err);

    if (r == 0) {
        r = bx_store_step(s, stmt, err);
    }
    if (r == 0 && sqlite3_changes(s->db) == 0) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "no box %s", id);
    }
    return r;
}

int bx_store_box_count_image(struct bx_store *s, const char *digest, uint64_t *ret,
                             boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    int r =
        bx_store_prepare(s, &stmt, "SELECT count(*) FROM boxes WHERE digest = ?", &digest, 1, err);

    if (r == 0) {
        r = bx_store_step(s, stmt, err);
    }
    return r < 0 ? r : bx_store_u64(s, stmt, 0, ret, err);
}
