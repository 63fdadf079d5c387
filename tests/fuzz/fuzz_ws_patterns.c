/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ws_patterns.c: a file of ignore patterns and a file of gate rules, and paths against them. They end, in bounded time,
 * with an answer. The first line is the path, the rest the file.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/workspace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void rules(const char *text, char *path)
{
    struct bx_ws_rules *r = NULL;
    boxlite_error *err = NULL;
    struct bx_ws_change c = {.kind = BX_WS_ADDED,
                             .path = path,
                             .fresh = {.type = BX_WS_LINK},
                             .target = path,
                             .file = -1};
    struct bx_ws_changes list = {.v = &c, .n = 1};
    struct bx_strv none = {.max = 1};
    if (bx_ws_rules_new(&r, NULL) < 0) {
        return;
    }
    int k = bx_ws_rules_parse(r, text, &err);
    if ((k < 0) != (err != NULL)) {
        abort();
    }
    if (k == 0 && bx_ws_gate(r, &list, &none, NULL) == 0 && *path == '/' && !c.rule &&
        !strstr(text, "off")) {
        abort(); /* an absolute link leads out */
    }
    free(c.rule);
    free(c.allow);
    boxlite_error_free(err);
    bx_ws_rules_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bx_ws_ignore *ig = NULL;
    char *text = malloc(size + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    char *rest = strchr(text, '\n');
    if (rest) {
        *rest++ = '\0';
        rules(rest, text);
        if (bx_ws_ignore_new(rest, &ig, NULL) == 0) {
            (void)bx_ws_ignored(ig, text, false);
            (void)bx_ws_ignored(ig, text, true);
            bx_ws_ignore_free(ig);
        }
        (void)bx_ws_match(rest, text);
    }
    free(text);
    return 0;
}
