/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c: boxlite doctor: each check, what was found, what to do. */
#include <string.h>

#include "cli/commands.h"
#include "cli/output.h"

#define CHECKS_MAX 64

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

struct check {
    const char *name, *detail, *advice;
    int status;
};

static void print_checks(const struct check *checks, size_t n)
{
    static const char *const marks[] = {"ok  ", "warn", "FAIL"};

    for (size_t i = 0; i < n; i++) {
        int status = checks[i].status;

        printf("[%s] %s: %s\n", status >= 0 && status < 3 ? marks[status] : "?", checks[i].name,
               checks[i].detail);
        if (checks[i].advice && status != BOXLITE_CHECK_OK) {
            printf("       -> %s\n", checks[i].advice);
        }
    }
}

static int print_json(const struct check *checks, size_t n)
{
    struct cli_table t;
    int status;

    cli_table_init(&t, columns, CLI_COUNT(columns));
    for (size_t i = 0; i < n; i++) {
        cli_cell_text(&t, checks[i].name);
        cli_cell_text(&t, status_name(checks[i].status));
        cli_cell_text(&t, checks[i].detail);
        cli_cell_text(&t, checks[i].advice);
    }
    status = cli_table_print(&t, 0);
    cli_table_done(&t);
    return status;
}

static int print(const struct check *checks, size_t n)
{
    int status = 0;

    if (cli_want_json()) {
        status = print_json(checks, n);
    } else {
        print_checks(checks, n);
    }
    for (size_t i = 0; !status && i < n; i++) {
        status = checks[i].status == BOXLITE_CHECK_FAIL ? CLI_EXIT_CHECK : 0;
    }
    return status;
}

/* A home that cannot be opened is the first thing that a doctor must tell of. */
static int print_bad_home(const boxlite_error *err)
{
    struct check check = {"home", boxlite_error_message(err), boxlite_error_hint(err),
                          BOXLITE_CHECK_FAIL};
    return print(&check, 1);
}

static int run(const struct cli_list *operands)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_report_ boxlite_report *report = NULL;
    struct check checks[CHECKS_MAX];
    size_t n;

    if (cli_try_open(&err) < 0) {
        return print_bad_home(err);
    }
    if (boxlite_doctor(cli.rt, &report, &err) < 0) {
        return cli_fail(&err, NULL);
    }
    n = boxlite_report_count(report);
    n = n < CHECKS_MAX ? n : CHECKS_MAX;
    for (size_t i = 0; i < n; i++) {
        checks[i] = (struct check){boxlite_report_name(report, i), boxlite_report_detail(report, i),
                                   boxlite_report_advice(report, i), boxlite_report_status(report, i)};
    }
    return print(checks, n);
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
