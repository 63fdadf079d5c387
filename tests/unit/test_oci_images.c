/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_oci_images.c: images come in, are found, built again, and go: rows and files together.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/str.h"
#include "harness.h"
#include "image_files.h"
#include "oci/manifest.h"

#define BLOBS "images/blobs/sha256"

/* A tar with one file. */
static struct bx_buf small_tar(const char *text)
{
    struct bx_buf t = BX_BUF_INIT(TAR_MAX);

    TAR(&t, '0', "file", .data = text);
    tar_end(&t);
    return t;
}

static const char *put_tar(const char *name, const char *text)
{
    struct bx_buf t = small_tar(text);
    const char *path = put_file(name, bx_buf_data(&t), t.len);

    bx_buf_done(&t);
    return path;
}

static void import(struct image_home *h, const char *text, const char *ref)
{
    _cleanup_free_ char *digest = NULL;

    ASSERT_OK(bx_image_import(&h->im, put_tar("in.tar", text), ref, NULL, &digest, ERR));
}

/* What is in the root of the image. */
static char *root_text(struct image_home *h, const char *ref)
{
    struct bx_image_row row = {0};
    struct bx_buf text = BX_BUF_INIT(65536);
    _cleanup_close_ int fd = -1;

    ASSERT_OK(bx_image_find(&h->im, ref, &row, ERR));
    ASSERT_OK(bx_image_root(&h->im, &row, &fd, NULL, ERR));
    squash_list(fd, &text);
    bx_image_row_done(&row);
    return bx_buf_steal(&text, NULL);
}

static void expect_file(struct image_home *h, const char *ref, const char *text)
{
    _cleanup_free_ char *got = root_text(h, ref),
                        *line = bx_asprintf("\nfile 100644 0:0 n1 %s\n", text);

    ASSERT_CONTAINS(got, line);
}

TEST(import_find_run)
{
    struct image_home h;
    struct bx_image_row row = {0};
    struct bx_image_run run = {0};
    _cleanup_free_ char *digest = NULL, *again = NULL;
    json_t *config = json_pack("{s:[s], s:s}", "Cmd", "/bin/sh", "User", "nobody");
    struct stat st;

    image_home_open(&h);
    ASSERT_OK(bx_image_import(&h.im, put_tar("a.tar", "hello"), "my/image", config, &digest, ERR));
    ASSERT_OK(bx_image_find(&h.im, "my/image:latest", &row, ERR));
    ASSERT_STREQ(row.digest, digest);
    ASSERT_STREQ(row.names.v[0], "docker.io/my/image:latest");
    ASSERT_CONTAINS(row.platform, "linux/");
    ASSERT_EQ(row.rootfs_size, 4096);
    ASSERT_OK(bx_image_run_parse(row.config, &run, ERR));
    ASSERT_STREQ(run.cmd.v[0], "/bin/sh");
    ASSERT_STREQ(run.user, "nobody");
    expect_file(&h, "my/image", "hello");
    expect_file(&h, digest, "hello");
    digest[7 + 12] = '\0';
    expect_file(&h, digest + 7, "hello");
    /* The same tar is the same image. */
    ASSERT_OK(bx_image_import(&h.im, put_tar("b.tar", "hello"), "other", config, &again, ERR));
    ASSERT_STREQ(again, row.digest);
    ASSERT_EQ(count_files(&h, BLOBS), 3);
    ASSERT_EQ(count_files(&h, "rootfs"), 1);
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    ASSERT_EQ(fstatat(h.home->fd, "images/oci-layout", &st, 0), 0);
    json_decref(config);
    bx_image_run_done(&run);
    bx_image_row_done(&row);
    image_home_close(&h);
}

TEST(labels_of_an_image_are_the_boxes_but_for_our_own)
{
    struct bx_image_run run = {0};

    ASSERT_OK(bx_image_run_parse(
        "{\"config\":{\"Labels\":{\"a\":\"b=c\",\"\":\"x\",\"n=m\":\"x\",\"i\":5,"
        "\"org.boxlite.mcp.environment\":\"mine\",\"z\":\"\"}}}",
        &run, ERR));
    ASSERT_EQ(run.labels.n, 2);
    ASSERT_STREQ(run.labels.v[0], "a=b=c");
    ASSERT_STREQ(run.labels.v[1], "z=");
    bx_image_run_done(&run);
    ASSERT_OK(bx_image_run_parse("{\"config\":null}", &run, ERR));
    ASSERT_EQ(run.labels.n, 0);
    bx_image_run_done(&run);
}

