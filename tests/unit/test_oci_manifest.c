/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_oci_manifest.c: the documents of images, and how an image wants its commands run.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/str.h"
#include "harness.h"
#include "oci/images.h"
#include "oci/manifest.h"

#define A "\"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""
#define OCI "application/vnd.oci.image."

static int parse(const char *text, struct bx_manifest *ret, boxlite_error **err)
{
    return bx_manifest_parse(text, strlen(text), "doc", ret, err);
}

TEST(manifests_of_both_families)
{
    static const char *const types[][2] = {
        {OCI "manifest.v1+json", OCI "layer.v1.tar+gzip"},
        {"application/vnd.docker.distribution.manifest.v2+json",
         "application/vnd.docker.image.rootfs.diff.tar.gzip"},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(types); i++) {
        struct bx_manifest m = {0};
        _cleanup_free_ char *text = bx_asprintf(
            "{\"schemaVersion\":2,\"mediaType\":\"%s\",\"config\":{\"digest\":" A ",\"size\":7},"
            "\"layers\":[{\"mediaType\":\"%s\",\"digest\":" A ",\"size\":9}]}",
            types[i][0], types[i][1]);
        ASSERT_OK(parse(text, &m, ERR));
        ASSERT_EQ(m.kind, BX_DOC_MANIFEST);
        ASSERT_EQ(m.config.size, 7);
        ASSERT_EQ(m.n, 1);
        ASSERT_EQ(m.items[0].size, 9);
        bx_manifest_done(&m);
    }
}

TEST(an_index_is_searched_for_this_host)
{
    struct bx_manifest m = {0};
    const struct bx_descriptor *d;
    _cleanup_free_ char *text = bx_asprintf(
        "{\"schemaVersion\":2,\"manifests\":["
        "{\"digest\":" A ",\"size\":1,\"platform\":{\"os\":\"windows\",\"architecture\":\"%s\"}},"
        "{\"digest\":" A ",\"size\":2,\"platform\":{\"os\":\"linux\",\"architecture\":\"vax\"}},"
        "{\"digest\":" A ",\"size\":3,\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"},"
        "\"annotations\":{\"org.opencontainers.image.ref.name\":\"n:1\"}}]}",
        bx_host_architecture(), bx_host_architecture());

    ASSERT_OK(parse(text, &m, ERR));
    ASSERT_EQ(m.kind, BX_DOC_INDEX);
    d = bx_index_choose(&m);
    ASSERT_NOT_NULL(d);
    ASSERT_EQ(d->size, 3);
    ASSERT_STREQ(d->name, "n:1");
    m.n = 2;
    ASSERT_NULL(bx_index_choose(&m));
    m.n = 3;
    bx_manifest_done(&m);
}

TEST(bad_documents_are_refused)
{
    static const struct {
        const char *text, *part;
        int code;
    } cases[] = {
        {"", "", BOXLITE_E_INTEGRITY},
        {"[]", "", BOXLITE_E_INTEGRITY},
        {"{}", "config", BOXLITE_E_INTEGRITY},
        {"{\"schemaVersion\":1}", "schema version 1", BOXLITE_E_UNSUPPORTED},
        {"{\"mediaType\":\"text/\\u001bx\"}", "type text/\\x1bx", BOXLITE_E_UNSUPPORTED},
        {"{\"config\":{\"digest\":\"sha256:../../etc\",\"size\":1},\"layers\":[]}", "digest",
         BOXLITE_E_INTEGRITY},
        {"{\"config\":{\"digest\":" A ",\"size\":-1},\"layers\":[]}", "size", BOXLITE_E_INTEGRITY},
        {"{\"config\":{\"digest\":" A ",\"size\":9999999999999999},\"layers\":[]}", "size",
         BOXLITE_E_INTEGRITY},
        {"{\"config\":{\"digest\":" A ",\"size\":1},\"layers\":[{\"mediaType\":\"x\",\"digest\":" A
         ",\"size\":1}]}",
         "layers[0]: a layer of type x", BOXLITE_E_UNSUPPORTED},
        {"{\"config\":{\"digest\":" A ",\"size\":1},\"layers\":[7]}", "layers[0]",
         BOXLITE_E_INTEGRITY},
        {"{\"manifests\":{}}", "manifests", BOXLITE_E_INTEGRITY},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_manifest m = {0};
        ASSERT_FAILS(cases[i].code, parse(cases[i].text, &m, ERR));
        ASSERT_CONTAINS(err_message(), cases[i].part);
        ASSERT_NULL(m.items);
    }
}

