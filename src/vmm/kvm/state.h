/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h: the file of a machine's state: a head, then records in a fixed order.
 *
 * The order is the format: who reads asks for the records that it wants, one after the other, and
 * each must be the one that comes next. The file is outside input: its length, its checksum (against
 * accidents; who may write the file may do as he likes with the box) and each record's length are
 * checked before anything is used.
 */
#ifndef BX_VMM_KVM_STATE_H
#define BX_VMM_KVM_STATE_H

#include <boxlite.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define BX_STATE_MAX (16u << 20)

enum bx_record {
    BX_REC_MACHINE = 1, /* struct bx_state_machine */
    BX_REC_CPUID,
    BX_REC_IRQCHIP, /* three */
    BX_REC_CLOCK,
    BX_REC_SERIAL,
    BX_REC_DEVICE, /* transport */
    BX_REC_QUEUE,
    BX_REC_CONFIG,
    BX_REC_OWN, /* what a device adds itself */
    BX_REC_REGS = 32,
    BX_REC_SREGS,
    BX_REC_XSAVE,
    BX_REC_XCRS,
    BX_REC_DEBUG,
    BX_REC_LAPIC,
    BX_REC_MSRS,
    BX_REC_EVENTS,
    BX_REC_MP,
    BX_REC_TSC,
    BX_REC_END,
};

/* Must be the same on both sides. */
struct bx_state_machine {
    uint64_t memory;
    uint32_t cpus, devices;
};

struct bx_state {
    struct bx_buf buf; /* head and records */
    size_t at;         /* reading */
    int error;         /* the first failure of a put; -errno */
};
#define BX_STATE_INIT                                                                              \
    {                                                                                              \
        .buf = BX_BUF_INIT(BX_STATE_MAX)                                                           \
    }

void bx_state_put(struct bx_state *s, enum bx_record type, const void *data, size_t len);
/* Writes head and records to the descriptor. */
int bx_state_write(struct bx_state *s, int fd, boxlite_error **err);
/* Reads and checks the whole file. */
int bx_state_read(struct bx_state *s, int fd, boxlite_error **err);
/* The next record, which must be of that type and, with get, of exactly that length. INTEGRITY. */
int bx_state_get(struct bx_state *s, enum bx_record type, void *ret, size_t len,
                 boxlite_error **err);
int bx_state_next(struct bx_state *s, enum bx_record type, const uint8_t **ret, size_t *ret_len,
                  boxlite_error **err);
void bx_state_done(struct bx_state *s);

#endif
