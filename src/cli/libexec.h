/* SPDX-License-Identifier: Apache-2.0 */
/* libexec.h: where BoxLite's helper programs are, and running one. */
#ifndef CLI_LIBEXEC_H
#define CLI_LIBEXEC_H

#include "cli/util.h"

/* Runs a helper with our descriptors and waits. argv[0] is its name. Its exit status, 127 if it is not to be found. */
int cli_libexec_run(char *const *argv);

#endif
