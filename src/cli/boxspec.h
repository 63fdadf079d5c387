/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxspec.h: the options that say what a box is, shared by run and create, and those that say how a command runs, shared with
 * exec too.
 */
#ifndef CLI_BOXSPEC_H
#define CLI_BOXSPEC_H

#include "cli/options.h"

/* -i -t -e --env-file -w -u --timeout */
struct cli_process {
    bool interactive, tty;
    struct cli_list env, env_files;
    const char *workdir, *user;
    uint64_t timeout_ms;
};
extern struct cli_process cli_process;
extern const struct cli_option cli_process_options[];

/* --name --rm --cpus … */
struct cli_box {
    const char *name, *hostname, *network, *engine, *kernel, *entrypoint;
    struct cli_list labels, volumes, mounts, workspaces;
    uint64_t cpus, memory, disk;
    bool remove, idle;
    const char *pull; /* missing, always, never */
};
extern struct cli_box cli_box;
extern const struct cli_option cli_box_options[];

/* NAME=VALUE into its parts (caller frees both); NAME alone takes the value from our environment: 1 if it has none. -1: no
 * name, told. */
int cli_split_env(const char *text, char **ret_name, char **ret_value);
/* Calls fn for each variable of the options, files first. 0 or an exit status. */
typedef int (*cli_env_fn)(void *to, const char *name, const char *value, boxlite_error **err);
int cli_each_env(const struct cli_process *process, cli_env_fn fn, void *to);
/* NAME=VALUE or NAME: value "". */
int cli_each_label(const struct cli_list *labels, cli_env_fn fn, void *to);

/* Fetches the image that the operands name, as --pull says; its name there becomes the one it was found under. 0 or an exit
 * status. */
int cli_box_image(const struct cli_list *operands);
/* Makes the library's options of all of the above and the operands IMAGE [COMMAND...]. 0 or an exit status. */
int cli_box_spec(const struct cli_list *operands, bool detached, boxlite_box_options **ret);

#endif
