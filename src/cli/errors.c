/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errors.c: see errors.h. Text from outside (names in a message, a guest's words) may hold control characters; they
 * are shown as '?', so that no message can drive the user's terminal or pretend to be a second line.
 */
#include "cli/errors.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "cli/progress.h"

static void put_line(const char *prefix, const char *text)
{
    cli_progress_clear();
    fputs(prefix, stderr);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        fputc(*p < 0x20 || *p == 0x7f ? '?' : *p, stderr);
    }
    fputc('\n', stderr);
}

void cli_hint(const char *hint)
{
    put_line("hint: ", hint);
}

static void put_formatted(const char *prefix, const char *format, va_list ap)
{
    char *text;

    if (vasprintf(&text, format, ap) < 0) {
        cli_die_memory();
    }
    put_line(prefix, text);
    free(text);
}

int cli_error(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    put_formatted("boxlite: ", format, ap);
    va_end(ap);
    return CLI_EXIT_ERROR;
}

int cli_error_hint(const char *hint, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    put_formatted("boxlite: ", format, ap);
    va_end(ap);
    if (hint) {
        cli_hint(hint);
    }
    return CLI_EXIT_ERROR;
}

void cli_warn(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    put_formatted("boxlite: warning: ", format, ap);
    va_end(ap);
}

int cli_fail_hint(boxlite_error **err, const char *context, const char *hint)
{
    _cleanup_error_ boxlite_error *e = *err;
    const char *message = e ? boxlite_error_message(e) : "failed without a reason";
    const char *own = e ? boxlite_error_hint(e) : NULL;

    *err = NULL;
    return cli_error_hint(own ? own : hint, "%s%s%s", context ? context : "", context ? ": " : "",
                          message);
}

int cli_fail(boxlite_error **err, const char *context)
{
    return cli_fail_hint(err, context, NULL);
}

int cli_finish_stdout(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return status;
    }
    if (errno == EPIPE) {
        return status ? status : CLI_EXIT_SIGNAL(13);
    }
    return cli_error("writing output: %s", strerror(errno));
}
