/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_guard.c: who may ask over HTTP. A web page that the user looks at can make the browser send requests to loopback;
 * it cannot choose Host and Origin freely (DNS rebinding), and it does not know the token. So on loopback both must
 * name loopback, and elsewhere the token is required. Pure functions.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

bool mcp_http_is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0;
}

bool mcp_http_address(const char *text, char *host, size_t size, uint16_t *ret_port)
{
    const char *colon = strrchr(text, ':');
    const char *end;
    char *stop = NULL;
    unsigned long port;
    size_t n;

    if (!colon || colon[1] < '0' || colon[1] > '9') {
        return false;
    }
    port = strtoul(colon + 1, &stop, 10);
    end = colon;
    if (*stop != '\0' || port > 65535) {
        return false;
    }
    if (*text == '[') {
        text++;
        if (end == text || *--end != ']') {
            return false;
        }
    } else if (memchr(text, ':', (size_t)(end - text))) {
        return false; /* an IPv6 address needs brackets */
    }
    n = (size_t)(end - text);
    if (n >= size || memchr(text, '[', n) || memchr(text, ']', n)) {
        return false;
    }
    snprintf(host, size, "%.*s", n > 0 ? (int)n : 9, n > 0 ? text : "127.0.0.1");
    *ret_port = (uint16_t)port;
    return true;
}

bool mcp_http_host_good(const char *host)
{
    char name[64];
    const char *start = host, *end;
    size_t n;

    if (!host) {
        return false;
    }
    if (*host == '[') {
        start = host + 1;
        end = strchr(start, ']');
        if (!end || (end[1] != '\0' && end[1] != ':')) {
            return false;
        }
    } else {
        end = host + strcspn(host, ":");
    }
    n = (size_t)(end - start);
    if (n >= sizeof(name)) {
        return false;
    }
    memcpy(name, start, n);
    name[n] = '\0';
    end += *end == ']';
    return mcp_http_is_loopback(name) && (*end == '\0' || strspn(end + 1, "0123456789") == strlen(end + 1));
}

bool mcp_http_origin_good(const char *origin)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(schemes); i++) {
        size_t n = strlen(schemes[i]);
        if (strncasecmp(origin, schemes[i], n) == 0) {
            return mcp_http_host_good(origin + n);
        }
    }
    return false;
}

bool mcp_http_token_good(const char *header, const char *token)
{
    size_t n = strlen(token), given;
    unsigned char differs = 0;

    if (!header || strncasecmp(header, "Bearer ", 7) != 0) {
        return false;
    }
    header += 7;
    given = strlen(header);
    for (size_t i = 0; i < given; i++) {
        differs |= (unsigned char)(header[i] ^ token[n > 0 ? i % n : 0]);
    }
    return given == n && n > 0 && differs == 0;
}
