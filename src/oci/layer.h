/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h: reads one layer, a tar from a hostile source, into a root image.
 */
#ifndef BX_OCI_LAYER_H
#define BX_OCI_LAYER_H

#include "disk/rootfs.h"
#include "oci/stream.h"

/* Applies the tar that `in` (unpacked bytes) carries as layer number `layer` and reads `in` to its end. INTEGRITY,
 * with the entry's name, for everything that a well-made layer does not have. */
int bx_layer_apply(struct bx_stream *in, struct bx_rootfs *root, uint32_t layer,
                   boxlite_error **err);

#endif