TEST(import_of_a_packed_tar)
{
    struct image_home h;
    struct bx_buf tar = small_tar("packed"), gz = BX_BUF_INIT(TAR_MAX);
    _cleanup_free_ char *digest = NULL;
    struct bx_image_row row = {0};
    char diff_id[BX_DIGEST_LEN + 1];

    image_home_open(&h);
    tar_gzip(&tar, &gz);
    ASSERT_EQ(bx_sha256_mem(bx_buf_data(&tar), tar.len, diff_id), 0);
    ASSERT_OK(bx_image_import(&h.im, put_file("a.tgz", bx_buf_data(&gz), gz.len), "x", NULL,
                              &digest, ERR));
    ASSERT_OK(bx_image_find(&h.im, "x", &row, ERR));
    ASSERT_CONTAINS(row.manifest, "tar+gzip");
    ASSERT_CONTAINS(row.config, diff_id);
    expect_file(&h, "x", "packed");
    bx_image_row_done(&row);
    bx_buf_done(&tar);
    bx_buf_done(&gz);
    image_home_close(&h);
}

TEST(import_from_standard_input)
{
    struct image_home h;
    struct bx_buf tar = small_tar("piped");
    _cleanup_free_ char *digest = NULL;
    int p[2], saved = fcntl(0, F_DUPFD_CLOEXEC, 0);

    image_home_open(&h);
    ASSERT_EQ(bx_pipe(p), 0);
    ASSERT_EQ(bx_write_full(p[1], bx_buf_data(&tar), tar.len), 0);
    close(p[1]);
    ASSERT_EQ(dup2(p[0], 0), 0);
    ASSERT_OK(bx_image_import(&h.im, "-", "x", NULL, &digest, ERR));
    expect_file(&h, "x", "piped");
    ASSERT_EQ(dup2(saved, 0), 0);
    close(saved);
    close(p[0]);
    bx_buf_done(&tar);
    image_home_close(&h);
}

TEST(imports_that_fail_leave_nothing)
{
    static const struct {
        const char *content, *part;
        int code;
    } cases[] = {
        {"garbage", "no tar archive", BOXLITE_E_INTEGRITY},
        {"", "no tar archive", BOXLITE_E_INTEGRITY},
        {"\x1f\x8b\x08", "no tar archive", BOXLITE_E_INTEGRITY},
        {"\xfd"
         "7zXZ",
         "no tar archive", BOXLITE_E_INTEGRITY},
        {"BZh91AY", "packed with bzip2", BOXLITE_E_UNSUPPORTED},
    };
    struct image_home h;
    char *digest = NULL;

    image_home_open(&h);
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        const char *path = put_file("bad", cases[i].content, strlen(cases[i].content));
        ASSERT_FAILS(cases[i].code, bx_image_import(&h.im, path, "x", NULL, &digest, ERR));
        ASSERT_CONTAINS(err_message(), cases[i].part);
        ASSERT_CONTAINS(err_message(), "importing /");
    }
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 bx_image_import(&h.im, "/nonexistent", "x", NULL, &digest, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_image_import(&h.im, tmpdir(), "x", NULL, &digest, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_image_import(&h.im, put_tar("t", "x"), "BAD NAME", NULL, &digest, ERR));
    ASSERT_NULL(digest);
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    ASSERT_LE(count_files(&h, BLOBS), 0);
    ASSERT_LE(count_files(&h, "rootfs"), 0);
    image_home_close(&h);
}

