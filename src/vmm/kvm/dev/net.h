/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h: virtio-net; frames go to and come from a stream socket, each behind its length (u32,
 * big-endian).
 */
#ifndef BX_VMM_KVM_DEV_NET_H
#define BX_VMM_KVM_DEV_NET_H

#include <linux/virtio_net.h>

#include "vmm/kvm/virtio.h"

#define BX_NET_FRAME_MAX 65550u /* an Ethernet header and the largest IP packet */
#define BX_NET_BUFFER (256u << 10)

struct bx_net {
    struct bx_virtio v;
    struct virtio_net_config config;
    int fd; /* borrowed, non-blocking */
    bool readable, writable;
    bool gone;         /* the other end has hung up, or spoke nonsense */
    uint8_t *buf;      /* bytes from the socket that the guest has not got yet */
    size_t start, end; /* of them, in buf */
    uint64_t tx_off;   /* bytes of the next frame, its length included, that are sent already */
    uint64_t dropped;
};

int bx_net_init(struct bx_net *n, const struct bx_gmem *mem, int fd, const uint8_t mac[6],
                boxlite_error **err);
void bx_net_done(struct bx_net *n);
/* The socket has news, edge-triggered. Device thread. */
void bx_net_socket(struct bx_net *n, uint32_t events);

#endif
