/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_state_store.c: the database: rows, names, prefixes, several processes at once, damage.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "harness.h"
#include "state/store.h"

#define D1 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "sha256:1111111111112222222222222222222222222222222222222222222222222222"
#define D3 "sha256:3333333333333333333333333333333333333333333333333333333333333333"

static struct bx_home *open_home(void)
{
    _cleanup_free_ char *path = bx_path_join(tmpdir(), "home");
    struct bx_home *home = NULL;

    ASSERT_OK(bx_home_open(path, &home, ERR));
    return home;
}

static struct bx_store *open_store(const struct bx_home *home)
{
    struct bx_store *s = NULL;

    ASSERT_OK(bx_store_open(home, &s, ERR));
    return s;
}

/* Changes the database behind the store's back. */
static void raw_sql(const struct bx_home *home, const char *sql)
{
    _cleanup_free_ char *path = bx_path_join(home->path, "boxlite.db");
    sqlite3 *db = NULL;

    ASSERT_EQ(sqlite3_open(path, &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    ASSERT_EQ(sqlite3_close(db), SQLITE_OK);
}

static void put(struct bx_store *s, const char *digest, int64_t created)
{
    struct bx_image_row row = {.digest = (char *)digest,
                               .config = (char *)"{\"c\":1}",
                               .manifest = (char *)"{\"m\":1}",
                               .platform = (char *)"linux/amd64",
                               .blob_size = 1,
                               .rootfs_size = 1ull << 40,
                               .created = created};

    ASSERT_OK(bx_store_image_put(s, &row, ERR));
}

static void insert(struct bx_store *s, const char *id, const char *name)
{
    struct bx_box_row row = {.id = (char *)id,
                             .name = (char *)name,
                             .image = (char *)"i",
                             .digest = (char *)D1,
                             .config = (char *)"{}",
                             .created = 5,
                             .auto_remove = true};

    ASSERT_OK(bx_store_box_insert(s, &row, ERR));
}

TEST(images_and_their_names)
{
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_store_ struct bx_store *s = open_store(home);
    struct bx_image_row row = {0};

    put(s, D1, 1);
    put(s, D3, 2);
    ASSERT_OK(bx_store_image_name(s, "b", D1, ERR));
    ASSERT_OK(bx_store_image_name(s, "a", D1, ERR));
    put(s, D1, 3); /* names stay */
    ASSERT_OK(bx_store_image_find(s, "a", &row, ERR));
    ASSERT_STREQ(row.digest, D1);
    ASSERT_STREQ(row.config, "{\"c\":1}");
    ASSERT_STREQ(row.platform, "linux/amd64");
    ASSERT_EQ(row.rootfs_size, 1ll << 40);
    ASSERT_EQ(row.created, 3);
    ASSERT_EQ(row.names.n, 2);
    ASSERT_STREQ(row.names.v[0], "a");
    bx_image_row_done(&row);

    ASSERT_OK(bx_store_image_name(s, "a", D3, ERR)); /* taken from D1 */
    ASSERT_OK(bx_store_image_find(s, "a", &row, ERR));
    ASSERT_STREQ(row.digest, D3);
    bx_image_row_done(&row);
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_store_image_name(s, "c", D2, ERR));
    ASSERT_OK(bx_store_image_unname(s, "a", ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_store_image_unname(s, "a", ERR));
    ASSERT_OK(bx_store_image_delete(s, D1, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 bx_store_image_find(s, "b", &row, ERR)); /* its names went too */
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_store_image_delete(s, D1, ERR));
}

TEST(images_by_digest_and_prefix)
{
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_store_ struct bx_store *s = open_store(home);
    struct bx_image_row row = {0};

    put(s, D1, 1);
    put(s, D2, 1);
    put(s, D3, 1);
    ASSERT_OK(bx_store_image_find(s, D2, &row, ERR));
    ASSERT_STREQ(row.digest, D2);
    bx_image_row_done(&row);
    ASSERT_OK(bx_store_image_find(s, "333333333333", &row, ERR));
    ASSERT_STREQ(row.digest, D3);
    bx_image_row_done(&row);
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 bx_store_image_find(s, "33333333333", &row, ERR)); /* too short */
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_store_image_find(s, "111111111111", &row, ERR));
    ASSERT_CONTAINS(err_hint(), "more digits");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_store_image_find(s, "%", &row, ERR));
}

static int note_digest(void *data, const struct bx_image_row *row)
{
    return bx_strv_add(data, row->digest);
}

static int stop_at_once(void *data, const struct bx_image_row *row)
{
    (void)row;
    ++*(int *)data;
    return BOXLITE_E_CANCELLED;
}

