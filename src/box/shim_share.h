/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_share.h: the box's shared folders: a file server beside the shim, and the bytes between it and the
 * guest.
 */
#ifndef BX_BOX_SHIM_SHARE_H
#define BX_BOX_SHIM_SHARE_H

#include "box/shim.h"

/* Opens what the box shares and starts the server; nothing if it shares nothing. */
int bx_shim_share_start(struct bx_shim *s, boxlite_error **err);
/* The fields of CONFIGURE, and the channels that these open. 0 or -errno. */
int bx_shim_share_configure(const struct bx_shim *s, struct bx_buf *msg);
int bx_shim_share_open(struct bx_shim *s);
/* From the agent. */
void bx_shim_share_bytes(struct bx_shim *s, const uint8_t *p, size_t len);
void bx_shim_share_writable(struct bx_shim *s);
/* The server ends. */
void bx_shim_share_stop(struct bx_shim *s);

#endif