TEST(a_truncated_gzip_and_a_bomb_are_refused)
{
    struct image_home h;
    struct bx_buf tar = BX_BUF_INIT(TAR_MAX), gz = BX_BUF_INIT(TAR_MAX);
    char *digest = NULL;
    const size_t big = 20u << 20;

    image_home_open(&h);
    TAR(&tar, '0', "zeros", .size = big);
    memset(bx_buf_reserve(&tar, big), 0, big);
    bx_buf_commit(&tar, big);
    tar_end(&tar);
    tar_gzip(&tar, &gz);
    ASSERT_LT(gz.len * 500, big);
    h.im.max_bytes = 1u << 20;
    ASSERT_FAILS(BOXLITE_E_INTEGRITY,
                 bx_image_import(&h.im, put_file("bomb", bx_buf_data(&gz), gz.len), "x", NULL,
                                 &digest, ERR));
    ASSERT_CONTAINS(err_message(), "entry zeros: larger than an image may be");
    h.im.max_bytes = 0;
    ASSERT_FAILS(BOXLITE_E_INTEGRITY,
                 bx_image_import(&h.im, put_file("cut", bx_buf_data(&gz), gz.len / 2), "x", NULL,
                                 &digest, ERR));
    ASSERT_CONTAINS(err_message(), "truncated gzip");
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    bx_buf_done(&tar);
    bx_buf_done(&gz);
    image_home_close(&h);
}

/* ---- roots */

static void remove_roots(struct image_home *h)
{
    ASSERT_EQ(bx_rm_rf(h->home->fd, "rootfs"), 0);
}

TEST(a_missing_root_is_built_again)
{
    struct image_home h;

    image_home_open(&h);
    import(&h, "again", "x");
    remove_roots(&h);
    expect_file(&h, "x", "again");
    ASSERT_EQ(count_files(&h, "rootfs"), 1);
    image_home_close(&h);
}

TEST(a_damaged_root_is_told)
{
    struct image_home h;
    struct bx_image_row row = {0};
    _cleanup_free_ char *path = NULL;
    int fd = -1;

    image_home_open(&h);
    import(&h, "x", "x");
    ASSERT_OK(bx_image_find(&h.im, "x", &row, ERR));
    path = bx_asprintf("%s/rootfs/%s.sqfs", h.home->path, row.digest + 7);
    ASSERT_EQ(truncate(path, 100), 0);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_image_root(&h.im, &row, &fd, NULL, ERR));
    ASSERT_CONTAINS(err_message(), path);
    ASSERT_CONTAINS(err_hint(), "remove it");
    ASSERT_EQ(unlink(path), 0); /* what the hint says */
    expect_file(&h, "x", "x");
    bx_image_row_done(&row);
    image_home_close(&h);
}

/* The blob that is not a document. */
static void damage_layer(struct image_home *h, const struct bx_image_row *row)
{
    struct bx_manifest m = {0};
    _cleanup_free_ char *path = NULL;
    _cleanup_close_ int fd = -1;

    ASSERT_OK(bx_manifest_parse(row->manifest, strlen(row->manifest), "m", &m, ERR));
    path = bx_asprintf("%s/" BLOBS "/%s", h->home->path, m.items[0].digest + 7);
    fd = open(path, O_RDWR | O_CLOEXEC);
    ASSERT_EQ(bx_pwrite_full(fd, "X", 1, 512), 0);
    bx_manifest_done(&m);
}

TEST(a_damaged_blob_is_seen_when_a_root_is_built)
{
    struct image_home h;
    struct bx_image_row row = {0};
    int fd = -1;

    image_home_open(&h);
    import(&h, "text", "x");
    ASSERT_OK(bx_image_find(&h.im, "x", &row, ERR));
    damage_layer(&h, &row);
    remove_roots(&h);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_image_root(&h.im, &row, &fd, NULL, ERR));
    ASSERT_CONTAINS(err_message(), "layer 1 (sha256:");
    ASSERT_EQ(count_files(&h, "rootfs"), 0);
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    bx_image_row_done(&row);
    image_home_close(&h);
}

/* In a child of its own, with its own descriptors: exit status 0 if it got the root. */
static pid_t root_in_child(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        _cleanup_free_ char *path = bx_path_join(tmpdir(), "home");
        struct bx_home *home = NULL;
        struct bx_store *store = NULL;
        struct bx_image_row row = {0};
        int fd = -1;
        bool ok = bx_home_open(path, &home, NULL) == 0 && bx_store_open(home, &store, NULL) == 0;
        struct bx_images im = {.home = home, .store = store};
        ok = ok && bx_image_find(&im, "x", &row, NULL) == 0 &&
             bx_image_root(&im, &row, &fd, NULL, NULL) == 0;
        _exit(ok ? 0 : 1);
    }
    return pid;
}