TEST(each_image_newest_first)
{
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_store_ struct bx_store *s = open_store(home);
    _cleanup_strv_ struct bx_strv seen = {0};
    int calls = 0;

    put(s, D1, 10);
    put(s, D2, 30);
    put(s, D3, 20);
    ASSERT_OK(bx_store_image_each(s, note_digest, &seen, ERR));
    ASSERT_EQ(seen.n, 3);
    ASSERT_STREQ(seen.v[0], D2);
    ASSERT_STREQ(seen.v[2], D1);
    ASSERT_EQ(bx_store_image_each(s, stop_at_once, &calls, ERR), BOXLITE_E_CANCELLED);
    ASSERT_EQ(calls, 1);
}

TEST(boxes)
{
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_store_ struct bx_store *s = open_store(home);
    struct bx_box_row row = {0};
    uint64_t n = 0;

    insert(s, "aa00000000000000", "one");
    insert(s, "ab00000000000000", "two");
    insert(s, "ac00000000000000", "aa00000000000000"); /* a name that looks like an id */
    ASSERT_OK(bx_store_box_find(s, "aa00000000000000", &row, ERR));
    ASSERT_STREQ(row.name, "one");
    ASSERT(row.auto_remove);
    bx_box_row_done(&row);
    ASSERT_OK(bx_store_box_find(s, "ab", &row, ERR));
    ASSERT_STREQ(row.name, "two");
    bx_box_row_done(&row);
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_store_box_find(s, "a", &row, ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_store_box_find(s, "", &row, ERR));
    ASSERT_OK(bx_store_box_count_image(s, D1, &n, ERR));
    ASSERT_EQ(n, 3);
    ASSERT_OK(bx_store_box_delete(s, "ac00000000000000", ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_store_box_delete(s, "ac00000000000000", ERR));
    insert(s, "ab11111111111111", "three");
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_store_box_find(s, "ab", &row, ERR));
}

TEST(a_taken_name_is_told)
{
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_store_ struct bx_store *s = open_store(home);
    struct bx_box_row row = {.id = (char *)"bb",
                             .name = (char *)"one",
                             .image = (char *)"i",
                             .digest = (char *)D1,
                             .config = (char *)"{}"};

    insert(s, "aa00000000000000", "one");
    ASSERT_FAILS(BOXLITE_E_EXISTS, bx_store_box_insert(s, &row, ERR));
    ASSERT_CONTAINS(err_message(), "a box named one exists");
}

/* Eight processes open a new home at once, and each inserts its own box and one that all want. */
TEST_FOR(many_processes_at_once, 60)
{
    enum { N = 8 };
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_store_ struct bx_store *s = NULL;
    int won = 0, gate[2];
    char c;

    ASSERT_EQ(pipe2(gate, O_CLOEXEC), 0);
    for (int i = 0; i < N; i++) {
        if (fork() == 0) {
            struct bx_store *mine = NULL;
            char id[24], name[24];
            struct bx_box_row row = {.id = id,
                                     .name = name,
                                     .image = (char *)"i",
                                     .digest = (char *)D1,
                                     .config = (char *)"{}"};
            int r, wanted;
            close(gate[1]);
            (void)!read(gate[0], &c, 1); /* until all are there */
            if (bx_store_open(home, &mine, NULL) < 0) {
                _exit(100);
            }
            snprintf(id, sizeof(id), "%016d", i);
            snprintf(name, sizeof(name), "own%d", i);
            r = bx_store_box_insert(mine, &row, NULL);
            snprintf(id, sizeof(id), "%015dx", i);
            snprintf(name, sizeof(name), "wanted");
            wanted = bx_store_box_insert(mine, &row, NULL);
            bx_store_free(mine);
            _exit(r < 0 ? 101 : wanted == 0 ? 1 : wanted == BOXLITE_E_EXISTS ? 0 : 102);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < N; i++) {
        int status;
        ASSERT_GT(wait(&status), 0);
        ASSERT(WIFEXITED(status));
        ASSERT_LE(WEXITSTATUS(status), 1);
        won += WEXITSTATUS(status);
    }
    ASSERT_EQ(won, 1);
    s = open_store(home);
    uint64_t n = 0;
    ASSERT_OK(bx_store_box_count_image(s, D1, &n, ERR));
    ASSERT_EQ(n, N + 1);
}

/* ---- what is wrong with a database */

TEST(the_database_is_for_its_owner_alone)
{
    struct bx_home *home = open_home();
    mode_t before = umask(0);
    struct bx_store *s = open_store(home);
    struct stat st;
    (void)umask(before);
    ASSERT_EQ(fstatat(home->fd, "boxlite.db", &st, 0), 0);
    ASSERT_EQ(st.st_mode & 07777, 0600);
    ASSERT_EQ(fstatat(home->fd, "boxlite.db-wal", &st, 0), 0);
    ASSERT_EQ(st.st_mode & 07777, 0600);
    bx_store_free(s);
    bx_home_free(home);
}

TEST(a_file_that_is_no_database)
{
    _cleanup_home_ struct bx_home *home = open_home();
    struct bx_store *s = NULL;
    static char junk[5000];

    memset(junk, 'j', sizeof(junk));
    ASSERT_EQ(bx_write_file(home->fd, "boxlite.db", junk, sizeof(junk), 0600), 0);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_store_open(home, &s, ERR));
    ASSERT_CONTAINS(err_message(), "boxlite.db is damaged");
    ASSERT_CONTAINS(err_hint(), "move it away");
    ASSERT_EQ(bx_write_file(home->fd, "boxlite.db", junk, 10, 0600), 0);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_store_open(home, &s, ERR));
    /* Moved away, all works again. */
    ASSERT_EQ(renameat(home->fd, "boxlite.db", home->fd, "boxlite.db.damaged"), 0);
    s = open_store(home);
    bx_store_free(s);
}

