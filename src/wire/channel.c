/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.c: the table of channels. See channel.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "wire/channel.h"
#include "wire/conn.h"

#define SLOTS_MIN 16u

static size_t slot_of(const struct bx_channels *t, uint32_t id)
{
    uint32_t h = id * 0x9e3779b1u; /* Fibonacci hashing: neighbours are spread out */
    return (h ^ h >> 15) & (t->size - 1);
}

struct bx_channel *bx_channels_find(const struct bx_channels *t, uint32_t id)
{
    if (t->used == 0) {
        return NULL;
    }
    for (size_t i = slot_of(t, id); t->slots[i]; i = (i + 1) & (t->size - 1)) {
        if (t->slots[i]->id == id) {
            return t->slots[i];
        }
    }
    return NULL;
}

static void insert(struct bx_channels *t, struct bx_channel *ch)
{
    size_t i = slot_of(t, ch->id);
    while (t->slots[i]) {
        i = (i + 1) & (t->size - 1);
    }
    t->slots[i] = ch;
}

static int grow(struct bx_channels *t)
{
    struct bx_channels bigger = {.size = t->size ? t->size * 2 : SLOTS_MIN, .used = t->used};
    bigger.slots = calloc(bigger.size, sizeof(struct bx_channel *));
    if (!bigger.slots) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < t->size; i++) {
        if (t->slots[i]) {
            insert(&bigger, t->slots[i]);
        }
    }
    free(t->slots);
    *t = bigger;
    return 0;
}

int bx_channels_add(struct bx_channels *t, uint32_t id, struct bx_channel **ret)
{
    if (bx_channels_find(t, id)) {
        return -EEXIST;
    }
    if (t->used >= BX_CONN_CHANNELS_MAX) {
        return -EMFILE;
    }
    if ((t->used + 1) * 2 > t->size && grow(t) < 0) {
        return -ENOMEM;
    }
    struct bx_channel *ch = calloc(1, sizeof(*ch));
    if (!ch) {
        return -ENOMEM;
    }
    ch->id = id;
    ch->send_credit = BX_WIRE_WINDOW;
    ch->recv_credit = BX_WIRE_WINDOW;
    insert(t, ch);
    t->used++;
    *ret = ch;
    return 0;
}

void bx_channels_remove(struct bx_channels *t, struct bx_channel *ch)
{
    size_t mask = t->size - 1;
    size_t hole = slot_of(t, ch->id);
    while (t->slots[hole] != ch) {
        hole = (hole + 1) & mask;
    }
    /* Whoever was pushed past the hole by it moves up, so that no search ends early. */
    for (size_t i = (hole + 1) & mask; t->slots[i]; i = (i + 1) & mask) {
        size_t home = slot_of(t, t->slots[i]->id);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            t->slots[hole] = t->slots[i];
            hole = i;
        }
    }
    t->slots[hole] = NULL;
    t->used--;
    free(ch);
}

void bx_channels_done(struct bx_channels *t)
{
    for (size_t i = 0; i < t->size; i++) {
        free(t->slots[i]);
    }
    free(t->slots);
    *t = (struct bx_channels){0};
}

void bx_channel_enqueue(struct bx_channel_queue *q, struct bx_channel *ch)
{
    if (ch->starved) {
        return;
    }
    ch->starved = true;
    ch->next = NULL;
    ch->prev = q->last;
    *(q->last ? &q->last->next : &q->first) = ch;
    q->last = ch;
}

void bx_channel_dequeue(struct bx_channel_queue *q, struct bx_channel *ch)
{
    if (!ch->starved) {
        return;
    }
    *(ch->prev ? &ch->prev->next : &q->first) = ch->next;
    *(ch->next ? &ch->next->prev : &q->last) = ch->prev;
    ch->starved = false;
    ch->next = NULL;
    ch->prev = NULL;
}
