/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_image_save.c: boxlite image save. A file is written under another name and renamed when it is whole, so that an older archive is
 * never lost to a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/progress.h"

static struct {
    const char *output, *format;
} opt = {.format = "docker"};

static const struct cli_option options[] = {
    {"output", 'o', CLI_TEXT, &opt.output, "FILE", "write to a file (default: standard output)",
     .words = CLI_W_FILE},
    {"format", 0, CLI_CHOICE, &opt.format, "FORMAT",
     "docker (default), which `docker load` reads as well, or oci", .choices = "docker oci"},
    {0},
};

static int save(const struct cli_list *images, int fd)
{
    _cleanup_error_ boxlite_error *err = NULL;
    int format = strcmp(opt.format, "oci") == 0 ? BOXLITE_ARCHIVE_OCI : BOXLITE_ARCHIVE_DOCKER;

    if (boxlite_image_save(cli.rt, images->items, images->count, format, fd, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_progress_clear();
    return 0;
}

static int save_to_file(const struct cli_list *images)
{
    _cleanup_free_ char *part = cli_text("%s.%ld.part", opt.output, (long)getpid());
    struct stat st;
    bool device = stat(opt.output, &st) == 0 && !S_ISREG(st.st_mode);
    int fd = device ? open(opt.output, O_WRONLY | O_CLOEXEC)
                    : open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int status;

    if (fd < 0) {
        return cli_error("%s: %s", opt.output, strerror(errno));
    }
    status = save(images, fd);
    if (close(fd) < 0 && !status) {
        status = cli_error("%s: %s", opt.output, strerror(errno));
    }
    if (!device && !status && rename(part, opt.output) < 0) {
        status = cli_error("%s: %s", opt.output, strerror(errno));
    }
    if (!device && status) {
        (void)unlink(part);
    }
    return status;
}

static int run(const struct cli_list *operands)
{
    int status;

    if (!opt.output && isatty(STDOUT_FILENO)) {
        return cli_error_hint("give a file with -o FILE, or redirect it",
                              "image save: an archive is not written to a terminal");
    }
    status = cli_open();
    if (status) {
        return status;
    }
    return opt.output ? save_to_file(operands) : save(operands, STDOUT_FILENO);
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_image_save = {
    .name = "image save",
    .args = "IMAGE...",
    .summary = "write images as an archive",
    .about =
        "Writes images with all their layers as one tar archive: an OCI image layout, by default with what "
        "\"docker load\" and \"podman load\" look for. The same images make the same bytes.",
    .examples = "boxlite image save my/image:1 -o image.tar\n"
                "boxlite save my/image:1 | ssh HOST boxlite load",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_IMAGE,
    .rest = CLI_W_IMAGE,
    .run = run,
};