TEST_FOR(many_want_one_root_at_once, 60)
{
    struct image_home h;

    image_home_open(&h);
    import(&h, "shared", "x");
    remove_roots(&h);
    for (int i = 0; i < 6; i++) {
        ASSERT_GT(root_in_child(), 0);
    }
    for (int i = 0; i < 6; i++) {
        int status;
        ASSERT_GT(wait(&status), 0);
        ASSERT_EQ(status, 0);
    }
    ASSERT_EQ(count_files(&h, "rootfs"), 1);
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    expect_file(&h, "x", "shared");
    image_home_close(&h);
}

static bool has_two_temporaries(void *data)
{
    return count_files(data, "tmp") == 2;
}

TEST_FOR(a_killed_import_leaves_only_what_is_swept, 60)
{
    struct image_home h;
    int p[2], status;
    pid_t pid;
    struct bx_buf tar = BX_BUF_INIT(TAR_MAX);

    image_home_open(&h);
    TAR(&tar, '0', "file", .size = 1u << 20);
    ASSERT_EQ(bx_pipe(p), 0);
    pid = fork();
    if (pid == 0) { /* waits for the rest of the file for ever */
        char *digest = NULL;
        (void)dup2(p[0], 0);
        (void)bx_image_import(&h.im, "-", "x", NULL, &digest, NULL);
        _exit(0);
    }
    ASSERT_EQ(bx_write_full(p[1], bx_buf_data(&tar), tar.len), 0);
    ASSERT(eventually(has_two_temporaries, &h));
    ASSERT_OK(bx_home_sweep_tmp(
        h.home, ERR)); /* it lives: its files stay, or are made again if just made */
    ASSERT(eventually(has_two_temporaries, &h));
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_OK(bx_home_sweep_tmp(h.home, ERR));
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    ASSERT_LE(count_files(&h, BLOBS), 0);
    close(p[0]);
    close(p[1]);
    bx_buf_done(&tar);
    image_home_close(&h);
}

/* ---- removal */

TEST(names_and_shared_blobs)
{
    struct image_home h;

    image_home_open(&h);
    import(&h, "one", "a");
    import(&h, "one", "b:2");
    import(&h, "two", "c"); /* shares the config of none, but nothing else either */
    ASSERT_EQ(count_files(&h, BLOBS), 6);
    ASSERT_OK(bx_image_remove(&h.im, "a", false, ERR)); /* only a name */
    ASSERT_EQ(count_files(&h, BLOBS), 6);
    expect_file(&h, "b:2", "one");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_image_remove(&h.im, "a", false, ERR));
    ASSERT_OK(bx_image_remove(&h.im, "b:2", false, ERR));
    ASSERT_EQ(count_files(&h, BLOBS), 3);
    ASSERT_EQ(count_files(&h, "rootfs"), 1);
    expect_file(&h, "c", "two");
    ASSERT_OK(bx_image_remove(&h.im, "c", false, ERR));
    ASSERT_EQ(count_files(&h, BLOBS), 0);
    ASSERT_EQ(count_files(&h, "rootfs"), 0);
    image_home_close(&h);
}

TEST(a_layer_that_two_images_share_survives)
{
    struct image_home h;
    json_t *config = json_pack("{s:s}", "User", "u");
    char *digest = NULL;

    image_home_open(&h);
    import(&h, "same", "a");
    ASSERT_OK(bx_image_import(&h.im, put_tar("t", "same"), "b", config, &digest, ERR));
    ASSERT_EQ(count_files(&h, BLOBS), 5);
    ASSERT_OK(bx_image_remove(&h.im, "a", false, ERR));
    ASSERT_EQ(count_files(&h, BLOBS), 3);
    remove_roots(&h);
    expect_file(&h, "b", "same");
    json_decref(config);
    free(digest);
    image_home_close(&h);
}

