/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.h: the host's own IPv4 addresses, as they change.
 */
#ifndef BX_NET_ADDRESSES_H
#define BX_NET_ADDRESSES_H

#include "base/loop.h"

struct bx_addresses;

/* All addresses at once, in host byte order; own NULL: they are not known any more. */
typedef void (*bx_addresses_fn)(void *data, const uint32_t *own, size_t n);

/* Calls fn after each change from now on, not for what is there already. Opens its socket here, none later.
 * 0 or -errno. */
int bx_addresses_new(struct bx_loop *loop, bx_addresses_fn fn, void *data,
                     struct bx_addresses **ret);
void bx_addresses_free(struct bx_addresses *a); /* accepts NULL */

#endif
