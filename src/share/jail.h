/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.h: what the file server gives up before it hears the first byte.
 */
#ifndef BX_SHARE_JAIL_H
#define BX_SHARE_JAIL_H

#include <stddef.h>

#include "share/export.h"

/* The most descriptors that this process may have, after asking for as many as it gets. */
unsigned bx_share_jail_files(void);
/* 0, or the name of the stage that is not possible here goes to *missing (the others are taken): the
 * jail is depth, what holds is export.h. -errno: it is not safe to go on. */
int bx_share_jail(const struct bx_export_options *trees, size_t n, const char **missing);
/* Whether this kernel has Landlock: its version, or 0. */
int bx_share_landlock_version(void);

#endif
