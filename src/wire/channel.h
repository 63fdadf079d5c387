/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h: what one end of a link knows of a channel, and the table that finds it by its number.
 * Private to conn.c. Open addressing over pointers (a channel never moves), at most half full, removal
 * by shifting back; at most BX_CONN_CHANNELS_MAX channels.
 */
#ifndef BX_WIRE_CHANNEL_H
#define BX_WIRE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bx_channel {
    uint32_t id;
    uint32_t send_credit; /* what the peer still takes; <= BX_WIRE_WINDOW */
    uint32_t recv_credit; /* what the peer may still send */
    uint32_t unconsumed;  /* received, credit owed by the user */
    uint32_t owed;        /* consumed, credit not yet sent back */
    bool starved;         /* in the queue of those who wait for room in the output */
    bool short_credit;    /* a send took less than all for want of credit */
    bool eof_sent;
    bool eof_seen;
    bool reset_sent;         /* we dropped the peer's stream */
    bool reset_seen;         /* the peer dropped ours: sends are swallowed */
    struct bx_channel *next; /* queue of the starved */
    struct bx_channel *prev;
};

struct bx_channels {
    struct bx_channel **slots;
    size_t size; /* power of two, or 0 */
    size_t used;
};

/* Those who wait for room in the output: first come, first served. */
struct bx_channel_queue {
    struct bx_channel *first;
    struct bx_channel *last;
};

void bx_channel_enqueue(struct bx_channel_queue *q, struct bx_channel *ch); /* if it is not in it */
void bx_channel_dequeue(struct bx_channel_queue *q, struct bx_channel *ch); /* if it is in it */

struct bx_channel *bx_channels_find(const struct bx_channels *t, uint32_t id);
/* 0, -EEXIST, -EMFILE, -ENOMEM */
int bx_channels_add(struct bx_channels *t, uint32_t id, struct bx_channel **ret);
/* Takes it out of the table and frees it. */
void bx_channels_remove(struct bx_channels *t, struct bx_channel *ch);
void bx_channels_done(struct bx_channels *t);

#endif
