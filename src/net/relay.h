/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h: carries frames between an engine and passt, through the filter.
 */
#ifndef BX_NET_RELAY_H
#define BX_NET_RELAY_H

#include "base/loop.h"
#include "net/filter.h"

struct bx_relay;

/* Takes both sockets, also on failure. The filter is copied. 0 or -errno. */
int bx_relay_new(struct bx_loop *loop, int take_guest, int take_net,
                 const struct bx_net_filter *filter, struct bx_relay **ret);
/* See bx_net_filter_set_own(). */
void bx_relay_set_own(struct bx_relay *r, const uint32_t *own, size_t n);
uint64_t bx_relay_dropped(const struct bx_relay *r); /* frames that were not let out */
void bx_relay_free(struct bx_relay *r);              /* accepts NULL */

#endif
