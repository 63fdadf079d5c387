/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h: signals as bytes on a pipe, for programs that wait for a box. Until cli_signals_catch() they do what they do to
 * any program. While they are caught, a blocking call of the library ends with CANCELLED when one comes
 * (cli_signals_wake), so that no wait outlives the user's patience.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "cli/util.h"

/* Catches HUP, INT, QUIT, TERM, USR1, USR2, WINCH, CONT, except those that were ignored when the program was started
 * (nohup). 0 or -errno. */
int cli_signals_catch(void);
/* Readable when a signal has come; -1 if they are not caught. */
int cli_signals_fd(void);
/* The next signal that came, or 0. */
int cli_signals_take(void);
/* A runtime whose blocking calls end when a signal comes; NULL: none. */
void cli_signals_wake(boxlite_runtime *rt);
/* The last signal that came and means "end" (HUP, INT, QUIT, TERM), or 0. */
int cli_signals_fatal(void);

#endif