TEST(an_image_in_use_is_busy)
{
    struct image_home h;
    struct bx_image_row row = {0};

    image_home_open(&h);
    import(&h, "used", "a");
    ASSERT_OK(bx_image_find(&h.im, "a", &row, ERR));
    struct bx_box_row box = {.id = (char *)"0011",
                             .name = (char *)"n",
                             .image = (char *)"a",
                             .digest = row.digest,
                             .config = (char *)"{}"};
    ASSERT_OK(bx_store_box_insert(h.store, &box, ERR));
    ASSERT_FAILS(BOXLITE_E_BUSY, bx_image_remove(&h.im, "a", false, ERR));
    ASSERT_CONTAINS(err_message(), "used by box n");
    expect_file(&h, "a", "used");
    ASSERT_OK(bx_image_remove(&h.im, "a", true, ERR));
    ASSERT_EQ(count_files(&h, BLOBS), 0);
    bx_image_row_done(&row);
    image_home_close(&h);
}

TEST(unknown_images_are_told)
{
    struct image_home h;
    struct bx_image_row row = {0};

    image_home_open(&h);
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_image_find(&h.im, "nothing:1", &row, ERR));
    ASSERT_STREQ(err_message(), "no image nothing:1");
    ASSERT_CONTAINS(err_hint(), "image import");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_image_find(&h.im, "0123456789ab", &row, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_image_find(&h.im, "No\nSuch", &row, ERR));
    image_home_close(&h);
}

/* ---- loading */

/* An OCI layout in tmpdir()/NAME with one image of one layer, and its index as given (%s: manifest's descriptor). */
struct layout {
    char dir[4096];
    char layer[BX_DIGEST_LEN + 1], config[BX_DIGEST_LEN + 1], manifest[BX_DIGEST_LEN + 1];
    size_t manifest_len;
};

static void put_blob(const struct layout *l, const void *data, size_t len, char *digest)
{
    _cleanup_free_ char *path = NULL;

    ASSERT_EQ(bx_sha256_mem(data, len, digest), 0);
    path = bx_asprintf("%s/blobs/sha256/%s", l->dir, digest + 7);
    ASSERT_EQ(bx_write_file(AT_FDCWD, path, data, len, 0600), 0);
}

static void put_index(const struct layout *l, const char *index)
{
    _cleanup_free_ char *path = bx_path_join(l->dir, "index.json");

    ASSERT_EQ(bx_write_file(AT_FDCWD, path, index, strlen(index), 0600), 0);
}

static void make_layout(struct layout *l, const char *name, const char *text,
                        const char *annotation)
{
    struct bx_buf tar = small_tar(text), gz = BX_BUF_INIT(TAR_MAX);
    char diff_id[BX_DIGEST_LEN + 1];
    _cleanup_free_ char *config = NULL, *manifest = NULL, *index = NULL, *blobs = NULL,
                        *mark = NULL;

    snprintf(l->dir, sizeof(l->dir), "%s/%s", tmpdir(), name);
    blobs = bx_path_join(l->dir, "blobs/sha256");
    mark = bx_path_join(l->dir, "oci-layout");
    ASSERT_EQ(bx_mkdir_p(blobs, 0700), 0);
    ASSERT_EQ(bx_write_file(AT_FDCWD, mark, "{}", 2, 0600), 0);
    tar_gzip(&tar, &gz);
    ASSERT_EQ(bx_sha256_mem(bx_buf_data(&tar), tar.len, diff_id), 0);
    put_blob(l, bx_buf_data(&gz), gz.len, l->layer);
    config = bx_config_make(NULL, diff_id);
    put_blob(l, config, strlen(config), l->config);
    const struct bx_layer_info info = {.digest = l->layer,
                                       .diff_id = diff_id,
                                       .media_type = "application/vnd.oci.image.layer.v1.tar+gzip",
                                       .size = gz.len};
    manifest = bx_manifest_make(l->config, strlen(config), &info, 1);
    l->manifest_len = strlen(manifest);
    put_blob(l, manifest, l->manifest_len, l->manifest);
    index = bx_asprintf("{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"%s\",\"size\":%zu%s}]}",
                        l->manifest, l->manifest_len, annotation);
    put_index(l, index);
    bx_buf_done(&tar);
    bx_buf_done(&gz);
}

