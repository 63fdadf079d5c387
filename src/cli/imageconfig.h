/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imageconfig.h: the options that say how commands of a new image start; for the commands that make one.
 */
#ifndef CLI_IMAGECONFIG_H
#define CLI_IMAGECONFIG_H

#include "cli/options.h"

extern const struct cli_option cli_image_config_options[];
/* What they say; caller frees. 0, or an exit status after telling why not. */
int cli_image_config(boxlite_image_config **ret);

#endif
