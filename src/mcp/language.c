/* SPDX-License-Identifier: Apache-2.0 */
/*
 * language.c: how code in each language is run. An interpreter gets the file; a compiler builds a program into a cache
 * inside the environment, named by the digest of source and command, so that the same code is built once. The table
 * also knows by name which images have a language: the first of them that is local serves calls that name no
 * environment and find nothing in the default one.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

/* `how` is for the shell: $t the tool found, $1 the file, $out the program to build. A line with $out builds. */
static const struct mcp_language languages[] = {
    {{"python", "python3", "py"}, "py", "python3 python", NULL, {"python:"}},
    {{"javascript", "node", "js"}, "js", "node nodejs bun", NULL, {"node:"}},
    {{"typescript", "ts"}, "ts", "bun tsx ts-node node", "case $t in node) exec $t --experimental-strip-types \"$1\";; "
     "*) exec $t \"$1\";; esac", {"oven/bun:", "node:"}},
    {{"bash"}, "sh", "bash", NULL, {"bash:", "debian:"}},
    {{"sh", "shell"}, "sh", "sh", NULL, {"alpine:", "debian:"}},
    {{"perl"}, "pl", "perl", NULL, {"perl:"}},
    {{"ruby", "rb"}, "rb", "ruby", NULL, {"ruby:"}},
    {{"php"}, "php", "php", NULL, {"php:"}},
    {{"lua"}, "lua", "lua lua5.4 lua5.3 luajit", NULL, {"nickblah/lua:"}},
    {{"r"}, "R", "Rscript", NULL, {"r-base:", "rocker/r-ver:"}},
    {{"go", "golang"}, "go", "go", "$t build -o \"$out\" \"$1\"", {"golang:"}},
    {{"rust", "rs"}, "rs", "rustc", "$t -O -o \"$out\" \"$1\"", {"rust:"}},
    {{"c"}, "c", "gcc cc clang tcc", "$t -O1 -o \"$out\" \"$1\" -lm", {"gcc:", "buildpack-deps:"}},
    {{"c++", "cpp", "cxx"}, "cpp", "g++ c++ clang++", "$t -O1 -o \"$out\" \"$1\"", {"gcc:", "buildpack-deps:"}},
    {{"java"}, "java", "java", NULL, {"eclipse-temurin:", "openjdk:"}},
};

/* Processes are what costs time in a small VM: a short text is taken by the shell itself ($5), a long one by cat, since
 * the shell reads byte by byte. Falls back to /tmp where the image's user may not make /workspace. */
const char mcp_language_script[] =
    "[ -d /workspace ] || mkdir -p /workspace 2>/dev/null\n"
    "cd /workspace 2>/dev/null && [ -w . ] || cd /tmp || exit 126\n"
    "if [ -n \"$5\" ]; then while IFS= read -r line; do printf '%s\\n' \"$line\"; done; printf %s \"$line\"\n"
    "else cat; fi > \"$1\" || exit 126\n"
    "in=${4:-/dev/null}; : ${HOME:=/tmp}; export HOME\n"
    "for t in $2; do\n"
    "  command -v \"$t\" >/dev/null || continue\n"
    "  [ -n \"$3\" ] || exec \"$t\" \"$1\" <\"$in\"\n"
    "  case $3 in *'$out'*) ;; *) eval \"$3\" <\"$in\"; exit;; esac\n"
    "  cache=/var/tmp/boxlite-build; mkdir -p $cache 2>/dev/null && [ -w $cache ] || cache=/tmp\n"
    "  key=$( (echo \"$t $3\"; cat \"$1\") | { sha256sum 2>/dev/null || cksum; } | cut -d' ' -f1)\n"
    "  out=$cache/$key\n"
    "  if [ ! -x \"$out\" ]; then\n"
    "    final=$out; out=$out.$$; eval \"$3\" </dev/null || { s=$?; rm -f \"$out\"; exit $s; }\n"
    "    mv \"$out\" \"$final\"; out=$final\n"
    "  fi\n"
    "  exec \"$out\" <\"$in\"\n"
    "done\n"
    "echo \"" MCP_NO_TOOL "$2\" >&2; exit 127\n";

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
            const char *name = name_with_prefix(boxlite_image_list_get(list, i), language->images[k]);
            found = name ? strdup(familiar(name)) : NULL;
        }
    }
    boxlite_image_list_free(list);
    return found;
}
