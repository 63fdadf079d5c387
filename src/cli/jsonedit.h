/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonedit.h: one member of an object of a JSON file that people write, set or taken out in its text: comments, order,
 * layout and numbers of all the rest stay as they are. Pure functions; they end the program when out of memory.
 */
#ifndef CLI_JSONEDIT_H
#define CLI_JSONEDIT_H

#include <jansson.h>

/* A JSON object with // and / * comments and trailing commas, or NULL. */
json_t *cli_json_read(const char *text);
/* The text with root[object][name] = value, or without that member if value is NULL; caller frees. NULL: the text is not
 * such an object, root[object] is none, or the edit would change anything else. */
char *cli_json_edit(const char *text, const char *object, const char *name, const json_t *value);

#endif