#define NAMED(name) ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"" name "\"}"

TEST(load_a_layout_folder)
{
    struct image_home h;
    struct layout l;
    _cleanup_strv_ struct bx_strv loaded = {0};

    image_home_open(&h);
    make_layout(&l, "l", "from layout", "");
    ASSERT_OK(bx_image_load(&h.im, l.dir, "given:1", &loaded, ERR));
    ASSERT_EQ(loaded.n, 1);
    ASSERT_STREQ(loaded.v[0], l.manifest); /* the digest is kept */
    expect_file(&h, "given:1", "from layout");
    ASSERT_OK(bx_image_load(&h.im, l.dir, NULL, &loaded, ERR)); /* again, and without a name */
    expect_file(&h, l.manifest, "from layout");
    ASSERT_EQ(count_files(&h, BLOBS), 3);
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    image_home_close(&h);
}

TEST(names_in_a_layout)
{
    static const struct {
        const char *annotation, *ref, *name;
    } cases[] = {
        {NAMED("own/name:2"), "given", "own/name:2"},
        {NAMED("latest"), "given:3", "given:3"},
        {NAMED("ghcr.io/x/y:z"), NULL, "ghcr.io/x/y:z"},
        {NAMED("No:Such"), "given:4", "given:4"},
    };
    struct image_home h;

    image_home_open(&h);
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct layout l;
        _cleanup_strv_ struct bx_strv loaded = {0};
        char dir[8];
        snprintf(dir, sizeof(dir), "l%zu", i);
        make_layout(&l, dir, dir, cases[i].annotation);
        ASSERT_OK(bx_image_load(&h.im, l.dir, cases[i].ref, &loaded, ERR));
        expect_file(&h, cases[i].name, dir);
    }
    image_home_close(&h);
}

/* As buildx writes it: the index of a layout names another, which has an image and a note about it. */
TEST(load_a_nested_index)
{
    struct image_home h;
    struct layout l;
    _cleanup_strv_ struct bx_strv loaded = {0};
    _cleanup_free_ char *inner = NULL, *outer = NULL;
    char digest[BX_DIGEST_LEN + 1];

    image_home_open(&h);
    make_layout(&l, "l", "nested", "");
    inner = bx_asprintf(
        "{\"schemaVersion\":2,\"manifests\":["
        "{\"digest\":\"%s\",\"size\":5,\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}},"
        "{\"digest\":\"%s\",\"size\":%zu,\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}]}",
        l.config, l.manifest, l.manifest_len, bx_host_architecture());
    put_blob(&l, inner, strlen(inner), digest);
    outer = bx_asprintf(
        "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.index.v1+json\","
        "\"digest\":\"%s\",\"size\":%zu" NAMED("my/nested:1") "}]}",
        digest, strlen(inner));
    put_index(&l, outer);
    ASSERT_OK(bx_image_load(&h.im, l.dir, NULL, &loaded, ERR));
    ASSERT_STREQ(loaded.v[0], l.manifest);
    expect_file(&h, "my/nested:1", "nested");
    image_home_close(&h);
}

static void load_fails(struct image_home *h, const struct layout *l, int code, const char *part)
{
    _cleanup_strv_ struct bx_strv loaded = {0};

    ASSERT_FAILS(code, bx_image_load(&h->im, l->dir, "x", &loaded, ERR));
    ASSERT_CONTAINS(err_message(), part);
    ASSERT_EQ(loaded.n, 0);
    ASSERT_EQ(count_files(h, BLOBS), 0); /* nothing half loaded */
    ASSERT_EQ(count_files(h, "tmp"), 0);
}

