/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ls.c: boxlite ls. */
#include <string.h>

#include "cli/commands.h"
#include "cli/output.h"

static bool all;
static struct cli_list wanted;

static const struct cli_option options[] = {
    {"all", 'a', CLI_FLAG, &all, NULL, "also boxes that do not run"},
    {"label", 'l', CLI_LIST, &wanted, "NAME[=VALUE]", "only boxes with this label"},
    {0},
};

static const struct cli_column columns[] = {
    {"ID", "id"},         {"NAME", "name"},       {"IMAGE", "image"}, {"STATE", "state"},
    {"ENGINE", "engine"}, {"CREATED", "created"}, {NULL, "labels"},
};

static bool has_label(const boxlite_box *box, const char *label)
{
    const char *equals = strchr(label, '=');
    size_t n = equals ? (size_t)(equals - label) : strlen(label);

    for (size_t i = 0; i < boxlite_box_label_count(box); i++) {
        const char *name = boxlite_box_label_name(box, i);

        if (strlen(name) == n && memcmp(name, label, n) == 0) {
            return !equals || strcmp(boxlite_box_label_value(box, i), equals + 1) == 0;
        }
    }
    return false;
}

static bool is_wanted(const boxlite_box *box)
{
    for (size_t i = 0; i < wanted.count; i++) {
        if (!has_label(box, wanted.items[i])) {
            return false;
        }
    }
    return true;
}

static char *labels_text(const boxlite_box *box)
{
    char *text = cli_text("%s", "");

    for (size_t i = 0; i < boxlite_box_label_count(box); i++) {
        char *longer = cli_text("%s%s%s=%s", text, i ? "," : "", boxlite_box_label_name(box, i),
                                boxlite_box_label_value(box, i));
        free(text);
        text = longer;
    }
    return text;
}

static void add_row(struct cli_table *t, const boxlite_box *box, int state)
{
    _cleanup_free_ char *labels = labels_text(box);

    cli_cell_text(t, boxlite_box_id(box));
    cli_cell_text(t, boxlite_box_name(box));
    cli_cell_text(t, boxlite_box_image(box));
    cli_cell_text(t, boxlite_box_state_name(state));
    cli_cell_text(t, boxlite_box_engine(box));
    cli_cell_age(t, boxlite_box_created(box));
    cli_cell_text(t, labels);
}

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_box_list_ boxlite_box_list *list = NULL;
    struct cli_table t;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_box_list_new(cli.rt, &list, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    cli_table_init(&t, columns, CLI_COUNT(columns));
    for (size_t i = boxlite_box_list_count(list); i-- > 0;) { /* the newest first */
        _cleanup_error_ boxlite_error *gone = NULL;
        boxlite_box *box = boxlite_box_list_get(list, i);
        int state = boxlite_box_state(box, &gone);

        if (state < 0) {
            continue; /* removed since the list was made */
        }
        if ((all || (state != BOXLITE_BOX_CREATED && state != BOXLITE_BOX_STOPPED)) &&
            is_wanted(box)) {
            add_row(&t, box, state);
        }
    }
    status = cli_table_print(&t, 0);
    cli_table_done(&t);
    return status;
}

static const struct cli_option *const sets[] = {options, cli_quiet_options, cli_format_options,
                                                NULL};

const struct cli_command cli_cmd_ls = {
    .name = "ls",
    .args = "",
    .summary = "list boxes",
    .about = "Lists running and paused boxes, the newest first; with -a all.",
    .examples = "boxlite ls -a\n"
                "boxlite ls --json | jq -r '.[].name'",
    .sets = sets,
    .run = run,
};
