/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folders.c: which host folders an environment may be given. None, unless the user names some: --allow-folder has folders
 * with commas between, ":ro" behind those that must not be written. A folder is looked at as it is after links are
 * followed, on both sides, and is let in if it is one of them or lies below one. What is handed on is the resolved path,
 * so that a link that is changed later means nothing.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strcmp(folder, "/") == 0 ||
           (strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

/* Takes ":ro" or ":rw" off the end of the text; true if it was ":ro". */
static bool take_mode(char *text)
{
    size_t n = strlen(text);
    bool ro = n > 3 && strcmp(text + n - 3, ":ro") == 0;
    if (ro || (n > 3 && strcmp(text + n - 3, ":rw") == 0)) {
        text[n - 3] = '\0';
    }
    return ro;
}

/* 0: not at all, 1: to be read, 2: to be written. */
static int rights(const char *rule, const char *real)
{
    _cleanup_free_ char *copy = strdup(rule ? rule : "");
    char *rest = copy, *item;
    int best = 0;

    while (copy && (item = strsep(&rest, ",")) != NULL) {
        bool ro = take_mode(item);
        char folder[PATH_MAX];
        if (*item == '/' && realpath(item, folder) && is_below(real, folder)) {
            best = !ro ? 2 : best > 1 ? best : 1;
        }
    }
    return best;
}

bool mcp_folders_writable(const struct mcp_options *o)
{
    _cleanup_free_ char *copy = strdup(o->allow_folder ? o->allow_folder : "");
    char *rest = copy, *item;
    bool writable = false;

    while (copy && (item = strsep(&rest, ",")) != NULL) {
        writable |= !take_mode(item) && *item;
    }
    return writable;
}

char *mcp_folder_allow(const struct mcp_options *o, const char *host, bool write, char **ret_why)
{
    char real[PATH_MAX];
    int right;

    *ret_why = NULL;
    if (*host != '/' || !realpath(host, real)) {
        *ret_why = mcp_printf("host folder %.300s: %s", host,
                              *host != '/' ? "not an absolute path" : "there is none");
        return NULL;
    }
    right = rights(o->allow_folder, real);
    if (right < (write ? 2 : 1)) {
        *ret_why = mcp_printf("host folder %.300s may not be %s (rule: --allow-folder %.300s)",
                              host, right > 0 ? "written: add :ro" : "used",
                              o->allow_folder ? o->allow_folder : "is not given");
        return NULL;
    }
    return strdup(real);
}

/* One of HOST:GUEST[:ro] as {"host", "guest", "ro"}. */
static json_t *parse_volume(const struct mcp_options *o, const char *text, char **ret_why)
{
    _cleanup_free_ char *copy = strdup(text), *host = NULL;
    bool ro = copy && take_mode(copy);
    char *colon = copy ? strchr(copy, ':') : NULL;

    if (!colon || colon[1] != '/') {
        *ret_why =
            mcp_printf("argument volumes: not HOST:GUEST[:ro] with absolute paths: %.300s", text);
        return NULL;
    }
    *colon = '\0';
    host = mcp_folder_allow(o, copy, !ro, ret_why);
    return host ? json_pack("{s:s, s:s, s:b}", "host", host, "guest", colon + 1, "ro", ro) : NULL;
}

json_t *mcp_volumes_parse(const struct mcp_options *o, const json_t *list, char **ret_why)
{
    json_t *all = json_array(), *item;
    size_t i;

    *ret_why = NULL;
    json_array_foreach(list, i, item)
    {
        json_t *volume = parse_volume(o, json_string_value(item), ret_why);
        if (!volume) {
            json_decref(all);
            return NULL;
        }
        json_array_append_new(all, volume);
    }
    return all;
}
