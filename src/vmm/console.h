/* SPDX-License-Identifier: Apache-2.0 */
/*
 * console.h: what the tail of a guest's console tells about its end. The guest writes it, so it is
 * good for an explanation of the guest's own end and for nothing else.
 */
#ifndef BX_VMM_CONSOLE_H
#define BX_VMM_CONSOLE_H

#include <stdbool.h>

#include "base/buf.h"

#define BX_CONSOLE_TAIL 16384

/* The kernel said that it restarts because it was asked to, and did not panic. */
bool bx_console_says_reboot(const struct bx_buf *tail);
/* The kernel's last "Kernel panic - not syncing: WHY": WHY, escaped, one line (caller frees), or
 * NULL. */
char *bx_console_panic(const struct bx_buf *tail);
/* The last line that is not blank, escaped (caller frees), or NULL. */
char *bx_last_line(const struct bx_buf *tail);

#endif
