/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxrun.h: the steps of a box's life that run, start and attach share.
 */
#ifndef CLI_BOXRUN_H
#define CLI_BOXRUN_H

#include "cli/util.h"

/* Creates a box; an unknown image is told with what to do. 0 or an exit status. */
/* The options of run and create, with the home opened and the image fetched where it must be. 0 or an exit status. */
int cli_box_make(const struct cli_list *operands, bool detached, boxlite_box_options **ret);
int cli_box_create(const boxlite_box_options *o, boxlite_box **ret);
/* Boots it, showing that it takes a while, and giving up when a signal says so (exit status 128 + its number). 0 or an exit
 * status, told. */
int cli_box_start(boxlite_box *box);
/* Joins the main command to our descriptors until it ends, then waits until the box has stopped. Its exit status. */
int cli_box_attach(boxlite_box *box, bool input, bool tty);
/* After the main command's end. */
void cli_box_settle(boxlite_box *box);
/* Whether its main command was given a terminal, an input, when the box was created. */
bool cli_box_has_terminal(boxlite_box *box);
bool cli_box_has_input(boxlite_box *box);
/* Bytes of memory that it was given; 0: not known. */
uint64_t cli_box_memory(boxlite_box *box);
/* Removes it by force; told only if it fails. */
void cli_box_discard(boxlite_box *box);

/* --trace: notes that a step has ended now; prints "trace: create 12.3 ms" if tracing is on. */
void cli_trace_start(bool on);
void cli_trace(const char *step);

#endif
