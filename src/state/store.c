/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c: opening boxlite.db, its schema, and the errors of SQLite told in our terms.
 *
 * The schema's version is PRAGMA user_version: the number of migration steps that were applied. A step is
 * never changed once released; a change of the schema is a new step. Steps run in one transaction under a
 * lock of the home, so of several processes that open a new home at once one makes the tables and the
 * others find them. (The lock is also needed because the switch to WAL does not wait for a busy database.)
 *
 * A database that is damaged is never repaired or replaced here: what can be lost is the user's to decide.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "base/path.h"
#include "state/store_db.h"

#define BUSY_TIMEOUT_MS 10000
/* SQLite's unix layer refuses longer paths (MAX_PATHNAME 512, with room for "-journal"). */
#define DB_PATH_MAX 500
#define KEYS_MAX 1000000

static const char *const steps[] = {
    "CREATE TABLE images ("
    " digest TEXT PRIMARY KEY, config TEXT NOT NULL, manifest TEXT NOT NULL, platform TEXT NOT NULL,"
    " blob_size INTEGER NOT NULL, rootfs_size INTEGER NOT NULL, created INTEGER NOT NULL) STRICT;"
    "CREATE TABLE names ("
    " name TEXT PRIMARY KEY,"
    " digest TEXT NOT NULL REFERENCES images (digest) ON DELETE CASCADE) STRICT;"
    "CREATE INDEX names_digest ON names (digest);"
    "CREATE TABLE boxes ("
    " id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, image TEXT NOT NULL, digest TEXT NOT NULL,"
    " config TEXT NOT NULL, created INTEGER NOT NULL, auto_remove INTEGER NOT NULL) STRICT;"
    "CREATE INDEX boxes_digest ON boxes (digest);",
};
#define VERSION ((uint64_t)BX_ARRAY_SIZE(steps))

static int fail_damaged(struct bx_store *s, const char *why, boxlite_error **err)
{
    int r = bx_fail(err, BOXLITE_E_INTEGRITY, "database %s is damaged: %s", s->path, why);

    bx_hint(
        err,
        "move it away with its -wal and -shm files (mv %s %s.damaged); images can then be imported again, "
        "disks of boxes stay in the folder boxes",
        s->path, s->path);
    return r;
}

int bx_store_fail(struct bx_store *s, int rc, boxlite_error **err)
{
    const char *why = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc);
    int errnum = s->db ? sqlite3_system_errno(s->db) : 0;
    int r;

    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return bx_fail_oom(err);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return fail_damaged(s, why, err);
    case SQLITE_FULL:
        r = bx_fail(err, BOXLITE_E_NO_SPACE, "database %s: no space left", s->path);
        bx_hint(err, "free some space (boxlite image rm, boxlite rm)");
        return r;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        r = bx_fail(err, BOXLITE_E_BUSY, "database %s is locked by another process", s->path);
        bx_hint(err, "wait for the other BoxLite command to end; fuser -v %s shows it", s->path);
        return r;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        r = bx_fail(err, BOXLITE_E_DENIED, "database %s cannot be written", s->path);
        break;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
        r = bx_fail_errno(err, errnum == EROFS ? BOXLITE_E_DENIED : BOXLITE_E_IO,
                          errnum ? errnum : EIO, "database %s: %s", s->path, why);
        break;
    default:
        return bx_fail(err, BOXLITE_E_IO, "database %s: %s", s->path, why);
    }
    if (r == BOXLITE_E_NO_SPACE) {
        bx_hint(err, "free some space (boxlite image rm, boxlite rm)");
    } else {
        bx_hint(err, "make %s and its folder readable and writable for this user", s->path);
    }
    return r;
}

int bx_store_prepare(struct bx_store *s, sqlite3_stmt **ret, const char *sql,
                     const char *const *text, size_t ntext, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL);

    for (size_t i = 0; rc == SQLITE_OK && i < ntext; i++) {
        rc = sqlite3_bind_text(stmt, (int)i + 1, text[i], -1, SQLITE_TRANSIENT);
    }
    if (rc != SQLITE_OK) {
        return bx_store_fail(s, rc, err);
    }
    *ret = steal_ptr(&stmt);
    return 0;
}

int bx_store_step(struct bx_store *s, sqlite3_stmt *stmt, boxlite_error **err)
{
    int rc = sqlite3_step(stmt);

    if (rc == SQLITE_ROW) {
        return 1;
    }
    return rc == SQLITE_DONE ? 0 : bx_store_fail(s, sqlite3_extended_errcode(s->db), err);
}

int bx_store_exec(struct bx_store *s, const char *sql, boxlite_error **err)
{
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : bx_store_fail(s, rc, err);
}

int bx_store_begin(struct bx_store *s, boxlite_error **err)
{
    return bx_store_exec(s, "BEGIN IMMEDIATE", err);
}

int bx_store_commit(struct bx_store *s, boxlite_error **err)
{
    int r = bx_store_exec(s, "COMMIT", err);

    if (r < 0) {
        bx_store_rollback(s);
    }
    return r;
}

void bx_store_rollback(struct bx_store *s)
{
    if (!sqlite3_get_autocommit(s->db)) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
}

int bx_store_text(struct bx_store *s, sqlite3_stmt *stmt, int col, char **ret, boxlite_error **err)
{
    const char *text = (const char *)sqlite3_column_text(stmt, col);
    size_t len = (size_t)sqlite3_column_bytes(stmt, col);
    char *copy;

    if (!text) {
        return sqlite3_errcode(s->db) == SQLITE_NOMEM ? bx_fail_oom(err)
                                                      : fail_damaged(s, "a text is missing", err);
    }
    if (strlen(text) != len || !bx_utf8_valid(text, len)) {
        return fail_damaged(s, "a text in it is not UTF-8", err);
    }
    copy = strdup(text);
    if (!copy) {
        return bx_fail_oom(err);
    }
    free(*ret);
    *ret = copy;
    return 0;
}

