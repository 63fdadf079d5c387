/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h: the table of commands. A command of two words ("image ls") belongs to the group of its first word.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/cli.h"

#define CLI_SETS_MAX 8

struct cli_section {
    const char *title;
    const struct cli_command *const *commands; /* NULL at the end */
};
extern const struct cli_section cli_sections[]; /* title NULL at the end */

struct cli_alias {
    const char *name, *command;
};
extern const struct cli_alias cli_aliases[]; /* name NULL at the end */

/* Finds the command that argv[0..argc) begins with, and how many words its name took. NULL: none; *ret_group then says
 * whether the first word is a group. */
const struct cli_command *cli_command_find(int argc, char *const *argv, int *ret_words,
                                           bool *ret_group);
const struct cli_command *cli_command_by_name(const char *name);
/* The command's option tables with the global ones behind them. */
void cli_command_sets(const struct cli_command *command,
                      const struct cli_option *ret[CLI_SETS_MAX]);
/* Calls fn for each command. */
void cli_command_each(void (*fn)(const struct cli_command *command, void *data), void *data);

/* help.c */
void cli_help_all(FILE *f);
void cli_help_group(FILE *f, const char *group);
void cli_help_command(FILE *f, const struct cli_command *command);

/* complete.c: what could stand where the last word is, one a line. */
int cli_complete(int argc, char *const *argv);

extern const struct cli_command cli_cmd_diff, cli_cmd_apply, cli_cmd_discard, cli_cmd_undo;
extern const struct cli_command cli_cmd_run, cli_cmd_commit, cli_cmd_create, cli_cmd_start,
    cli_cmd_exec, cli_cmd_attach, cli_cmd_stop, cli_cmd_kill, cli_cmd_rm, cli_cmd_ls,
    cli_cmd_inspect, cli_cmd_logs, cli_cmd_cp, cli_cmd_pause, cli_cmd_unpause, cli_cmd_wait,
    cli_cmd_image_ls, cli_cmd_image_import, cli_cmd_pull, cli_cmd_push, cli_cmd_login,
    cli_cmd_logout, cli_cmd_image_load, cli_cmd_image_rm, cli_cmd_image_inspect, cli_cmd_image_save,
    cli_cmd_image_history, cli_cmd_image_tag, cli_cmd_image_untag, cli_cmd_image_prune,
    cli_cmd_image_verify, cli_cmd_kernel_import, cli_cmd_kernel_build, cli_cmd_kernel_ls,
    cli_cmd_kernel_rm, cli_cmd_mcp_install, cli_cmd_doctor, cli_cmd_info, cli_cmd_version,
    cli_cmd_help, cli_cmd_setup;

#endif
