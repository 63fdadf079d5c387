/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shareproc.h: how the shim starts boxlite-share (share_main.c has the arguments).
 */
#ifndef BX_SHARE_SHAREPROC_H
#define BX_SHARE_SHAREPROC_H

#define BX_SHARE_PROGRAM "boxlite-share"
#define BX_SHARE_TREES_MAX 128
enum { BX_SHARE_FD_STREAM = 3, BX_SHARE_FD_HIDE, BX_SHARE_FD_TREES };

#define BX_SHARE_RW "rw"
#define BX_SHARE_RO "ro"
#define BX_SHARE_WS "ws"

#endif
