/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_oci_auth.c: challenges, tokens, files of credentials, and registries.json, as texts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "harness.h"
#include "oci/challenge.h"
#include "oci/credentials.h"
#include "oci/credhelper.h"
#include "oci/registries.h"
#include "oci/token.h"

#define HUB_KEY "https://index.docker.io/v1/"

/* ---- Challenges ------------------------------------------------------------------------------ */

static struct bx_challenge choose(const char *one, const char *two)
{
    struct bx_strv headers = {0};
    struct bx_challenge c = {0};

    ASSERT_EQ(bx_strv_add(&headers, one), 0);
    if (two) {
        ASSERT_EQ(bx_strv_add(&headers, two), 0);
    }
    ASSERT_EQ(bx_challenge_choose(&headers, &c), 0);
    bx_strv_done(&headers);
    return c;
}

TEST(challenges)
{
    static const struct {
        const char *one, *two;
        enum bx_scheme scheme;
        const char *realm, *service, *scope;
    } cases[] = {
        {"Basic realm=\"x\"", NULL, BX_SCHEME_BASIC, "x", NULL, NULL},
        {"basic", NULL, BX_SCHEME_BASIC, NULL, NULL, NULL},
        {"Bearer realm=\"https://a/t\",service=\"s v\",scope=\"repository:x:pull,push\"", NULL,
         BX_SCHEME_BEARER, "https://a/t", "s v", "repository:x:pull,push"},
        {"Bearer  realm = \"a\" , , service=b", NULL, BX_SCHEME_BEARER, "a", "b", NULL},
        {"Bearer realm=\"a\\\"b\\\\\"", NULL, BX_SCHEME_BEARER, "a\"b\\", NULL, NULL},
        /* the better one, wherever it stands */
        {"Basic realm=\"x\", Bearer realm=\"y\"", NULL, BX_SCHEME_BEARER, "y", NULL, NULL},
        {"Bearer realm=\"y\"", "Basic realm=\"x\"", BX_SCHEME_BEARER, "y", NULL, NULL},
        {"Negotiate", "Basic realm=x", BX_SCHEME_BASIC, "x", NULL, NULL},
        {"Negotiate YII=, Basic realm=x", NULL, BX_SCHEME_BASIC, "x", NULL, NULL},
        /* the first of two counts */
        {"Bearer realm=\"y\", REALM=\"z\"", NULL, BX_SCHEME_BEARER, "y", NULL, NULL},
        /* of no use */
        {"Bearer service=\"y\"", NULL, BX_SCHEME_OTHER, NULL, NULL, NULL},
        {"Bearer realm=\"y", NULL, BX_SCHEME_OTHER, NULL, NULL, NULL},
        {"Bearer realm=\"y\n\"", NULL, BX_SCHEME_OTHER, NULL, NULL, NULL},
        {"", "=,=,\"", BX_SCHEME_OTHER, NULL, NULL, NULL},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_challenge c = choose(cases[i].one, cases[i].two);
        ASSERT_EQ(c.scheme, cases[i].scheme);
        ASSERT_STREQ(c.realm, cases[i].realm);
        ASSERT_STREQ(c.service, cases[i].service);
        ASSERT_STREQ(c.scope, cases[i].scope);
        bx_challenge_done(&c);
    }
}

TEST(tokens)
{
    char *token = NULL;

    ASSERT_OK(bx_token_parse("{\"token\":\"a.b\"}", 15, &token, ERR));
    ASSERT_STREQ(token, "a.b");
    free(token);
    ASSERT_OK(bx_token_parse("{\"access_token\":\"c\",\"token\":\"\"}", 31, &token, ERR));
    ASSERT_STREQ(token, "c");
    free(token);
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"token\":1}",
                                      "{\"token\":\"a b\"}",
                                      "{\"token\":\"a\\r\\nX: y\"}",
                                      "{\"token\":\"\\u00e9\"}"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT_FAILS(BOXLITE_E_INTEGRITY, bx_token_parse(bad[i], strlen(bad[i]), &token, ERR));
    }
}

/* ---- Credentials ----------------------------------------------------------------------------- */