TEST(damaged_layouts_are_refused)
{
    struct image_home h;
    struct layout l;
    char path[4400];

    image_home_open(&h);
    make_layout(&l, "layer", "x", "");
    snprintf(path, sizeof(path), "%s/blobs/sha256/%s", l.dir, l.layer + 7);
    ASSERT_EQ(truncate(path, 30), 0);
    load_fails(&h, &l, BOXLITE_E_INTEGRITY, "is damaged: its digest is");
    ASSERT_EQ(unlink(path), 0);
    load_fails(&h, &l, BOXLITE_E_INTEGRITY, "is missing");

    make_layout(&l, "manifest", "x", "");
    snprintf(path, sizeof(path), "%s/blobs/sha256/%s", l.dir, l.manifest + 7);
    ASSERT_EQ(truncate(path, 30), 0);
    load_fails(&h, &l, BOXLITE_E_INTEGRITY, "is damaged");

    make_layout(&l, "other", "x", ",\"platform\":{\"os\":\"linux\",\"architecture\":\"vax\"}");
    load_fails(&h, &l, BOXLITE_E_UNSUPPORTED, "no image for linux/");

    put_index(&l, "{\"schemaVersion\":2,\"manifests\":[]}");
    load_fails(&h, &l, BOXLITE_E_UNSUPPORTED, "no image for linux/");
    put_index(
        &l,
        "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"sha256:../../../../etc/passwd\",\"size\":1}]}");
    load_fails(&h, &l, BOXLITE_E_INTEGRITY, "digest");

    snprintf(path, sizeof(path), "%s/index.json", l.dir);
    ASSERT_EQ(unlink(path), 0);
    ASSERT_EQ(symlink("/etc/passwd", path), 0);
    load_fails(&h, &l, BOXLITE_E_IO, "index.json");
    image_home_close(&h);
}

TEST(what_is_no_image_archive)
{
    struct image_home h;
    _cleanup_strv_ struct bx_strv loaded = {0};

    image_home_open(&h);
    ASSERT_FAILS(BOXLITE_E_INVALID,
                 bx_image_load(&h.im, put_tar("root.tar", "x"), NULL, &loaded, ERR));
    ASSERT_CONTAINS(err_hint(), "image import");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, bx_image_load(&h.im, "/nonexistent", NULL, &loaded, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY,
                 bx_image_load(&h.im, put_file("f", "junk", 4), NULL, &loaded, ERR));
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    image_home_close(&h);
}

/* ---- docker save */

/* An archive with two layers, the second entry of which may be a link; bad: what is wrong with it. */
static struct bx_buf docker_tar(const char *tags, const char *second_layer)
{
    struct bx_buf out = BX_BUF_INIT(TAR_MAX), one = BX_BUF_INIT(TAR_MAX);
    char diff_id[BX_DIGEST_LEN + 1];
    _cleanup_free_ char *config = NULL, *manifest = NULL;

    TAR(&one, '0', "file", .data = "docker");
    tar_end(&one);
    ASSERT_EQ(bx_sha256_mem(bx_buf_data(&one), one.len, diff_id), 0);
    config = bx_asprintf(
        "{\"os\":\"linux\",\"architecture\":\"%s\",\"config\":{},\"rootfs\":{\"diff_ids\":"
        "[\"%s\",\"%s\"]}}",
        bx_host_architecture(), diff_id, diff_id);
    manifest =
        bx_asprintf("[{\"Config\":\"c.json\",\"RepoTags\":%s,\"Layers\":[\"1/layer.tar\",\"%s\"]}]",
                    tags, second_layer);
    TAR(&out, '5', "1/");
    TAR(&out, '0', "1/layer.tar", .size = one.len);
    ASSERT_EQ(bx_buf_append(&out, bx_buf_data(&one), one.len), 0);
    TAR(&out, '2', "2/layer.tar", .link = "../1/layer.tar");
    TAR(&out, '2', "loop", .link = "loop");
    TAR(&out, '0', "c.json", .data = config);
    TAR(&out, '0', "manifest.json", .data = manifest);
    tar_end(&out);
    bx_buf_done(&one);
    return out;
}

TEST(load_a_docker_archive)
{
    struct image_home h;
    struct bx_buf t = docker_tar("[\"repo/x:1\",\"repo/x:2\"]", "2/layer.tar");
    _cleanup_strv_ struct bx_strv loaded = {0};

    image_home_open(&h);
    ASSERT_OK(bx_image_load(&h.im, put_file("d.tar", bx_buf_data(&t), t.len), NULL, &loaded, ERR));
    ASSERT_EQ(loaded.n, 1);
    expect_file(&h, "repo/x:1", "docker");
    expect_file(&h, "repo/x:2", "docker");
    ASSERT_EQ(count_files(&h, BLOBS), 3); /* both layers are one */
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    bx_buf_done(&t);
    t = docker_tar("null", "1/layer.tar");
    ASSERT_OK(
        bx_image_load(&h.im, put_file("d.tar", bx_buf_data(&t), t.len), "mine", &loaded, ERR));
    expect_file(&h, "mine", "docker");
    bx_buf_done(&t);
    image_home_close(&h);
}

