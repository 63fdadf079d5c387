/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.h: Ethernet frames made by hand, for the tests of the network.
 */
#ifndef BX_TESTS_FRAMES_H
#define BX_TESTS_FRAMES_H

#include <stdint.h>
#include <string.h>

#define FRAME_GUEST 0x0a00020fu /* 10.0.2.15 */
#define FRAME_ROUTER 0x0a000202u

static inline void put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline void put32(uint8_t *p, uint32_t v)
{
    put16(p, v >> 16);
    put16(p + 2, v);
}

static inline uint32_t sum16(const uint8_t *p, size_t len, uint32_t sum)
{
    for (size_t i = 0; i + 1 < len; i += 2) {
        sum += (uint32_t)p[i] << 8 | p[i + 1];
    }
    return sum;
}

static inline uint32_t fold(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
}

static inline void put_ether(uint8_t *f, uint32_t type)
{
    memset(f, 0xff, 6);
    memcpy(f + 6, "\x52\x54\x00\x12\x34\x56", 6);
    put16(f + 12, type);
}

/* "Who has the router's address?" 42 bytes. */
static inline size_t make_arp(uint8_t *f)
{
    memset(f, 0, 42);
    put_ether(f, 0x0806);
    memcpy(f + 14, "\x00\x01\x08\x00\x06\x04\x00\x01", 8);
    memcpy(f + 22, f + 6, 6);
    put32(f + 28, FRAME_GUEST);
    put32(f + 38, FRAME_ROUTER);
    return 42;
}

/* A TCP SYN. 54 bytes. */
static inline size_t make_syn(uint8_t *f, uint32_t from, uint32_t to, uint16_t port)
{
    uint8_t *ip = f + 14, *tcp = f + 34;

    memset(f, 0, 54);
    put_ether(f, 0x0800);
    ip[0] = 0x45;
    put16(ip + 2, 40);
    ip[8] = 64;
    ip[9] = 6;
    put32(ip + 12, from);
    put32(ip + 16, to);
    put16(ip + 10, fold(sum16(ip, 20, 0)));
    put16(tcp, 40000);
    put16(tcp + 2, port);
    put32(tcp + 4, 1000);
    tcp[12] = 0x50;
    tcp[13] = 2;
    put16(tcp + 14, 65535);
    put16(tcp + 16, fold(sum16(tcp, 20, sum16(ip + 12, 8, 6 + 20))));
    return 54;
}

/* The stream form: length and frame, from a frame at p + 4. */
static inline size_t with_length(uint8_t *p, size_t len)
{
    put32(p, (uint32_t)len);
    return len + 4;
}

#endif