int bx_store_u64(struct bx_store *s, sqlite3_stmt *stmt, int col, uint64_t *ret,
                 boxlite_error **err)
{
    int64_t v = sqlite3_column_int64(stmt, col);

    if (sqlite3_column_type(stmt, col) != SQLITE_INTEGER || v < 0) {
        return fail_damaged(s, "a number in it is out of range", err);
    }
    *ret = (uint64_t)v;
    return 0;
}

int bx_store_keys(struct bx_store *s, sqlite3_stmt *stmt, struct bx_strv *keys, boxlite_error **err)
{
    int r;

    keys->max = KEYS_MAX;
    while ((r = bx_store_step(s, stmt, err)) > 0) {
        _cleanup_free_ char *key = NULL;
        r = bx_store_text(s, stmt, 0, &key, err);
        if (r < 0) {
            return r;
        }
        r = bx_strv_add(keys, key);
        if (r < 0) {
            return r == -ENOMEM ? bx_fail_oom(err) : fail_damaged(s, "it has too many rows", err);
        }
    }
    return r;
}

static int read_number(struct bx_store *s, const char *sql, uint64_t *ret, boxlite_error **err)
{
    _cleanup_stmt_ sqlite3_stmt *stmt = NULL;
    int r = bx_store_prepare(s, &stmt, sql, NULL, 0, err);

    if (r < 0) {
        return r;
    }
    r = bx_store_step(s, stmt, err);
    if (r < 0) {
        return r;
    }
    return bx_store_u64(s, stmt, 0, ret, err);
}

static int check_version(struct bx_store *s, uint64_t *ret, boxlite_error **err)
{
    uint64_t version = 0, tables = 0;
    int r = read_number(s, "PRAGMA user_version", &version, err);

    if (r == 0) {
        r = read_number(s, "SELECT count(*) FROM sqlite_schema", &tables, err);
    }
    if (r < 0) {
        return r;
    }
    if (version > VERSION) {
        r = bx_fail(err, BOXLITE_E_UNSUPPORTED,
                    "database %s was made by a newer BoxLite (version %llu)", s->path,
                    (unsigned long long)version);
        bx_hint(err, "update BoxLite or set BOXLITE_HOME to another folder");
        return r;
    }
    if (version == 0 && tables > 0) {
        return fail_damaged(s, "its tables are not those of BoxLite", err);
    }
    *ret = version;
    return 0;
}

static int migrate(struct bx_store *s, boxlite_error **err)
{
    char sql[64];
    uint64_t version = 0;
    int r = bx_store_exec(s, "PRAGMA journal_mode = WAL", err);

    if (r == 0) {
        r = bx_store_begin(s, err);
    }
    if (r == 0) {
        r = check_version(s, &version, err);
    }
    while (r == 0 && version < VERSION) {
        r = bx_store_exec(s, steps[version++], err);
    }
    if (r < 0) {
        bx_store_rollback(s);
        return r;
    }
    (void)snprintf(sql, sizeof(sql), "PRAGMA user_version = %llu", (unsigned long long)version);
    r = bx_store_exec(s, sql, err);
    if (r < 0) {
        bx_store_rollback(s);
        return r;
    }
    return bx_store_commit(s, err);
}

/* Brings the schema up to date; the lock is that of the home folder itself, on a descriptor of its own. */
static int migrate_locked(struct bx_store *s, const struct bx_home *home, boxlite_error **err)
{
    _cleanup_close_ int lock = openat(home->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (lock < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening %s", home->path);
    }
    while (flock(lock, LOCK_EX) < 0) {
        if (errno != EINTR) {
            return bx_fail_errno(err, BOXLITE_E_IO, errno, "locking %s", home->path);
        }
    }
    return migrate(s, err);
}

int bx_store_open(const struct bx_home *home, struct bx_store **ret, boxlite_error **err)
{
    _cleanup_store_ struct bx_store *s = calloc(1, sizeof(*s));
    uint64_t version = 0;
    int r;

    if (!s || !(s->path = bx_path_join(home->path, "boxlite.db"))) {
        return bx_fail_oom(err);
    }
    if (strlen(s->path) > DB_PATH_MAX) {
        r = bx_fail(err, BOXLITE_E_INVALID, "the path of home %s is too long", home->path);
        bx_hint(err, "set BOXLITE_HOME to a folder with a path of less than %d bytes",
                DB_PATH_MAX - 16);
        return r;
    }
    /* It holds environments of boxes, and the home may be readable by others: SQLite would make it
     * so as well, and gives its -wal and -shm files the mode of the database. */
    _cleanup_close_ int made =
        openat(home->fd, "boxlite.db", O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    (void)made;
    r = sqlite3_open_v2(s->path, &s->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                            SQLITE_OPEN_EXRESCODE,
                        NULL);
    if (r != SQLITE_OK) {
        return bx_store_fail(s, r, err);
    }
    (void)sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    r = bx_store_exec(
        s,
        "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF;"
        "PRAGMA cell_size_check = ON",
        err);
    if (r == 0) {
        r = check_version(s, &version, err);
    }
    if (r == 0 && version < VERSION) {
        r = migrate_locked(s, home, err);
    }
    if (r < 0) {
        return r;
    }
    *ret = steal_ptr(&s);
    return 0;
}

void bx_store_free(struct bx_store *store)
{
    if (store) {
        (void)sqlite3_close(store->db);
        free(store->path);
        free(store);
    }
}
