/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_cli_jsonedit.c: a member set in any text and taken out again: what is read then is what was there, and comments are
 * where they were.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/jsonedit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *with, *without;
    json_t *value = json_pack("{s:s, s:[]}", "command", "c", "args"), *before, *after;

    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    before = cli_json_read(text);
    with = cli_json_edit(text, "mcp", "boxlite", value);
    if (with) {
        after = cli_json_read(with);
        require(json_equal(json_object_get(json_object_get(after, "mcp"), "boxlite"), value));
        json_decref(after);
        without = cli_json_edit(with, "mcp", "boxlite", NULL);
        require(without != NULL);
        after = cli_json_read(without);
        json_object_del(json_object_get(before, "mcp"), "boxlite");
        require(json_equal(json_object_get(after, "mcp"), json_object_get(before, "mcp")) ||
                !json_object_get(before, "mcp"));
        json_decref(after);
        free(without);
    }
    json_decref(before);
    json_decref(value);
    free(with);
    free(text);
    return 0;
}
