/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cp.c: boxlite cp: Docker's rules for what is a box and what is a file. */
#include <string.h>

#include "cli/commands.h"

static bool archive;

static const struct cli_option options[] = {
    {"archive", 'a', CLI_FLAG, &archive, NULL,
     "into a box: keep the owners' numbers (default: all belongs to the box' user)"},
    {0},
};

struct place {
    char *box; /* NULL: here */
    const char *path;
};

static void place_done(struct place *p)
{
    free(p->box);
}

/* "BOX:PATH"; a colon behind a slash or a leading dot belongs to a file's name. */
static void place_parse(const char *text, struct place *ret)
{
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/');

    *ret = (struct place){.path = text};
    if (colon && colon != text && text[0] != '.' && (!slash || slash > colon)) {
        ret->box = cli_copy(text, (size_t)(colon - text));
        ret->path = colon + 1;
    }
}

static int check(const struct place *from, const struct place *to)
{
    if (!from->box == !to->box) {
        return cli_error_hint("write BOX:PATH for the one, a file for the other",
                              "cp: copies between a box and this machine: one side must be "
                              "BOX:PATH");
    }
    if (!*(to->box ? to : from)->path) {
        return cli_error_hint("write BOX:PATH", "cp: the path in the box is missing");
    }
    if (from->box && strcmp(to->path, "-") == 0 && isatty(STDOUT_FILENO)) {
        return cli_error_hint("send it to a file or a pipe",
                              "cp: a tar archive is nothing for a terminal");
    }
    return 0;
}

static int copy(const struct place *from, const struct place *to)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_ boxlite_box *box = NULL;
    bool in = to->box != NULL;
    bool tar = strcmp(in ? from->path : to->path, "-") == 0;
    const char *guest = in ? to->path : from->path;
    int status, r;

    status = cli_open_box(in ? to->box : from->box, &box);
    if (status) {
        return status;
    }
    if (in) {
        r = tar       ? boxlite_box_copy_in_tar(box, STDIN_FILENO, guest, &err)
            : archive ? boxlite_box_copy_in_owner(box, from->path, guest, "", &err)
                      : boxlite_box_copy_in(box, from->path, guest, &err);
    } else {
        r = tar ? boxlite_box_copy_out_tar(box, guest, STDOUT_FILENO, &err)
                : boxlite_box_copy_out(box, guest, to->path, &err);
    }
    return r < 0 ? cli_fail(&err, NULL) : 0;
}

static int run(const struct cli_list *operands)
{
    struct place from, to;
    int status;

    place_parse(operands->items[0], &from);
    place_parse(operands->items[1], &to);
    status = check(&from, &to);
    status = status ? status : cli_open();
    status = status ? status : copy(&from, &to);
    place_done(&from);
    place_done(&to);
    return status;
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_cp = {
    .name = "cp",
    .args = "BOX:PATH FILE|- | FILE|- BOX:PATH",
    .summary = "copy files between a box and this machine",
    .about =
        "Copies a file or a folder with all in it, into an existing folder or to that name. Modes, times and symbolic "
        "links are kept; owners become you here and the box' user there. A box that does not run is started for it without its "
        "command, and stopped after. \"-\" reads or writes a tar archive. A file "
        "name with a colon is written ./NAME.",
    .examples = "boxlite cp src work:/root\n"
                "boxlite cp work:/root/result.txt .\n"
                "boxlite cp work:/etc - | tar t",
    .sets = sets,
    .min = 2,
    .max = 2,
    .first = CLI_W_COPY,
    .rest = CLI_W_COPY,
    .run = run,
};
