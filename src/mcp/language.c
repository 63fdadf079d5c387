/* SPDX-License-Identifier: Apache-2.0 */
/*
 * language.c: how code in each language is run. An interpreter gets the file; a compiler builds a program into a cache
 * inside the environment, named by the digest of source and command, so that the same code is built once. The table
 * (languages.def) also knows by name which images have a language: the first of them that is local serves calls that
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
static const struct mcp_language languages[] = {
#include "mcp/languages.def"
};
#undef LANGUAGE

#define LANGUAGE_SCRIPT(text) const char mcp_language_script[] = text;
#include "mcp/languages.def"

const struct mcp_language *mcp_language_find(const char *name)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(languages); i++) {
        for (size_t k = 0; k < BX_ARRAY_SIZE(languages[i].names) && languages[i].names[k]; k++) {
            if (strcasecmp(languages[i].names[k], name) == 0) {
                return &languages[i];
            }
        }
    }
    return NULL;
}

char *mcp_language_names(void)
{
    char *all = strdup("");
    for (size_t i = 0; all && i < BX_ARRAY_SIZE(languages); i++) {
        char *longer = mcp_printf("%s%s%s", all, i ? ", " : "", languages[i].names[0]);
        free(all);
        all = longer;
    }
    return all;
}

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