TEST(bad_docker_archives)
{
    static const char *const layers[] = {"missing",     "loop", "../../etc/passwd",
                                         "/etc/passwd", "1",    ""};
    struct image_home h;

    image_home_open(&h);
    for (size_t i = 0; i < BX_ARRAY_SIZE(layers); i++) {
        struct bx_buf t = docker_tar("[\"x:1\"]", layers[i]);
        _cleanup_strv_ struct bx_strv loaded = {0};
        ASSERT_FAILS(
            BOXLITE_E_INTEGRITY,
            bx_image_load(&h.im, put_file("d.tar", bx_buf_data(&t), t.len), NULL, &loaded, ERR));
        ASSERT_CONTAINS(err_message(), "is missing");
        ASSERT_EQ(count_files(&h, BLOBS), 0);
        ASSERT_EQ(count_files(&h, "tmp"), 0);
        bx_buf_done(&t);
    }
    image_home_close(&h);
}

/* ---- full disks */

/* A small file system of its own under tmpdir()/small, or a skip. */
static void mount_small(const char *size)
{
    _cleanup_free_ char *path = bx_path_join(tmpdir(), "small"),
                        *options = bx_asprintf("size=%s", size);

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mkdir(path, 0700) < 0 || mount("none", path, "tmpfs", 0, options) < 0) {
        SKIP("no right to mount a small file system: %s", strerror(errno));
    }
}

static void unmount_small(void)
{
    _cleanup_free_ char *path = bx_path_join(tmpdir(), "small");

    ASSERT_EQ(umount(path), 0);
}

TEST(a_full_disk_is_told_before_or_while_importing)
{
    struct image_home h = {0};
    struct bx_buf tar = BX_BUF_INIT(TAR_MAX);
    _cleanup_free_ char *home = bx_path_join(tmpdir(), "small/home");
    const size_t big = 3u << 20;
    char *digest = NULL;
    int p[2];
    pid_t pid;

    mount_small("2m");
    ASSERT_OK(bx_home_open(home, &h.home, ERR));
    ASSERT_OK(bx_store_open(h.home, &h.store, ERR));
    h.im.home = h.home;
    h.im.store = h.store;
    TAR(&tar, '0', "big", .size = big);
    for (size_t i = 0; i < big; i++) {
        ASSERT_EQ(bx_buf_append(&tar, &(char){(char)(i * i >> 5)}, 1), 0);
    }
    tar_end(&tar);
    ASSERT_FAILS(
        BOXLITE_E_NO_SPACE,
        bx_image_import(&h.im, put_file("t", bx_buf_data(&tar), tar.len), "x", NULL, &digest, ERR));
    ASSERT_CONTAINS(err_message(), "the import needs");
    /* From a pipe the size is not known: it is met on the way. */
    ASSERT_EQ(bx_pipe(p), 0);
    pid = fork();
    if (pid == 0) {
        close(p[0]);
        _exit(bx_write_full(p[1], bx_buf_data(&tar), tar.len) == -EPIPE ? 0 : 1);
    }
    close(p[1]);
    int saved = fcntl(0, F_DUPFD_CLOEXEC, 0);
    ASSERT_EQ(dup2(p[0], 0), 0);
    close(p[0]);
    ASSERT_FAILS(BOXLITE_E_NO_SPACE, bx_image_import(&h.im, "-", "x", NULL, &digest, ERR));
    ASSERT_CONTAINS(err_hint(), "free some space");
    ASSERT_EQ(dup2(saved, 0), 0);
    close(saved);
    ASSERT_EQ(waitpid(pid, NULL, 0), pid);
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    bx_buf_done(&tar);
    image_home_close(&h);
    unmount_small();
}
