/* SPDX-License-Identifier: Apache-2.0 */
/* imageconfig.c: see imageconfig.h. */
#include "cli/imageconfig.h"

#include "cli/boxspec.h"
#include "cli/errors.h"

static struct {
    struct cli_list entrypoint, command, labels;
    struct cli_process process;
} opt;

const struct cli_option cli_image_config_options[] = {
    {"entrypoint", 0, CLI_LIST, &opt.entrypoint, "WORD",
     "a word of its entrypoint; repeat for more"},
    {"cmd", 0, CLI_LIST, &opt.command, "WORD", "a word of its default command; repeat for more"},
    {"env", 'e', CLI_LIST, &opt.process.env, "NAME[=VALUE]", "environment of its commands"},
    {"workdir", 'w', CLI_TEXT, &opt.process.workdir, "DIR", "working directory of its commands"},
    {"user", 'u', CLI_TEXT, &opt.process.user, "USER[:GROUP]", "user of its commands"},
    {"label", 'l', CLI_LIST, &opt.labels, "NAME[=VALUE]", "attach a label"},
    {0},
};

static int add_env(void *to, const char *name, const char *value, boxlite_error **err)
{
    return boxlite_image_config_add_env(to, name, value, err);
}

static int add_label(void *to, const char *name, const char *value, boxlite_error **err)
{
    return boxlite_image_config_add_label(to, name, value, err);
}

static int set_texts(boxlite_image_config *c, boxlite_error **err)
{
    int r = 0;

    if (opt.entrypoint.count) {
        r = boxlite_image_config_set_entrypoint(c, opt.entrypoint.items, opt.entrypoint.count, err);
    }
    if (r == 0 && opt.command.count) {
        r = boxlite_image_config_set_command(c, opt.command.items, opt.command.count, err);
    }
    if (r == 0 && opt.process.workdir) {
        r = boxlite_image_config_set_workdir(c, opt.process.workdir, err);
    }
    if (r == 0 && opt.process.user) {
        r = boxlite_image_config_set_user(c, opt.process.user, err);
    }
    return r;
}

int cli_image_config(boxlite_image_config **ret)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_config_ boxlite_image_config *config = NULL;
    int status;

    if (boxlite_image_config_new(&config, &err) < 0 || set_texts(config, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    status = cli_each_env(&opt.process, add_env, config);
    status = status ? status : cli_each_label(&opt.labels, add_label, config);
    if (status == 0) {
        *ret = config;
        config = NULL;
    }
    return status;
}
