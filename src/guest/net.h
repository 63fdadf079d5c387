/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h: the guest's network: loopback always, eth0 with a fixed address if the host gave one.
 */
#ifndef BX_GUEST_NET_H
#define BX_GUEST_NET_H

#include "guest/config.h"
#include "guest/text.h"

int net_setup(const struct config *cfg, struct failure *f);

#endif