TEST(too_many_layers_are_refused)
{
    struct bx_buf text = BX_BUF_INIT(1u << 20);
    struct bx_manifest m = {0};

    ASSERT_EQ(bx_buf_appends(&text, "{\"config\":{\"digest\":" A ",\"size\":1},\"layers\":["), 0);
    for (unsigned i = 0; i <= BX_LAYERS_MAX; i++) {
        ASSERT_EQ(bx_buf_appendf(&text, "%s{\"digest\":" A ",\"size\":1}", i ? "," : ""), 0);
    }
    ASSERT_EQ(bx_buf_appends(&text, "]}"), 0);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, parse(bx_buf_str(&text), &m, ERR));
    bx_buf_done(&text);
}

TEST(configs)
{
    struct bx_config c = {0};
    static const char other[] =
        "{\"os\":\"linux\",\"architecture\":\"vax\",\"rootfs\":{\"diff_ids\":[]}}";
    static const char odd[] =
        "{\"os\":\"linux\",\"architecture\":\"%s\",\"rootfs\":{\"diff_ids\":[\"x\"]}}";
    _cleanup_free_ char *made =
        bx_config_make(NULL, "sha256:"
                             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    _cleanup_free_ char *bad = bx_asprintf(odd, bx_host_architecture());

    ASSERT_OK(bx_config_parse(made, strlen(made), "config", &c, ERR));
    ASSERT_EQ(c.diff_ids.n, 1);
    ASSERT_CONTAINS(c.platform, "linux/");
    bx_config_done(&c);
    ASSERT_FAILS(BOXLITE_E_UNSUPPORTED, bx_config_parse(other, strlen(other), "config", &c, ERR));
    ASSERT_CONTAINS(err_message(), "the image is for linux/vax");
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_config_parse(bad, strlen(bad), "config", &c, ERR));
}

TEST(docker_lists)
{
    struct bx_docker_list l = {0};
    static const char good[] =
        "[{\"Config\":\"c.json\",\"RepoTags\":null,\"Layers\":[\"a/layer.tar\"]}]";
    static const char *const bad[] = {"{}", "[{}]", "[{\"Config\":1,\"Layers\":[]}]",
                                      "[{\"Config\":\"c\",\"Layers\":[\"a\\u0000b\"]}]"};

    ASSERT_OK(bx_docker_list_parse(good, strlen(good), &l, ERR));
    ASSERT_EQ(l.n, 1);
    ASSERT_EQ(l.v[0].tags.n, 0);
    ASSERT_STREQ(l.v[0].layers.v[0], "a/layer.tar");
    bx_docker_list_done(&l);
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_docker_list_parse(bad[i], strlen(bad[i]), &l, ERR));
    }
}

TEST(how_commands_are_run)
{
    struct bx_image_run r = {0};

    ASSERT_OK(bx_image_run_parse(
        "{\"config\":{\"Entrypoint\":[\"/e\"],\"Cmd\":[\"a\",\"\"],\"Env\":[\"A=b=c\"],"
        "\"User\":\"u:g\",\"WorkingDir\":\"/w\",\"StopSignal\":\"SIGQUIT\"}}",
        &r, ERR));
    ASSERT_STREQ(r.entrypoint.v[0], "/e");
    ASSERT_EQ(r.cmd.n, 2);
    ASSERT_STREQ(r.env.v[0], "A=b=c");
    ASSERT_STREQ(r.user, "u:g");
    ASSERT_STREQ(r.workdir, "/w");
    ASSERT_STREQ(r.stop_signal, "SIGQUIT");
    bx_image_run_done(&r);
    ASSERT_OK(bx_image_run_parse("{\"config\":{\"Cmd\":null}}", &r, ERR));
    ASSERT_EQ(r.cmd.n, 0);
    ASSERT_STREQ(r.user, "");
    bx_image_run_done(&r);
    ASSERT_OK(bx_image_run_parse("{}", &r, ERR));
    ASSERT_STREQ(r.stop_signal, "");
    bx_image_run_done(&r);
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_image_run_parse("{\"config\":{\"Cmd\":[1]}}", &r, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_image_run_parse("{\"config\":{\"User\":7}}", &r, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_image_run_parse("nonsense", &r, ERR));
}

TEST(running_out_of_memory_leaks_nothing)
{
    static const char text[] =
        "{\"config\":{\"digest\":" A ",\"size\":1},\"layers\":[{\"digest\":" A ",\"size\":1}]}";

    TORTURE
    {
        struct bx_manifest m = {0};
        int r = parse(text, &m, ERR);
        /* jansson calls some failed allocations a syntax error. */
        ASSERT(allocation_failed() ? r < 0 : r == 0);
        bx_manifest_done(&m);
    }
}
