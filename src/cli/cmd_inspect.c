/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_inspect.c: boxlite inspect: all that is known of boxes or images, as one JSON array. */
#include "cli/commands.h"
#include "cli/inspect.h"
#include "cli/output.h"

static const char *type = "any";
static bool vmm;

static const struct cli_option options[] = {
    {"type", 0, CLI_CHOICE, &type, "TYPE", "box, image or any (default: a box, else an image)",
     .choices = "any box image"},
    {"vmm", 0, CLI_FLAG, &vmm, NULL, "what the engine's process of a running box says of itself"},
    {0},
};

static int box_json(const char *name, char **ret, boxlite_error **err)
{
    _cleanup_box_ boxlite_box *box = NULL;
    const char *json;
    int r = boxlite_box_open(cli.rt, name, &box, err);

    r = r < 0 ? r : boxlite_box_json(box, &json, err);
    if (r == 0) {
        *ret = cli_text("%s", json);
    }
    return r;
}

static int vmm_json(const char *name, char **ret, boxlite_error **err)
{
    _cleanup_box_ boxlite_box *box = NULL;
    const char *json;
    int r = boxlite_box_open(cli.rt, name, &box, err);

    r = r < 0 ? r : boxlite_box_vmm_json(box, &json, err);
    if (r == 0) {
        *ret = cli_text("%s", json);
    }
    return r;
}

static int image_json(const char *name, char **ret, boxlite_error **err)
{
    _cleanup_image_ boxlite_image *image = NULL;
    int r = boxlite_image_open(cli.rt, name, &image, err);

    if (r == 0) {
        *ret = cli_text("%s", boxlite_image_json(image));
    }
    return r;
}

static int find(const char *name, char what, char **ret)
{
    _cleanup_error_ boxlite_error *err = NULL;
    int r = what == 'i'   ? image_json(name, ret, &err)
            : what == 'v' ? vmm_json(name, ret, &err)
                          : box_json(name, ret, &err);

    if (r == BOXLITE_E_NOT_FOUND && what == 'a') {
        boxlite_error_free(err);
        err = NULL;
        r = image_json(name, ret, &err);
        if (r == BOXLITE_E_NOT_FOUND) {
            return cli_error_hint("list them with: boxlite ls -a, boxlite image ls",
                                  "no box and no image '%s'", name);
        }
    }
    return r < 0 ? cli_fail(&err, NULL) : 0;
}

int cli_inspect(const struct cli_list *names, char what)
{
    char **objects = cli_alloc(names->count * sizeof(*objects));
    size_t n = 0;
    int status = cli_open();

    for (size_t i = 0; cli.rt && i < names->count; i++) {
        int r = find(names->items[i], what, &objects[n]);

        n += r == 0;
        status = status ? status : r;
    }
    if (cli.rt) {
        _cleanup_free_ char *text = cli_json_array(objects, n);

        if (text) {
            puts(text);
        } else {
            status = cli_error("the library's description is not JSON");
        }
    }
    while (n > 0) {
        free(objects[--n]);
    }
    free(objects);
    return status;
}

static int run(const struct cli_list *operands)
{
    return cli_inspect(operands, vmm ? 'v' : type[0]);
}

static const struct cli_option *const sets[] = {options, NULL};

const struct cli_command cli_cmd_inspect = {
    .name = "inspect",
    .args = "NAME...",
    .summary = "show all that is known of boxes or images",
    .about = "Prints a JSON array with one object for each box or image that is named.",
    .examples = "boxlite inspect work\n"
                "boxlite inspect --type image boxlite/base:bookworm\n"
                "boxlite inspect --vmm work",
    .sets = sets,
    .min = 1,
    .max = CLI_ANY,
    .first = CLI_W_BOX,
    .rest = CLI_W_BOX,
    .run = run,
};
