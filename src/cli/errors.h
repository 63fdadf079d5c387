/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errors.h: what goes to standard error, and the exit statuses.
 * A failure is one line, "boxlite: CONTEXT: message", and, if the user can do something, a second: "hint: …".
 */
#ifndef CLI_ERRORS_H
#define CLI_ERRORS_H

#include "cli/util.h"

#define CLI_EXIT_CHECK 1     /* doctor: a check failed */
#define CLI_EXIT_TIMEOUT 124 /* the command ran out of its time */
#define CLI_EXIT_ERROR 125   /* BoxLite itself failed, or was called wrongly */
#define CLI_EXIT_SIGNAL(n) (128 + (n))

/* Each prints and returns CLI_EXIT_ERROR. */
int cli_error(const char *format, ...) CLI_PRINTF(1, 2);
/* With a hint (may be NULL). */
int cli_error_hint(const char *hint, const char *format, ...) CLI_PRINTF(2, 3);
/* Reports the library's error under a context ("starting x"; NULL: none) and frees it. A second hint is used if the
 * error brings none. */
int cli_fail(boxlite_error **err, const char *context);
int cli_fail_hint(boxlite_error **err, const char *context, const char *hint);
void cli_hint(const char *hint);
void cli_warn(const char *format, ...) CLI_PRINTF(1, 2);
/* Flushes standard output: its failure (a full disk) is an error like any other. Returns `status` or an error's. */
int cli_finish_stdout(int status);

#endif
