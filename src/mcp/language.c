/* SPDX-License-Identifier: Apache-2.0 */
/*
 * language.c: how code in each language is run. An interpreter gets the file; a compiler builds a program into a cache
 * inside the environment, named by the digest of source and command, so that the same code is built once. The table
 * (languages.def, and config.toml) also knows by name which images have a language: the first of them that is local serves calls that
 * name no environment and find nothing in the default one.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define LANGUAGE(names, extension, tools, how, images) {names, extension, tools, how, images},
static const struct mcp_language built_in[] = {
#include "mcp/languages.def"
};
#undef LANGUAGE

#define LANGUAGE_SCRIPT(text) const char mcp_language_script[] = text;
#include "mcp/languages.def"

/* ---- The table, and what config.toml changes in it */

#define OWNED_MAX 6

struct entry {
    struct mcp_language language;
    char *owned[OWNED_MAX]; /* what came from the file */
    size_t nowned;
};

struct mcp_languages {
    struct entry entries[MCP_LANGUAGES_MAX];
    size_t n;
};

int mcp_languages_new(struct mcp_languages **ret)
{
    struct mcp_languages *all = calloc(1, sizeof(*all));
    if (!all) {
        return -1;
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(built_in); i++) {
        all->entries[all->n++].language = built_in[i];
    }
    *ret = all;
    return 0;
}

void mcp_languages_free(struct mcp_languages *all)
{
    for (size_t i = 0; all && i < all->n; i++) {
        for (size_t k = 0; k < all->entries[i].nowned; k++) {
            free(all->entries[i].owned[k]);
        }
    }
    free(all);
}

static bool has_name(const struct mcp_language *l, const char *name)
{
    for (size_t k = 0; k < BX_ARRAY_SIZE(l->names) && l->names[k]; k++) {
        if (strcasecmp(l->names[k], name) == 0) {
            return true;
        }
    }
    return false;
}

const struct mcp_language *mcp_languages_find(const struct mcp_languages *all, const char *name)
{
    for (size_t i = 0; i < all->n; i++) {
        if (has_name(&all->entries[i].language, name)) {
            return &all->entries[i].language;
        }
    }
    return NULL;
}

char *mcp_languages_names(const struct mcp_languages *all)
{
    char *list = strdup("");
    for (size_t i = 0; list && i < all->n; i++) {
        char *longer = mcp_printf("%s%s%s", list, i ? ", " : "", all->entries[i].language.names[0]);
        free(list);
        list = longer;
    }
    return list;
}

/* Keeps the text for the entry; NULL: too many or no memory. */
static char *own(struct entry *e, char *take)
{
    if (take && e->nowned < OWNED_MAX) {
        return e->owned[e->nowned++] = take;
    }
    free(take);
    return NULL;
}

static char *set_file(struct entry *e, const char *value)
{
    const char *extension = value + strlen("main.");
    if (strncmp(value, "main.", 5) != 0 || !*extension ||
        strspn(extension, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != strlen(extension)) {
        return mcp_printf("file: not main.EXT: %.40s", value);
    }
    e->language.extension = own(e, strdup(extension));
    return e->language.extension ? NULL : mcp_printf("file: given twice");
}

/* The first word is the tool. More than that is for the shell: with the file at its end unless it names $file. */
static char *set_command(struct entry *e, const char *value)
{
    size_t first = strcspn(value, " "), rest = first + strspn(value + first, " ");
    bool builds = strstr(value, "$out") != NULL;

    if (first == 0) {
        return mcp_printf("command: empty");
    }
    e->language.tools = own(e, strndup(value, first));
    e->language.how = NULL;
    if (value[rest]) {
        e->language.how = own(e, mcp_printf("%s\"$t\" %s%s", builds ? "" : "exec ", value + rest,
                                            strstr(value, "$file") ? "" : " \"$file\""));
    }
    return e->language.tools && (e->language.how || !value[rest]) ? NULL : mcp_printf("command: given twice");
}

static char *set_images(struct entry *e, const char *value)
{
    char *rest = own(e, strdup(value));
    size_t n = 0;

    memset(e->language.images, 0, sizeof(e->language.images));
    while (rest && *rest) {
        if (n == BX_ARRAY_SIZE(e->language.images)) {
            return mcp_printf("images: more than %zu", n);
        }
        e->language.images[n++] = strsep(&rest, ",");
    }
    return n > 0 ? NULL : mcp_printf("images: none, or given twice");
}

static struct entry *entry_of(struct mcp_languages *all, const char *name)
{
    struct entry *e;
    for (size_t i = 0; i < all->n; i++) {
        if (has_name(&all->entries[i].language, name)) {
            return &all->entries[i];
        }
    }
    if (all->n == MCP_LANGUAGES_MAX) {
        return NULL;
    }
    e = &all->entries[all->n];
    e->language.names[0] = own(e, strdup(name));
    all->n += e->language.names[0] != NULL;
    return e->language.names[0] ? e : NULL;
}

char *mcp_languages_set(struct mcp_languages *all, const char *name, const char *key, const char *value)
{
    static const struct {
        const char *key;
        char *(*set)(struct entry *e, const char *value);
    } keys[] = {{"file", set_file}, {"command", set_command}, {"images", set_images}};
    struct entry *e = entry_of(all, name);
    const char *near;

    if (!e) {
        return mcp_printf("more than %u languages", MCP_LANGUAGES_MAX);
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(keys); i++) {
        if (strcmp(keys[i].key, key) == 0) {
            return keys[i].set(e, value);
        }
    }
    near = mcp_nearest(key, (const char *const[]){"file", "command", "images", NULL});
    return mcp_printf("unknown key %s (%s%s)", key, near ? "did you mean " : "", near ? near : "file, command or images");
}

char *mcp_languages_wrong(const struct mcp_languages *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct mcp_language *l = &all->entries[i].language;
        if (!l->extension || !l->tools) {
            return mcp_printf("language %s needs file and command", l->names[0]);
        }
    }
    return NULL;
}

/* ---- Images that have one */

static const char *name_with_prefix(const boxlite_image *image, const char *prefix)
{
    for (size_t i = 0; i < boxlite_image_name_count(image); i++) {
        const char *name = boxlite_image_name(image, i);
        const char *found = strstr(name, prefix);
        if (found == name || (found && found[-1] == '/')) { /* with or without a registry's name */
            return name;
        }
    }
    return NULL;
}

/* As people say it, which is also what rules about images are written for. */
static const char *familiar(const char *name)
{
    static const char *const left_out[] = {"docker.io/library/", "docker.io/"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(left_out); i++) {
        if (strncmp(name, left_out[i], strlen(left_out[i])) == 0) {
            return name + strlen(left_out[i]);
        }
    }
    return name;
}

char *mcp_language_image(struct mcp_server *s, const struct mcp_language *language)
{
    boxlite_runtime *rt = mcp_server_runtime(s, NULL);
    boxlite_image_list *list = NULL;
    char *found = NULL;

    if (!rt || boxlite_image_list_new(rt, &list, NULL) < 0) {
        return NULL;
    }
    for (size_t k = 0; k < BX_ARRAY_SIZE(language->images) && language->images[k] && !found; k++) {
        for (size_t i = 0; i < boxlite_image_list_count(list) && !found; i++) {
            const char *name =
                name_with_prefix(boxlite_image_list_get(list, i), language->images[k]);
            found = name ? strdup(familiar(name)) : NULL;
        }
    }
    boxlite_image_list_free(list);
    return found;
}
