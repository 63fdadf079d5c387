/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_oci_reference.c: image names as Docker reads them.
 */
#include <stdlib.h>

#include "base/str.h"
#include "harness.h"
#include "oci/reference.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(good_names)
{
    static const struct {
        const char *text, *full, *brief;
    } cases[] = {
        {"python", "docker.io/library/python:latest", "python:latest"},
        {"python:3.11-slim", "docker.io/library/python:3.11-slim", "python:3.11-slim"},
        {"boxlite/base:bookworm", "docker.io/boxlite/base:bookworm", "boxlite/base:bookworm"},
        {"docker.io/python", "docker.io/library/python:latest", "python:latest"},
        {"index.docker.io/a/b", "docker.io/a/b:latest", "a/b:latest"},
        {"docker.io/library/x:1", "docker.io/library/x:1", "x:1"},
        {"localhost/x", "localhost/x:latest", "localhost/x:latest"},
        {"localhost:5000/x:y", "localhost:5000/x:y", "localhost:5000/x:y"},
        {"ghcr.io/a-b/c__d/e.f:V_1.0-x", "ghcr.io/a-b/c__d/e.f:V_1.0-x",
         "ghcr.io/a-b/c__d/e.f:V_1.0-x"},
        {"[::1]:5000/x", "[::1]:5000/x:latest", "[::1]:5000/x:latest"},
        {"x@sha256:" HEX, "docker.io/library/x@sha256:" HEX, "x@sha256:" HEX},
        {"x:1@sha256:" HEX, "docker.io/library/x:1@sha256:" HEX, "x:1@sha256:" HEX},
        {"docker.io/a.b/c", "docker.io/a.b/c:latest",
         "docker.io/a.b/c:latest"}, /* its short form names a host */
        {"docker.io/localhost/c", "docker.io/localhost/c:latest", "docker.io/localhost/c:latest"},
        {"a---b", "docker.io/library/a---b:latest", "a---b:latest"},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_reference r = {0}, again = {0};
        ASSERT_OK(bx_reference_parse(cases[i].text, &r, ERR));
        _cleanup_free_ char *full = bx_reference_full(&r), *brief = bx_reference_short(&r),
                            *twice = NULL;
        ASSERT_STREQ(full, cases[i].full);
        ASSERT_STREQ(brief, cases[i].brief);
        /* Both forms mean the same. */
        ASSERT_OK(bx_reference_parse(brief, &again, ERR));
        twice = bx_reference_full(&again);
        ASSERT_STREQ(twice, full);
        bx_reference_done(&r);
        bx_reference_done(&again);
    }
}

TEST(bad_names)
{
    static const char *const cases[] = {
        "",           ":",
        "@",          "x:",
        "x@",         "/x",
        "x/",         "a//b",
        "Python",     "a/B",
        "-x",         "x-",
        "x..y",       "x___y",
        "x y",        "../x",
        "x:a b",      "x:-a",
        "x:.a",       "x@sha256:12",
        ("x@md5:" HEX), "http://x/y",
        "a.b/",       "host:port/x",
        "host:0/x",   "host:99999/x",
        "-h.com/x",   "[zz]/x",
        "[::1/x",     "x\n",
        "x\x1b[0m",   "\xc3\xbc",
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_reference r = {0};
        ASSERT_FAILS(BOXLITE_E_INVALID, bx_reference_parse(cases[i], &r, ERR));
        ASSERT_CONTAINS(err_hint(), "NAME[:TAG]");
        ASSERT_NULL(strchr(err_message(), '\n'));
        ASSERT_NULL(strchr(err_message(), '\x1b'));
        ASSERT_NULL(r.path);
    }
}

TEST(long_names)
{
    char text[400];
    struct bx_reference r = {0};

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_reference_parse(text, &r, ERR));
    text[1] = ':';
    text[2 + 129] = '\0';
    ASSERT_FAILS(BOXLITE_E_INVALID, bx_reference_parse(text, &r, ERR));
    text[2 + 128] = '\0';
    ASSERT_OK(bx_reference_parse(text, &r, ERR));
    bx_reference_done(&r);
}

TEST(a_name_to_give_has_no_digest)
{
    char *name = NULL;

    ASSERT_FAILS(BOXLITE_E_INVALID, bx_reference_tag("x@sha256:" HEX, &name, ERR));
    ASSERT_OK(bx_reference_tag("x", &name, ERR));
    ASSERT_STREQ(name, "docker.io/library/x:latest");
    free(name);
}
