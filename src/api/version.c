/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.c: the library's version.
 */
#include <boxlite.h>

#include "config.h"

const char *boxlite_version(void)
{
    return BX_VERSION;
}
