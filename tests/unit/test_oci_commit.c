/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_oci_commit.c: one more layer on an image: documents, tree, the same digest again; hostile layers leave nothing.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "harness.h"
#include "image_files.h"
#include "oci/commit.h"

#define BLOBS "images/blobs/sha256"

static char *base_digest;

static void open_with_base(struct image_home *h)
{
    struct bx_buf t = BX_BUF_INIT(TAR_MAX);
    json_t *config = json_pack("{s:[s,s], s:s, s:{s:s}}", "Env", "A=1", "B=2", "User", "nobody",
                               "Labels", "old", "x");

    image_home_open(h);
    TAR(&t, '5', "d");
    TAR(&t, '0', "d/old", .data = "old");
    TAR(&t, '0', "kept", .data = "kept");
    tar_end(&t);
    ASSERT_OK(bx_image_import(&h->im, put_file("base.tar", bx_buf_data(&t), t.len), "base", config,
                              &base_digest, ERR));
    json_decref(config);
    bx_buf_done(&t);
}

static void close_with_base(struct image_home *h)
{
    free(base_digest);
    image_home_close(h);
}

static int commit(struct image_home *h, const struct bx_buf *tar, const struct bx_commit_spec *spec,
                  char **ret, boxlite_error **err)
{
    _cleanup_commit_ struct bx_commit *c = NULL;

    ASSERT_OK(bx_commit_new(&h->im, &c, ERR));
    for (size_t at = 0; at < tar->len; at += 700) {
        size_t n = tar->len - at < 700 ? tar->len - at : 700;
        ASSERT_OK(bx_commit_put(c, bx_buf_data(tar) + at, n, ERR));
    }
    return bx_commit_finish(c, spec, ret, err);
}

static void small_layer(struct bx_buf *t)
{
    TAR(t, '5', "d");
    TAR(t, '0', "d/.wh.old");
    TAR(t, '0', "d/new", .data = "new", .mode = 04755);
    TAR(t, '1', "d/link", .link = "d/new");
    tar_end(t);
}

TEST(a_layer_on_an_image)
{
    struct image_home h;
    struct bx_buf t = BX_BUF_INIT(TAR_MAX), text = BX_BUF_INIT(65536);
    _cleanup_free_ char *digest = NULL, *again = NULL;
    _cleanup_close_ int fd = -1;
    json_t *config = json_pack("{s:[s,s], s:{s:s}, s:s}", "Env", "B=3", "C=4", "Labels", "new", "y",
                               "WorkingDir", "/d");
    struct bx_image_row row = {0};
    struct bx_image_run run = {0};

    open_with_base(&h);
    const struct bx_commit_spec spec = {
        .base = base_digest, .ref = "made:2", .config = config, .comment = "why"};
    small_layer(&t);
    ASSERT_OK(commit(&h, &t, &spec, &digest, ERR));
    ASSERT_OK(bx_image_find(&h.im, "made:2", &row, ERR));
    ASSERT_STREQ(row.digest, digest);
    ASSERT_OK(bx_image_run_parse(row.config, &run, ERR));
    ASSERT_EQ(run.env.n, 3);
    ASSERT_STREQ(run.env.v[0], "A=1");
    ASSERT_STREQ(run.env.v[1], "B=3");
    ASSERT_STREQ(run.env.v[2], "C=4");
    ASSERT_STREQ(run.user, "nobody");
    ASSERT_STREQ(run.workdir, "/d");
    ASSERT_CONTAINS(row.config, "\"old\":\"x\"");
    ASSERT_CONTAINS(row.config, "\"new\":\"y\"");
    ASSERT_CONTAINS(row.config, "\"comment\":\"why\"");
    ASSERT_CONTAINS(row.manifest, "tar+gzip");
    ASSERT_OK(bx_image_root(&h.im, &row, &fd, NULL, ERR));
    squash_list(fd, &text);
    ASSERT_STREQ(bx_buf_str(&text),
                 "/ 40755 0:0 n3 \nd 40755 0:0 n2 \nd/link 104755 0:0 n2 new\nd/new 104755 0:0 n2 "
                 "new\nkept 100644 0:0 n1 kept\n");
    /* The same again is the same image; what it consists of is sound. */
    ASSERT_OK(commit(&h, &t, &spec, &again, ERR));
    ASSERT_STREQ(again, digest);
    ASSERT_OK(bx_image_verify(&h.im, digest, false, ERR));
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    ASSERT_EQ(count_files(&h, BLOBS), 6);
    json_decref(config);
    bx_image_run_done(&run);
    bx_image_row_done(&row);
    bx_buf_done(&text);
    bx_buf_done(&t);
    close_with_base(&h);
}

static void refuses(struct image_home *h, struct bx_buf *t, const struct bx_commit_spec *spec,
                    int code, const char *part)
{
    _cleanup_free_ char *digest = NULL;

    ASSERT_FAILS(code, commit(h, t, spec, &digest, ERR));
    ASSERT_CONTAINS(err_message(), part);
    ASSERT_EQ(count_files(h, BLOBS), 3);
    ASSERT_EQ(count_files(h, "rootfs"), 1);
    ASSERT_EQ(count_files(h, "tmp"), 0);
    bx_buf_done(t);
}

TEST(hostile_layers_leave_nothing)
{
    struct image_home h;
    struct bx_buf t = BX_BUF_INIT(TAR_MAX);

    open_with_base(&h);
    struct bx_commit_spec spec = {.base = base_digest, .ref = "made"};
    TAR(&t, '0', "../escape", .data = "x");
    tar_end(&t);
    refuses(&h, &t, &spec, BOXLITE_E_INTEGRITY, "\"..\"");
    ASSERT_EQ(bx_buf_append(&t, "no tar at all", 13), 0);
    refuses(&h, &t, &spec, BOXLITE_E_INTEGRITY, "no tar archive");
    small_layer(&t);
    spec.base = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    refuses(&h, &t, &spec, BOXLITE_E_NOT_FOUND, "made from");
    small_layer(&t);
    spec.base = base_digest;
    spec.ref = "Bad Name";
    refuses(&h, &t, &spec, BOXLITE_E_INVALID, "");
    close_with_base(&h);
}

TEST(a_commit_that_is_given_up_leaves_nothing)
{
    struct image_home h;
    struct bx_commit *c = NULL;

    open_with_base(&h);
    ASSERT_OK(bx_commit_new(&h.im, &c, ERR));
    ASSERT_OK(bx_commit_put(c, "half of it", 10, ERR));
    bx_commit_free(c);
    ASSERT_EQ(count_files(&h, "tmp"), 0);
    ASSERT_EQ(count_files(&h, BLOBS), 3);
    close_with_base(&h);
}
