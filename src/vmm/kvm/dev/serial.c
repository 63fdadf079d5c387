/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serial.c: a 16550A that only sends. Nothing is ever received: the console is for the kernel's words
 * and a panic's; commands have channels of their own.
 *
 * Each byte is an exit from the guest, so the port is no place for bulk data; what it gets is handed
 * on by the line, or when 512 bytes are together, from the vCPU's own thread. If nobody takes them
 * they are dropped: a guest must not wait for whoever reads its console, nor the other way round.
 */
#include "vmm/kvm/dev/serial.h"

#include <linux/serial_reg.h>
#include <sys/socket.h>
#include <unistd.h>

#define LSR_IDLE (UART_LSR_THRE | UART_LSR_TEMT)
#define MSR_READY (UART_MSR_DCD | UART_MSR_DSR | UART_MSR_CTS)

void bx_serial_init(struct bx_serial *s, int fd)
{
    *s = (struct bx_serial){.fd = fd, .irq_fd = -1};
    (void)pthread_mutex_init(&s->lock, NULL);
}

static void flush(struct bx_serial *s)
{
    if (s->len > 0 && s->fd >= 0 &&
        send(s->fd, s->line, s->len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)s->len) {
        s->dropped += s->len;
    }
    s->len = 0;
}

void bx_serial_flush(struct bx_serial *s)
{
    (void)pthread_mutex_lock(&s->lock);
    flush(s);
    (void)pthread_mutex_unlock(&s->lock);
}

/* The holding register is always empty; that it has become so is told once. */
static void tell_empty(struct bx_serial *s)
{
    static const uint64_t one = 1;

    if ((s->s.ier & UART_IER_THRI) == 0) {
        return;
    }
    s->s.thr_empty = 1;
    if (s->irq_fd >= 0) {
        ssize_t n = write(s->irq_fd, &one, sizeof(one));
        (void)n;
    }
}

static void transmit(struct bx_serial *s, uint8_t c)
{
    s->bytes++;
    s->line[s->len++] = (char)c;
    if (c == '\n' || s->len == sizeof(s->line)) {
        flush(s);
    }
    tell_empty(s);
}

static uint8_t read_iir(struct bx_serial *s)
{
    uint8_t fifo = s->s.fifo ? 0xc0 : 0;

    if (s->s.thr_empty) {
        s->s.thr_empty = 0;
        return UART_IIR_THRI | fifo;
    }
    return UART_IIR_NO_INT | fifo;
}

/* In loop-back the modem's inputs are its own outputs: drivers test for that. */
static uint8_t read_msr(const struct bx_serial *s)
{
    if (!(s->s.mcr & UART_MCR_LOOP)) {
        return MSR_READY;
    }
    return (uint8_t)((s->s.mcr & UART_MCR_RTS ? UART_MSR_CTS : 0) |
                     (s->s.mcr & UART_MCR_DTR ? UART_MSR_DSR : 0) |
                     (s->s.mcr & UART_MCR_OUT1 ? UART_MSR_RI : 0) |
                     (s->s.mcr & UART_MCR_OUT2 ? UART_MSR_DCD : 0));
}

static uint8_t read_register(struct bx_serial *s, unsigned reg)
{
    bool latch = s->s.lcr & UART_LCR_DLAB;

    switch (reg) {
    case UART_RX:
        return latch ? s->s.dll : 0;
    case UART_IER:
        return latch ? s->s.dlm : s->s.ier;
    case UART_IIR:
        return read_iir(s);
    case UART_LCR:
        return s->s.lcr;
    case UART_MCR:
        return s->s.mcr;
    case UART_LSR:
        return LSR_IDLE;
    case UART_MSR:
        return read_msr(s);
    default:
        return s->s.scr;
    }
}

static void write_ier(struct bx_serial *s, uint8_t value)
{
    bool was = s->s.ier & UART_IER_THRI;

    s->s.ier = value & 0x0f;
    if (!(value & UART_IER_THRI)) {
        s->s.thr_empty = 0;
    } else if (!was) {
        tell_empty(s);
    }
}

static void write_register(struct bx_serial *s, unsigned reg, uint8_t value)
{
    bool latch = s->s.lcr & UART_LCR_DLAB;

    switch (reg) {
    case UART_TX:
        if (latch) {
            s->s.dll = value;
        } else if (!(s->s.mcr & UART_MCR_LOOP)) {
            transmit(s, value);
        }
        break;
    case UART_IER:
        if (latch) {
            s->s.dlm = value;
        } else {
            write_ier(s, value);
        }
        break;
    case UART_FCR:
        s->s.fifo = value & UART_FCR_ENABLE_FIFO;
        break;
    case UART_LCR:
        s->s.lcr = value;
        break;
    case UART_MCR:
        s->s.mcr = value & 0x1f;
        break;
    case UART_SCR:
        s->s.scr = value;
        break;
    default:
        break;
    }
}

uint8_t bx_serial_read(struct bx_serial *s, unsigned reg)
{
    (void)pthread_mutex_lock(&s->lock);
    uint8_t value = read_register(s, reg);
    (void)pthread_mutex_unlock(&s->lock);
    return value;
}

void bx_serial_write(struct bx_serial *s, unsigned reg, uint8_t value)
{
    (void)pthread_mutex_lock(&s->lock);
    write_register(s, reg, value);
    (void)pthread_mutex_unlock(&s->lock);
}
