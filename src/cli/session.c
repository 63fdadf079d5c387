/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c: the one runtime of this process, and the little loops over its objects that commands share.
 * cli_close() must run on every way out of main(): freeing the runtime ends the boxes that belong to this process.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/progress.h"

struct cli cli;

static void log_line(void *data, int level, const char *area, const char *message)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};

    cli_progress_clear();
    fprintf(stderr, "%s: %s: %s\n", level >= 0 && level < 4 ? names[level] : "log", area, message);
}

int cli_try_open(boxlite_error **err)
{
    boxlite_runtime_options o;

    if (cli.rt) {
        return 0;
    }
    boxlite_runtime_options_init(&o);
    o.home = cli.home;
    if (cli.debug) {
        o.log = log_line;
        o.log_level = BOXLITE_LOG_DEBUG;
    }
    o.progress = cli_progress_report;
    return boxlite_runtime_new(&o, &cli.rt, err);
}

int cli_open(void)
{
    _cleanup_error_ boxlite_error *err = NULL;
    return cli_try_open(&err) < 0 ? cli_fail(&err, NULL) : 0;
}

void cli_close(void)
{
    boxlite_runtime_free(cli.rt);
    cli.rt = NULL;
}

int cli_each(const struct cli_list *operands, int (*fn)(const char *name))
{
    int status = cli_open();

    if (status) {
        return status;
    }
    for (size_t i = 0; i < operands->count; i++) {
        int r = fn(operands->items[i]);

        status = status ? status : r;
    }
    return status;
}

int cli_open_box(const char *name, boxlite_box **ret)
{
    _cleanup_error_ boxlite_error *err = NULL;

    if (boxlite_box_open(cli.rt, name, ret, &err) < 0) {
        return cli_fail_hint(&err, NULL, "list boxes with: boxlite ls -a");
    }
    return 0;
}
