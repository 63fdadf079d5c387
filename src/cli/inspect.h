/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h: what inspect and image inspect share. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include "cli/util.h"

/* Prints the descriptions of boxes ('b'), of their engines' processes ('v'), images ('i') or either ('a') as a JSON array. The exit status. */
int cli_inspect(const struct cli_list *names, char what);

#endif
