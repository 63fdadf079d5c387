/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mcp_http_guard.c: who may ask over HTTP.
 */
#include "harness.h"
#include "mcp/mcp.h"

TEST(addresses)
{
    static const struct {
        const char *text, *host;
        unsigned port;
    } good[] = {{"127.0.0.1:80", "127.0.0.1", 80}, {"[::1]:0", "::1", 0}, {":8080", "127.0.0.1", 8080},
                {"localhost:65535", "localhost", 65535}, {"0.0.0.0:1", "0.0.0.0", 1}};
    static const char *const bad[] = {"", ":", "80", "localhost", "::1:80", "[::1:80", "]:80", "a:b", "a:65536", "a:-1", "a:8 "};
    char host[64];
    uint16_t port;

    for (size_t i = 0; i < BX_ARRAY_SIZE(good); i++) {
        ASSERT(mcp_http_address(good[i].text, host, sizeof(host), &port));
        ASSERT_STREQ(host, good[i].host);
        ASSERT_EQ(port, good[i].port);
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT(!mcp_http_address(bad[i], host, sizeof(host), &port));
    }
    ASSERT(!mcp_http_address("long.example.org:1", host, 5, &port));
}

TEST(hosts_and_origins_are_loopback_or_refused)
{
    static const char *const hosts[] = {"localhost", "localhost:1234", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "[::1]"};
    static const char *const bad[] = {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil:80", "[::1", "[::1]x",
                                      "localhost:80@evil", "localhost:x", "[::2]:80", "127.0.0.2", "0.0.0.0"};
    ASSERT(!mcp_http_host_good(NULL));
    for (size_t i = 0; i < BX_ARRAY_SIZE(hosts); i++) {
        ASSERT(mcp_http_host_good(hosts[i]));
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        ASSERT(!mcp_http_host_good(bad[i]));
    }
    ASSERT(mcp_http_origin_good("http://localhost:6274") && mcp_http_origin_good("https://127.0.0.1"));
    ASSERT(!mcp_http_origin_good("null") && !mcp_http_origin_good("http://evil.example") &&
           !mcp_http_origin_good("file://localhost") && !mcp_http_origin_good("http://localhost:1/path@x"));
}

TEST(tokens)
{
    ASSERT(mcp_http_token_good("Bearer abc", "abc") && mcp_http_token_good("bearer abc", "abc"));
    ASSERT(!mcp_http_token_good(NULL, "abc") && !mcp_http_token_good("abc", "abc") &&
           !mcp_http_token_good("Bearer ab", "abc") && !mcp_http_token_good("Bearer abcabc", "abc") &&
           !mcp_http_token_good("Bearer ", "abc") && !mcp_http_token_good("Bearer ", "") &&
           !mcp_http_token_good("Basic abc", "abc"));
}
