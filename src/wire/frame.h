/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h: the frame, the unit of both links (shim to agent, library to shim). See docs/wire.md.
 *
 * 12 bytes of header, little-endian, then the payload:
 *     u32 length   of the payload, at most BX_FRAME_MAX
 *     u32 channel
 *     u8  type     enum bx_frame_type
 *     u8  0, u16 0 reserved: must be zero
 * A frame that breaks a rule ends the link (the peer is broken or hostile); nothing is skipped over.
 * Pure functions over bytes, no I/O.
 */
#ifndef BX_WIRE_FRAME_H
#define BX_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define BX_WIRE_VERSION 1
#define BX_FRAME_HEADER 12u
#define BX_FRAME_DATA_MAX (64u * 1024u)       /* payload of DATA */
#define BX_FRAME_MSG_MAX (4u * 1024u * 1024u) /* payload of MSG: argv and env of an exec */
/* Bytes a sender may have under way on a channel before the receiver grants more. */
#define BX_WIRE_WINDOW (1024u * 1024u)

enum bx_frame_type {
    BX_FRAME_HELLO =
        1,            /* channel 0, first frame each way: u32 magic "BXL1", u32 version, u32 role */
    BX_FRAME_MSG = 2, /* channel 0: a message, see msg.h */
    BX_FRAME_DATA = 3,   /* bytes of a stream, never none */
    BX_FRAME_EOF = 4,    /* no more DATA on this channel; no payload */
    BX_FRAME_CREDIT = 5, /* u32, never 0: the receiver takes so many bytes more */
    BX_FRAME_RESET =
        6, /* the receiver wants no more of it (counts as endless credit, DATA is dropped) */
};

#define BX_WIRE_MAGIC 0x314c5842u /* "BXL1" */
enum bx_wire_role { BX_ROLE_SHIM = 1, BX_ROLE_AGENT = 2, BX_ROLE_CLIENT = 3 };

struct bx_frame {
    uint32_t length;
    uint32_t channel;
    uint8_t type;
};

static inline uint32_t bx_get_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline void bx_put_le32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}
static inline uint64_t bx_get_le64(const uint8_t *p)
{
    return bx_get_le32(p) | (uint64_t)bx_get_le32(p + 4) << 32;
}
static inline void bx_put_le64(uint8_t *p, uint64_t v)
{
    bx_put_le32(p, (uint32_t)v);
    bx_put_le32(p + 4, (uint32_t)(v >> 32));
}

void bx_frame_encode(const struct bx_frame *f, uint8_t out[BX_FRAME_HEADER]);
/* 0, or -EPROTO: unknown type, reserved not zero, a length over that type's maximum or not its fixed
 * one, channel not allowed for the type (HELLO, MSG: 0; the others: not 0). */
int bx_frame_decode(const uint8_t in[BX_FRAME_HEADER], struct bx_frame *ret);

#endif
