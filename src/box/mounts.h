/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounts.h: which folders and files of the host a box may see, and where: the checks of what is asked.
 */
#ifndef BX_BOX_MOUNTS_H
#define BX_BOX_MOUNTS_H

#include "box/boxconfig.h"

/* Checks a mount and adds it to a list of struct bx_box_mount. kind: BX_MOUNT_*; guest NULL: where it
 * is on the host. NOT_FOUND, INVALID, DENIED. */
int bx_mount_add(struct bx_rec_list *list, const char *kind, const char *host, const char *guest,
                 bool read_only, boxlite_error **err);
/* A path in the box in its normal form (caller frees): absolute, without empty parts and ".". INVALID:
 * another one, or a place that is the box's own. */
int bx_mount_guest_path(const char *guest, char **ret, boxlite_error **err);
/* No mount lies in the home directory: whoever can write there owns all boxes. */
int bx_mounts_check(const struct bx_rec_list *list, const char *home, boxlite_error **err);

#endif
