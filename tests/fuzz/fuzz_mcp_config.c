/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_mcp_config.c: any bytes as config.toml: entries have a key and bounded text, and it ends with a reason or without.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *on_entry(void *data, unsigned line, const char *section, const char *key, const char *value)
{
    (void)data;
    if (line == 0 || key[0] == '\0' || strlen(section) > 200 || strlen(value) > 4096) {
        abort();
    }
    return strcmp(key, "refused") == 0 ? strdup("no") : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *wrong = mcp_config_parse((const char *)data, size, on_entry, NULL);
    if (wrong && strncmp(wrong, "line ", 5) != 0) {
        abort();
    }
    free(wrong);
    return 0;
}
