/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h: serves trees over a stream socket.
 *
 * The stream is a sequence of records, each way: u32 tree (little-endian, as all of FUSE is on the
 * machines that there are), then a FUSE message, whose first u32 is its length. The number
 * BX_SHARE_CONTROL is no tree: its messages are struct bx_share_owner. Anything else that makes no sense
 * ends the stream.
 */
#ifndef BX_SHARE_SERVER_H
#define BX_SHARE_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "share/export.h"

#define BX_SHARE_CONTROL UINT32_MAX
#define BX_SHARE_OWNER 1u

/* Who owns the files of trees with a fixed owner. */
struct bx_share_owner {
    uint32_t len, kind; /* BX_SHARE_OWNER */
    uint32_t uid, gid;
};

/* Serves until the stream ends: 0, or -errno (-EPROTO: the peer is broken). notify, data and
 * watch of the options are the server's. watch may be NULL. */
struct bx_watch;
int bx_share_serve(int socket, const struct bx_export_options *trees, size_t n,
                   struct bx_watch *watch);

#endif
