/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.h: the user's terminal: raw mode with its way back on every exit (atexit; fatal signals are caught while a
 * command is attached, see signals.h), and its size.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "cli/util.h"

/* 0, or -errno; -ENOTTY if standard input is no terminal. */
int cli_terminal_raw(void);
/* Harmless when it is not raw. */
void cli_terminal_restore(void);
/* Of the terminal on standard input or output; 24 × 80 if there is none or it does not say. */
void cli_terminal_size(uint16_t *ret_rows, uint16_t *ret_cols);
/* $TERM if it is sane, else "xterm". */
const char *cli_terminal_type(void);
/* /dev/null, close-on-exec, for both directions; -1 on failure. */
int cli_open_null(void);

#endif
