/* SPDX-License-Identifier: Apache-2.0 */
/* commit.h: a box' changes as a new image. */
#ifndef BX_BOX_COMMIT_H
#define BX_BOX_COMMIT_H

#include "base/json.h"
#include "box/box.h"

/* config: what to change of the base image's "config" object, or NULL; comment may be NULL. Caller frees *ret_digest. */
int bx_box_commit(boxlite_box *box, const char *ref, const json_t *config, const char *comment,
                  char **ret_digest, boxlite_error **err);

#endif