TEST(damaged_pages_are_told_not_overwritten)
{
    _cleanup_home_ struct bx_home *home = open_home();
    struct bx_store *s = open_store(home);
    struct bx_image_row row = {0};
    char junk[4096];
    int fd, bad = 0;

    for (int i = 0; i < 50; i++) {
        char digest[80];
        snprintf(digest, sizeof(digest), "sha256:%064d", i);
        put(s, digest, i);
    }
    bx_store_free(s);
    raw_sql(home, "PRAGMA wal_checkpoint(TRUNCATE)");
    fd = openat(home->fd, "boxlite.db", O_RDWR | O_CLOEXEC);
    memset(junk, 0xff, sizeof(junk));
    for (off_t at = 4096; at < 12 * 4096; at += 4096) {
        ASSERT_EQ(bx_pwrite_full(fd, junk, sizeof(junk), at), 0);
    }
    close(fd);
    s = NULL;
    if (bx_store_open(home, &s, NULL) < 0) {
        return; /* seen that early: as good */
    }
    for (int i = 0; i < 50; i++) {
        char digest[80];
        snprintf(digest, sizeof(digest), "sha256:%064d", i);
        int r = bx_store_image_find(s, digest, &row, ERR);
        bad += r == BOXLITE_E_INTEGRITY;
        bx_image_row_done(&row);
    }
    ASSERT_GT(bad, 0);
    ASSERT_CONTAINS(err_hint(), "move it away");
    bx_store_free(s);
}

TEST(a_newer_database_is_left_alone)
{
    _cleanup_home_ struct bx_home *home = open_home();
    struct bx_store *s = open_store(home);

    bx_store_free(s);
    raw_sql(home, "PRAGMA user_version = 99");
    s = NULL;
    ASSERT_FAILS(BOXLITE_E_UNSUPPORTED, bx_store_open(home, &s, ERR));
    ASSERT_CONTAINS(err_message(), "newer BoxLite (version 99)");
}

TEST(a_database_of_something_else_is_left_alone)
{
    _cleanup_home_ struct bx_home *home = open_home();
    struct bx_store *s = NULL;

    raw_sql(home, "CREATE TABLE theirs (x)");
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_store_open(home, &s, ERR));
    ASSERT_CONTAINS(err_message(), "not those of BoxLite");
}

TEST(odd_text_in_rows_is_told)
{
    _cleanup_home_ struct bx_home *home = open_home();
    _cleanup_store_ struct bx_store *s = open_store(home);
    struct bx_box_row row = {0};
    struct bx_image_row image = {0};

    insert(s, "aa00000000000000", "one");
    put(s, D1, 1);
    raw_sql(home, "UPDATE boxes SET config = CAST(x'7b00' AS TEXT)");
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_store_box_find(s, "one", &row, ERR));
    raw_sql(home, "UPDATE boxes SET config = CAST(x'ff41' AS TEXT)");
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_store_box_find(s, "one", &row, ERR));
    raw_sql(home, "UPDATE images SET blob_size = -1");
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_store_image_find(s, D1, &image, ERR));
    ASSERT_NULL(row.id);
    ASSERT_NULL(image.digest);
}

TEST(a_home_with_a_very_long_path_is_refused)
{
    char name[256];
    _cleanup_free_ char *one = NULL, *two = NULL, *three = NULL;
    _cleanup_home_ struct bx_home *home = NULL;
    struct bx_store *s = NULL;

    memset(name, 'n', sizeof(name) - 1);
    name[200] = '\0';
    one = bx_path_join(tmpdir(), name);
    two = bx_path_join(one, name);
    three = bx_path_join(two, name);
    ASSERT_OK(bx_home_open(three, &home, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_store_open(home, &s, ERR));
    ASSERT_CONTAINS(err_hint(), "BOXLITE_HOME");
}
