/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serial.h: the transmitting half of a 16550 serial port: the guest's console, from the kernel's first
 * line on.
 */
#ifndef BX_VMM_KVM_DEV_SERIAL_H
#define BX_VMM_KVM_DEV_SERIAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BX_SERIAL_PORT 0x3f8
#define BX_SERIAL_PORTS 8
#define BX_SERIAL_IRQ 4

struct bx_serial {
    pthread_mutex_t lock;
    int fd;     /* borrowed, non-blocking; -1: nowhere */
    int irq_fd; /* eventfd, -1 */
    struct bx_serial_state {
        uint8_t ier, lcr, mcr, scr, dll, dlm, fifo;
        uint8_t thr_empty; /* the interrupt is pending */
    } s;
    char line[512]; /* collected up to the end of a line */
    unsigned len;
    uint64_t bytes, dropped;
};

void bx_serial_init(struct bx_serial *s, int fd);
uint8_t bx_serial_read(struct bx_serial *s, unsigned reg);
void bx_serial_write(struct bx_serial *s, unsigned reg, uint8_t value);
void bx_serial_flush(struct bx_serial *s); /* an unfinished line as well */

#endif
