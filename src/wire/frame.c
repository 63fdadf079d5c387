/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.c: the header's codec. What a frame of each type may look like is one row of a table, so there
 * is no other place where the length or the channel number of a header is judged.
 */
#include <errno.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "wire/frame.h"

struct frame_rule {
    uint32_t min; /* payload bytes */
    uint32_t max;
    bool link; /* concerns the link: channel 0; the others concern a channel, never 0 */
};

/* A row with max 0 and min 1 does not exist; that is how type 0 is refused. */
static const struct frame_rule frame_rules[] = {
    [0] = {1, 0, true},
    [BX_FRAME_HELLO] = {12, 12, true},
    [BX_FRAME_MSG] = {2, BX_FRAME_MSG_MAX, true},
    [BX_FRAME_DATA] = {1, BX_FRAME_DATA_MAX, false},
    [BX_FRAME_EOF] = {0, 0, false},
    [BX_FRAME_CREDIT] = {4, 4, false},
    [BX_FRAME_RESET] = {0, 0, false},
};

void bx_frame_encode(const struct bx_frame *f, uint8_t out[BX_FRAME_HEADER])
{
    bx_put_le32(out, f->length);
    bx_put_le32(out + 4, f->channel);
    out[8] = f->type;
    out[9] = 0;
    out[10] = 0;
    out[11] = 0;
}

int bx_frame_decode(const uint8_t in[BX_FRAME_HEADER], struct bx_frame *ret)
{
    struct bx_frame f = {
        .length = bx_get_le32(in),
        .channel = bx_get_le32(in + 4),
        .type = in[8],
    };
    if (f.type >= BX_ARRAY_SIZE(frame_rules) || in[9] || in[10] || in[11]) {
        return -EPROTO;
    }
    const struct frame_rule *rule = &frame_rules[f.type];
    if (f.length < rule->min || f.length > rule->max || rule->link != (f.channel == 0)) {
        return -EPROTO;
    }
    *ret = f;
    return 0;
}
