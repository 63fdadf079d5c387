/* SPDX-License-Identifier: Apache-2.0 */
/*
 * console.h: virtio-console with one named port: the agent's channel, on a stream socket.
 */
#ifndef BX_VMM_KVM_DEV_CONSOLE_H
#define BX_VMM_KVM_DEV_CONSOLE_H

#include <linux/virtio_console.h>

#include "vmm/kvm/virtio.h"

struct bx_console {
    struct bx_virtio v;
    struct virtio_console_config config;
    int fd; /* borrowed, non-blocking */
    const char *port_name;
    bool readable, writable; /* as epoll last said; cleared by EAGAIN */
    bool first_byte;         /* the guest has written */
    void (*on_first_byte)(void *data);
    void *data;
    struct bx_console_state {
        uint32_t to_send; /* control messages for the guest: bits of enum send */
        uint8_t guest_open, host_open;
        uint8_t pad[2];
        uint64_t tx_off; /* bytes of the next output chain that are written already */
    } s;
};

void bx_console_init(struct bx_console *c, const struct bx_gmem *mem, int fd,
                     const char *port_name);
/* The socket has news (EPOLLIN, EPOLLOUT, EPOLLHUP), edge-triggered. Device thread. */
void bx_console_socket(struct bx_console *c, uint32_t events);

#endif
