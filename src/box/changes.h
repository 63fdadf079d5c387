/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes.h: what a box has changed, as a layer of an image: whiteouts, opaque folders, links, holes and
 * attributes as the OCI image specification has them, entries in a stable order. Made by the agent
 * (src/guest/changes_out.c); the stream is hostile input.
 */
#ifndef BX_BOX_CHANGES_H
#define BX_BOX_CHANGES_H

#include "box/copy.h"

/* The upper folder of the box' root, and its joined view, as the agent sees them (guest/rootfs.c). */
#define BX_ROOT_UPPER "/box/upper/upper"
#define BX_ROOT_MERGED "/box/merged"

/* Starts the stream of an upper folder; read it with bx_copy_read() and end it with bx_copy_finish().
 * merged may be "", or "@" and a path in the container. */
int bx_changes_start(boxlite_box *box, const char *upper, const char *merged, struct bx_copy *ret,
                     boxlite_error **err);
/* All that differs from the image, as a tar on fd; a box that is stopped is started quietly. */
int bx_box_changes_tar(boxlite_box *box, int fd, boxlite_error **err);

#endif
