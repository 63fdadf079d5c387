/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images.c: the rows of images and of their names. A name belongs to one image; an image may have any
 * number of names, also none.
 */
#include <string.h>

#include "state/store_db.h"

#define PREFIX_MIN 12
#define DIGEST_START "sha256:"

void bx_image_row_done(struct bx_image_row *row)
{
    free(row->digest);
    free(row->config);
    free(row->manifest);
    free(row->platform);
    bx_strv_done(&row->names);
    *row = (struct bx_image_row){0};
}
#define _cleanup_image_row_ _cleanup_(bx_image_row_done)

int bx_store_image_put(struct bx_store *s, const struct bx_image_row *row, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    const char *text[] = {row->digest, row->config, row->manifest, row->platform};
    const int64_t number[] = {(int64_t)row->blob_size, (int64_t)row->rootfs_size, row->created};
    int r = bx_store_prepare(
        s, &stmt,
        "INSERT INTO images (digest, config, manifest, platform, blob_size, rootfs_size,"
        " created) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET"
        " config = excluded.config, manifest = excluded.manifest,"
        " platform = excluded.platform, blob_size = excluded.blob_size,"
        " rootfs_size = excluded.rootfs_size, created = excluded.created",
        text, BX_ARRAY_SIZE(text), err);

    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(number); i++) {
        r = sqlite3_bind_int64(stmt, (int)(BX_ARRAY_SIZE(text) + i) + 1, number[i]);
        if (r != SQLITE_OK) {
            return bx_store_fail(s, r, err);
        }
    }
    return bx_store_step(s, stmt, err);
}

int bx_store_image_name(struct bx_store *s, const char *name, const char *digest,
                        boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    const char *text[] = {name, digest};
    int r = bx_store_prepare(
        s, &stmt,
        "INSERT INTO names (name, digest) SELECT ?1, digest FROM images WHERE digest = ?2"
        " ON CONFLICT (name) DO UPDATE SET digest = excluded.digest",
        text, 2, err);

    if (r == 0) {
        r = bx_store_step(s, stmt, err);
    }
    if (r == 0 && sqlite3_changes(s->db) == 0) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "no image %s", digest);
    }
    return r;
}

/* Runs a statement with one text that must change a row. */
static int change_one(struct bx_store *s, const char *sql, const char *key, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    int r = bx_store_prepare(s, &stmt, sql, &key, 1, err);

    if (r == 0) {
        r = bx_store_step(s, stmt, err);
    }
    if (r == 0 && sqlite3_changes(s->db) == 0) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "no image %s", key);
    }
    return r;
}

int bx_store_image_unname(struct bx_store *s, const char *name, boxlite_error **err)
{
    return change_one(s, "DELETE FROM names WHERE name = ?", name, err);
}

int bx_store_image_delete(struct bx_store *s, const char *digest, boxlite_error **err)
{
    return change_one(s, "DELETE FROM images WHERE digest = ?", digest, err);
}

static int read_names(struct bx_store *s, struct bx_image_row *row, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    const char *digest = row->digest;
    int r = bx_store_prepare(s, &stmt, "SELECT name FROM names WHERE digest = ? ORDER BY name",
                             &digest, 1, err);

    return r < 0 ? r : bx_store_keys(s, stmt, &row->names, err);
}

static int read_columns(struct bx_store *s, sqlite3_stmt *stmt, struct bx_image_row *row,
                        boxlite_error **err)
{
    char **text[] = {&row->digest, &row->config, &row->manifest, &row->platform};
    uint64_t *number[] = {&row->blob_size, &row->rootfs_size};
    int r = 0;

    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(text); i++) {
        r = bx_store_text(s, stmt, (int)i, text[i], err);
    }
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(number); i++) {
        r = bx_store_u64(s, stmt, (int)(BX_ARRAY_SIZE(text) + i), number[i], err);
    }
    row->created = sqlite3_column_int64(stmt, 6);
    return r;
}

/* 1: found, 0: not there. */
static int read_image(struct bx_store *s, const char *digest, struct bx_image_row *ret,
                      boxlite_error **err)
{
    _cleanup_image_row_ struct bx_image_row row = {0};
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    int r = bx_store_prepare(
        s, &stmt,
        "SELECT digest, config, manifest, platform, blob_size, rootfs_size, created"
        " FROM images WHERE digest = ?",
        &digest, 1, err);

    if (r == 0) {
        r = bx_store_step(s, stmt, err);
    }
    if (r <= 0) {
        return r;
    }
    r = read_columns(s, stmt, &row, err);
    if (r == 0) {
        r = read_names(s, &row, err);
    }
    if (r < 0) {
        return r;
    }
    *ret = row;
    row = (struct bx_image_row){0};
    return 1;
}

/* The digests that REF may mean, the first rule that fits only. */
static int candidates(struct bx_store *s, const char *ref, struct bx_strv *ret, boxlite_error **err)
{
    static const char *const by_rule[] = {
        "SELECT digest FROM names WHERE name = ?",
        "SELECT digest FROM images WHERE digest = ?",
        "SELECT digest FROM images WHERE substr(digest, 8, length(?1)) = ?1 LIMIT 2",
    };
    const char *hex = bx_startswith(ref, DIGEST_START) ? ref + strlen(DIGEST_START) : ref;
    size_t len = strlen(hex);
    bool prefix = len >= PREFIX_MIN && strspn(hex, "0123456789abcdef") == len;

    for (size_t i = 0; i < BX_ARRAY_SIZE(by_rule) && ret->n == 0; i++) {
        _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
        const char *key = i == 2 ? hex : ref;
        int r;

        if (i == 2 && !prefix) {
            break;
        }
        r = bx_store_prepare(s, &stmt, by_rule[i], &key, 1, err);
        if (r == 0) {
            r = bx_store_keys(s, stmt, ret, err);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int bx_store_image_find(struct bx_store *s, const char *ref, struct bx_image_row *ret,
                        boxlite_error **err)
{
    _cleanup_strv_ struct bx_strv found = {0};
    int r = candidates(s, ref, &found, err);

    if (r < 0) {
        return r;
    }
    if (found.n > 1) {
        r = bx_fail(err, BOXLITE_E_INVALID, "several images start with %s", ref);
        bx_hint(err, "give more digits of the digest");
        return r;
    }
    r = found.n == 0 ? 0 : read_image(s, found.v[0], ret, err);
    if (r == 0) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "no image %s", ref);
    }
    return r < 0 ? r : 0;
}

int bx_store_image_each(struct bx_store *s, int (*fn)(void *data, const struct bx_image_row *row),
                        void *data, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    _cleanup_strv_ struct bx_strv digests = {0};
    int r = bx_store_prepare(s, &stmt, "SELECT digest FROM images ORDER BY created DESC, digest",
                             NULL, 0, err);

    if (r == 0) {
        r = bx_store_keys(s, stmt, &digests, err);
    }
    /* No statement is open while fn runs, so it may change the store. */
    for (size_t i = 0; r >= 0 && i < digests.n; i++) {
        _cleanup_image_row_ struct bx_image_row row = {0};
        r = read_image(s, digests.v[i], &row, err);
        if (r > 0) {
            r = fn(data, &row);
        }
    }
    return r < 0 ? r : 0;
}