TEST(base64)
{
    static const char *const cases[][2] = {
        {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
        {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe", "//4="},
    };
    static const char *const bad[] = {"Z", "Zg", "Zg=", "Z===", "Z=g=", "Zm 8", "Zm9v\n", "-_-_"};
    size_t len;

    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        _cleanup_free_ char *coded = bx_base64_encode(cases[i][0], strlen(cases[i][0]));
        _cleanup_free_ char *back = bx_base64_decode(cases[i][1], &len);
        ASSERT_STREQ(coded, cases[i][1]);
        ASSERT_STREQ(back, cases[i][0]);
        ASSERT_EQ(len, strlen(cases[i][0]));
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT_NULL(bx_base64_decode(bad[i], &len));
    }
}

/* What a file says for host and path: "USER:SECRET", "token SECRET", "helper NAME", "none", "error". */
static char *look(const char *json, const char *host, const char *path)
{
    struct bx_credential_source s = {0};
    char *said;

    if (bx_credentials_parse(json, strlen(json), "test", host, path, &s, ERR) < 0) {
        ASSERT(!strstr(err_message(), "secret"));
        return strdup("error");
    }
    if (s.helper) {
        said = bx_asprintf("helper %s", s.helper);
    } else if (!s.credential.user) {
        said = strdup("none");
    } else {
        said = bx_asprintf("%s%s%s", s.credential.identity_token ? "token" : s.credential.user,
                           s.credential.identity_token ? " " : ":", s.credential.secret);
    }
    bx_credential_source_done(&s);
    return said;
}

#define A_SECRET "\"auth\": \"YTpzZWNyZXQ6Yg==\"" /* a:secret:b */

TEST(files_of_credentials)
{
    static const struct {
        const char *json, *host, *path, *said;
    } cases[] = {
        {"{}", "a.b", "x", "none"},
        {"{\"auths\": {\"a.b\": {" A_SECRET "}}}", "a.b", "x", "a:secret:b"},
        {"{\"auths\": {\"https://a.b/v1/\": {" A_SECRET "}}}", "a.b", "x", "a:secret:b"},
        {"{\"auths\": {\"https://a.b\": {" A_SECRET "}}}", "a.b:5000", "x", "none"},
        {"{\"auths\": {\"a.b\": {" A_SECRET "}}}", "a.bc", "x", "none"},
        {"{\"auths\": {\"" HUB_KEY "\": {" A_SECRET "}}}", "docker.io", "library/x", "a:secret:b"},
        {"{\"auths\": {\"a.b\": {}, \"a.b/n\": {" A_SECRET "}}}", "a.b", "n/x", "a:secret:b"},
        {"{\"auths\": {\"a.b\": {}, \"a.b/n\": {" A_SECRET "}}}", "a.b", "nn/x", "none"},
        {"{\"auths\": {\"a.b\": {\"username\": \"u\", \"password\": \"p\"}}}", "a.b", "x", "u:p"},
        {"{\"auths\": {\"a.b\": {" A_SECRET ", \"identitytoken\": \"t\"}}}", "a.b", "x", "token t"},
        {"{\"auths\": {\"a.b\": {" A_SECRET "}}, \"credsStore\": \"s\"}", "a.b", "x", "helper s"},
        {"{\"credHelpers\": {\"a.b\": \"h\"}, \"credsStore\": \"s\"}", "a.b", "x", "helper h"},
        {"{\"credHelpers\": {\"a.b\": \"h\"}, \"credsStore\": \"s\"}", "c.d", "x", "helper s"},
        {"{\"credsStore\": \"../s\"}", "a.b", "x", "error"},
        {"{\"auths\": {\"a.b\": {\"auth\": \"secret\"}}}", "a.b", "x", "error"},
        {"{\"auths\": {\"a.b\": {\"auth\": \"c2VjcmV0\"}}}", "a.b", "x", "error"}, /* no colon */
        {"{\"auths\": {\"a.b\": {\"auth\": 1}}}", "a.b", "x", "error"},
        {"{\"auths\": []}", "a.b", "x", "error"},
        {"not JSON: secret", "a.b", "x", "error"},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        _cleanup_free_ char *said = look(cases[i].json, cases[i].host, cases[i].path);
        ASSERT_STREQ(said, cases[i].said);
    }
}

TEST(names_of_helpers)
{
    ASSERT(bx_credhelper_valid("pass") && bx_credhelper_valid("ecr-login.v2_x"));
    ASSERT(!bx_credhelper_valid("") && !bx_credhelper_valid("-x") && !bx_credhelper_valid(".x"));
    ASSERT(!bx_credhelper_valid("a/b") && !bx_credhelper_valid("a b") &&
           !bx_credhelper_valid("a;b"));
}

/* ---- registries.json ------------------------------------------------------------------------- */

static int parse(const char *json, struct bx_registries *ret)
{
    return bx_registries_parse(json, strlen(json), "registries.json", ret, ERR);
}

TEST(settings)
{
    struct bx_registries r = {0};

    ASSERT_OK(parse("{}", &r));
    ASSERT_EQ(r.retries, 4);
    ASSERT_EQ(r.parallel, 3);
    ASSERT_NULL(bx_registries_find(&r, "docker.io"));
    bx_registries_done(&r);
    ASSERT_OK(parse(
        "{\"search\": [\"a.b\", \"docker.io\"], \"connect_timeout\": 2, \"stall_timeout\": 3,"
        " \"retries\": 0, \"parallel\": 16, \"registries\": {\"a.b:5\": {\"ca\": \"/x\","
        " \"proxy\": \"http://p\", \"plain_http\": true, \"mirrors\": [\"m.n/p\", \"http://[::1]:5\"]}}}",
        &r));
    ASSERT_EQ(r.connect_ms, 2000);
    ASSERT_EQ(r.stall_ms, 3000);
    ASSERT_EQ(r.retries, 0);
    ASSERT_STREQ(bx_registries_find(&r, "a.b:5")->ca_file, "/x");
    ASSERT_STREQ(bx_registries_find(&r, "a.b:5")->mirrors.v[1], "http://[::1]:5");
    ASSERT_NULL(bx_registries_find(&r, "a.b"));
    bx_registries_done(&r);
}

TEST(settings_that_are_wrong)
{
    static const char *const cases[] = {
        "",
        "[]",
        "{\"serach\": []}",
        "{\"search\": \"a\"}",
        "{\"search\": [\"a b\"]}",
        "{\"search\": [\"a\"]}", /* without a dot it is no host */
        "{\"retries\": 21}",
        "{\"retries\": -1}",
        "{\"parallel\": 0}",
        "{\"stall_timeout\": 0}",
        "{\"registries\": []}",
        "{\"registries\": {\"a.b/c\": {}}}",
        "{\"registries\": {\"a.b\": []}}",
        "{\"registries\": {\"a.b\": {\"plain_http\": 1}}}",
        "{\"registries\": {\"a.b\": {\"mirrors\": [\"ftp://x.y\"]}}}",
        "{\"registries\": {\"a.b\": {\"mirrors\": [\"u:p@x.y\"]}}}",
        "{\"registries\": {\"a.b\": {}, \"a.b\": {}}}",
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_registries r = {0};
        ASSERT(parse(cases[i], &r) < 0);
        ASSERT_CONTAINS(err_message(), "registries.json");
    }
}

TEST(names_to_search)
{
    struct bx_registries r = {0};
    static const struct {
        const char *text, *first;
        size_t n;
    } cases[] = {
        {"x", "a.b/x:latest", 2},
        {"n/x:1", "a.b/n/x:1", 2},
        {"docker.io/x", "docker.io/library/x:latest", 1},
        {"c.d/x", "c.d/x:latest", 1},
        {"localhost/x", "localhost/x:latest", 1},
    };

    ASSERT_OK(parse("{\"search\": [\"a.b\", \"docker.io\"]}", &r));
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_strv names = {0};
        ASSERT_OK(bx_registries_candidates(&r, cases[i].text, &names, ERR));
        ASSERT_EQ(names.n, cases[i].n);
        ASSERT_STREQ(names.v[0], cases[i].first);
        bx_strv_done(&names);
    }
    bx_registries_done(&r);
}
