/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.h: which Ethernet frames may leave a guest. Frames travel in passt's stream form: a length
 * (32 bits, big-endian), then the frame.
 */
#ifndef BX_NET_FILTER_H
#define BX_NET_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define BX_FRAME_MAX 65568 /* an IPv4 packet of any size in its frame, and a little more */
#define BX_OWN_MAX 64

struct bx_net_filter {
    uint32_t guest;           /* the only source address; host byte order */
    uint32_t own[BX_OWN_MAX]; /* the host's addresses and the router's: never a destination */
    size_t nown;
    bool shut; /* the host's addresses are not known: no IPv4 leaves */
};

/* The filter of a guest with this address, behind this router, on this host as it is now. -errno if the
 * host's addresses cannot be read, or are too many. */
int bx_net_filter_init(struct bx_net_filter *filter, uint32_t guest, uint32_t router);
/* The host has these addresses from now on (host byte order); NULL, or too many: nobody knows. */
void bx_net_filter_set_own(struct bx_net_filter *filter, const uint32_t *own, size_t n);
/* May this frame leave? Any bytes of any length. */
bool bx_net_filter_allows(const struct bx_net_filter *filter, const uint8_t *frame, size_t len);
/* Moves the complete frames of in to out, without those that may not leave, while out has room
 * for the largest one. *dropped counts the others. 0, or -EPROTO for a length that cannot be,
 * -ENOMEM. */
int bx_net_filter_stream(const struct bx_net_filter *filter, struct bx_buf *in, struct bx_buf *out,
                         uint64_t *dropped);

#endif
