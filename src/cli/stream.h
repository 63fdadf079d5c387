/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h: joins a command in a box to this program's standard descriptors until it ends.
 */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include "cli/util.h"

struct cli_stream {
    boxlite_box *box; /* in which it runs: named in what is told */
    boxlite_exec *exec;
    bool input;     /* standard input goes to the command */
    bool tty;       /* it has a terminal: ours becomes raw (with `input`), its size follows ours */
    bool no_output; /* --stdout, --stderr of logs: what is not wanted is read and dropped */
    bool no_errors;
    uint64_t skip_output, skip_errors; /* bytes at the beginning that are not wanted */
    bool
        output_only; /* shows output, whose end is the end: signals are not for the command, its status not ours */
};

/* Returns the exit status of the command; what went wrong has been told. While it runs:
 * - INT, TERM, HUP, QUIT, USR1, USR2 go to the command. The same INT or TERM a second time within a second ends the
 *   streaming with 128 + its number (the caller then drops the command).
 * - a reader of our output that goes away ends it with 128 + SIGPIPE, as it ends any program. */
int cli_stream_run(const struct cli_stream *stream);
/* Turns a result into the exit status, telling what is not plain from the status. `box` and `exec` may be NULL. */
int cli_stream_status(boxlite_box *box, const boxlite_exec *exec, const boxlite_exec_result *result);

#endif
