/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h: one line on a terminal about what is taking so long. It appears only after a second, only if standard
 * error is a terminal, and is gone before anything else is printed there.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/util.h"

/* A boxlite_progress_fn. */
void cli_progress_report(void *data, const char *what, uint64_t done, uint64_t total);
/* For waits without a measure: call now and then with the time they began. */
void cli_progress_waiting(const char *what, uint64_t since_us);
/* Takes the line away. */
void cli_progress_clear(void);
void cli_progress_disable(void);
bool cli_progress_shown_here(void); /* whether there is a terminal to show it on */

#endif
