/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h: diff.c seen from apply.c.
 */
#ifndef BX_WORKSPACE_SESSION_H
#define BX_WORKSPACE_SESSION_H

#include "workspace/box.h"

boxlite_changes *bx_ws_changes_new(const char *host, const char *guest); /* NULL: no memory */
/* The place of a workspace among the box' mounts. */
int bx_ws_find(boxlite_box *box, const char *name, size_t *ret, boxlite_error **err);
/* An empty result with the workspace open and a folder for contents. */
int bx_ws_open(boxlite_box *box, size_t index, boxlite_changes **ret, boxlite_error **err);
/* All changes that the options want, with the gate's word on each. */
int bx_ws_collect(boxlite_box *box, const struct boxlite_change_options *o, size_t *ret_index,
                  boxlite_changes **ret, boxlite_error **err);
/* Paths as users write them, below the workspace. */
int bx_ws_normal_paths(const boxlite_changes *c, const struct bx_strv *given, struct bx_strv *ret,
                       boxlite_error **err);

/* The upper folder, where there is no guest: tests/unit sets it. */
extern const char *bx_ws_upper_for_tests;

#endif
