/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image_import.c: boxlite image import: an image from the tar of a root file system. */
#include <string.h>

#include "cli/boxspec.h"
#include "cli/commands.h"
#include "cli/progress.h"

static struct {
    struct cli_list entrypoint, command, labels;
    struct cli_process process;
} opt;

static const struct cli_option options[] = {
    {"entrypoint", 0, CLI_LIST, &opt.entrypoint, "WORD",
     "a word of its entrypoint; repeat for more"},
    {"cmd", 0, CLI_LIST, &opt.command, "WORD", "a word of its default command; repeat for more"},
    {"env", 'e', CLI_LIST, &opt.process.env, "NAME[=VALUE]", "environment of its commands"},
    {"workdir", 'w', CLI_TEXT, &opt.process.workdir, "DIR",
     "working directory of its commands (default: /)"},
    {"user", 'u', CLI_TEXT, &opt.process.user, "USER[:GROUP]",
     "user of its commands (default: root)"},
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

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_image_config_ boxlite_image_config *config = NULL;
    _cleanup_image_ boxlite_image *image = NULL;
    int status;

    if (boxlite_image_config_new(&config, &err) < 0 || set_texts(config, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    status = cli_each_env(&opt.process, add_env, config);
    status = status ? status : cli_each_label(&opt.labels, add_label, config);
    status = status ? status : cli_open();
    if (status) {
        return status;
    }
    if (boxlite_image_import(cli.rt, operands->items[0], operands->items[1], config, &image, &err) <
        0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    puts(boxlite_image_digest(image));
    return 0;
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_image_import = {
    .name = "image import",
    .args = "FILE|- NAME[:TAG]",
    .summary = "make an image from a tar of a root file system",
    .about =
        "Makes an image from a tar archive (plain, gzip or zstd) of a root file system; \"-\" reads standard input. "
        "The options say how its commands start. Prints the image's digest.",
    .examples = "boxlite image import rootfs.tar.gz my/image:1 --cmd /bin/sh\n"
                "docker export CONTAINER | boxlite image import - my/image -e LANG=C.UTF-8",
    .sets = sets,
    .min = 2,
    .max = 2,
    .first = CLI_W_FILE,
    .run = run,
};
