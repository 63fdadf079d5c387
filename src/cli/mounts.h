/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounts.h: -v, --mount and --workspace.
 */
#ifndef CLI_MOUNTS_H
#define CLI_MOUNTS_H

#include "cli/boxspec.h"

/* Adds all that the options name to the box's options. 0 or an exit status. */
int cli_add_mounts(boxlite_box_options *o, const struct cli_box *box);

#endif
