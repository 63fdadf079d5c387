/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c: boxlite doctor: each check, what was found, what to do. */
#include <string.h>

#include "cli/commands.h"
#include "cli/output.h"

static const struct cli_column columns[] = {
    {"CHECK", "name"},
    {"STATUS", "status"},
    {"FOUND", "detail"},
    {NULL, "advice"},
};

static const char *status_name(int status)
{
    static const char *const names[] = {"ok", "warning", "failed"};

    return status >= 0 && status < 3 ? names[status] : "unknown";
}

static void print_checks(const boxlite_report *report)
{
    static const char *const marks[] = {"ok  ", "warn", "FAIL"};

    for (size_t i = 0; i < boxlite_report_count(report); i++) {
        int status = boxlite_report_status(report, i);
        const char *advice = boxlite_report_advice(report, i);

        printf("[%s] %s: %s\n", status >= 0 && status < 3 ? marks[status] : "?",
               boxlite_report_name(report, i), boxlite_report_detail(report, i));
        if (advice && status != BOXLITE_CHECK_OK) {
            printf("       -> %s\n", advice);
        }
    }
}

static int print_json(const boxlite_report *report)
{
    struct cli_table t;
    int status;

    cli_table_init(&t, columns, CLI_COUNT(columns));
    for (size_t i = 0; i < boxlite_report_count(report); i++) {
        cli_cell_text(&t, boxlite_report_name(report, i));
        cli_cell_text(&t, status_name(boxlite_report_status(report, i)));
        cli_cell_text(&t, boxlite_report_detail(report, i));
        cli_cell_text(&t, boxlite_report_advice(report, i));
    }
    status = cli_table_print(&t, 0);
    cli_table_done(&t);
    return status;
}

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_report_ boxlite_report *report = NULL;
    int status = cli_open();

    if (status) {
        return status;
    }
    if (boxlite_doctor(cli.rt, &report, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    if (cli_want_json()) {
        status = print_json(report);
    } else {
        print_checks(report);
    }
    for (size_t i = 0; !status && i < boxlite_report_count(report); i++) {
        status = boxlite_report_status(report, i) == BOXLITE_CHECK_FAIL ? CLI_EXIT_CHECK : 0;
    }
    return status;
}

static const struct cli_option *const sets[] = {cli_format_options, NULL};

const struct cli_command cli_cmd_doctor = {
    .name = "doctor",
    .args = "",
    .summary = "check what this machine offers, and say what to do",
    .about =
        "Checks KVM, engines, guest kernel, network, disk space and limits. Exit status 1 if a check failed; a warning "
        "means that it works, but slower or with less.",
    .examples = "boxlite doctor\n"
                "boxlite doctor --json | jq -r '.[] | select(.status != \"ok\") | .advice'",
    .sets = sets,
    .run = run,
};
