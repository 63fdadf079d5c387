/* SPDX-License-Identifier: Apache-2.0 */
/*
 * applyif.h: run --apply-if: a command, then a check in the same box, and the changes only if both were fine.
 */
#ifndef CLI_APPLYIF_H
#define CLI_APPLYIF_H

#include "cli/options.h"

extern const struct cli_option cli_apply_if_options[]; /* --apply-if --allow --merge */
/* The check, or NULL: not asked for. */
const char *cli_apply_if(void);
/* Before the box is made: 0, or an exit status after telling what does not fit. */
int cli_apply_if_check(const struct cli_list *operands);
/* In a box that runs without a main command. Returns the exit status. */
int cli_apply_if_run(boxlite_box *box, const struct cli_list *operands);

#endif
