/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c: see commands.h. */
#include "cli/commands.h"

#include <string.h>

static const struct cli_command *const box_commands[] = {
    &cli_cmd_run,
    &cli_cmd_create,
    &cli_cmd_start,
    &cli_cmd_exec,
    &cli_cmd_attach,
    &cli_cmd_logs,
    &cli_cmd_cp,
    &cli_cmd_ls,
    &cli_cmd_inspect,
    &cli_cmd_wait,
    &cli_cmd_pause,
    &cli_cmd_unpause,
    &cli_cmd_kill,
    &cli_cmd_stop,
    &cli_cmd_rm,
    &cli_cmd_commit,
    NULL,
};
static const struct cli_command *const workspace_commands[] = {
    &cli_cmd_diff, &cli_cmd_apply, &cli_cmd_discard, &cli_cmd_undo, NULL,
};
static const struct cli_command *const image_commands[] = {
    &cli_cmd_pull,          &cli_cmd_push,          &cli_cmd_login,        &cli_cmd_logout,
    &cli_cmd_image_import,  &cli_cmd_image_load,    &cli_cmd_image_save,   &cli_cmd_image_ls,
    &cli_cmd_image_inspect, &cli_cmd_image_history, &cli_cmd_image_tag,    &cli_cmd_image_untag,
    &cli_cmd_image_rm,      &cli_cmd_image_prune,   &cli_cmd_image_verify, NULL,
};
static const struct cli_command *const kernel_commands[] = {
    &cli_cmd_kernel_import, &cli_cmd_kernel_build, &cli_cmd_kernel_ls, &cli_cmd_kernel_rm, NULL,
};
static const struct cli_command *const agent_commands[] = {
    &cli_cmd_mcp_install,
    NULL,
};
static const struct cli_command *const host_commands[] = {
    &cli_cmd_setup, &cli_cmd_doctor, &cli_cmd_info, &cli_cmd_version, &cli_cmd_help, NULL,
};

const struct cli_section cli_sections[] = {
    {"Boxes", box_commands},
    {"Workspaces", workspace_commands},
    {"Images", image_commands},
    {"Kernels", kernel_commands},
    {"Coding agents", agent_commands},
    {"This machine", host_commands},
    {0},
};

const struct cli_alias cli_aliases[] = {
    {"ps", "ls"},
    {"list", "ls"},
    {"resume", "unpause"},
    {"images", "image ls"},
    {"import", "image import"},
    {"load", "image load"},
    {"save", "image save"},
    {"history", "image history"},
    {"tag", "image tag"},
    {"untag", "image untag"},
    {"rmi", "image rm"},
    {"image pull", "pull"},
    {"image push", "push"},
    {"image list", "image ls"},
    {"kernel list", "kernel ls"},
    {0},
};

const struct cli_command *cli_command_by_name(const char *name)
{
    for (const struct cli_section *s = cli_sections; s->title; s++) {
        for (const struct cli_command *const *c = s->commands; *c; c++) {
            if (strcmp((*c)->name, name) == 0) {
                return *c;
            }
        }
    }
    for (const struct cli_alias *a = cli_aliases; a->name; a++) {
        if (strcmp(a->name, name) == 0) {
            return cli_command_by_name(a->command);
        }
    }
    return NULL;
}

static bool is_group(const char *word)
{
    size_t n = strlen(word);

    for (const struct cli_section *s = cli_sections; s->title; s++) {
        for (const struct cli_command *const *c = s->commands; *c; c++) {
            if (strncmp((*c)->name, word, n) == 0 && (*c)->name[n] == ' ') {
                return true;
            }
        }
    }
    return false;
}

const struct cli_command *cli_command_find(int argc, char *const *argv, int *ret_words,
                                           bool *ret_group)
{
    const struct cli_command *c;

    *ret_words = 1;
    *ret_group = is_group(argv[0]);
    c = cli_command_by_name(argv[0]);
    if (!c && *ret_group && argc > 1) {
        _cleanup_free_ char *both = cli_text("%s %s", argv[0], argv[1]);

        *ret_words = 2;
        c = cli_command_by_name(both);
    }
    return c;
}

void cli_command_sets(const struct cli_command *command, const struct cli_option *ret[CLI_SETS_MAX])
{
    size_t n = 0;

    for (const struct cli_option *const *s = command->sets; s && *s && n < CLI_SETS_MAX - 2; s++) {
        ret[n++] = *s;
    }
    ret[n++] = cli_global_options;
    ret[n] = NULL;
}

void cli_command_each(void (*fn)(const struct cli_command *command, void *data), void *data)
{
    for (const struct cli_section *s = cli_sections; s->title; s++) {
        for (const struct cli_command *const *c = s->commands; *c; c++) {
            fn(*c, data);
        }
    }
}
