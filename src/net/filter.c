/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.c: what may leave a guest.
 *
 * passt turns a guest's packets into connections of the host user's. It maps no address onto the
 * host when told so, but takes every destination as it comes: a guest that writes a packet to
 * 127.0.0.1 by hand reaches the host's loopback services (seen with passt 2023-03-09), and one that
 * writes to the host's own address passes its firewall, as the connection never leaves the host. So
 * only what is known to be harmless goes out: ARP, and IPv4 from the guest's own address to a
 * destination that is not the host, not local to a link (where clouds keep a machine's
 * credentials), and not a group. Nor the router: that is made up, and passt would look for its
 * address in the host's own network.
 *
 * Every fragment carries the addresses that are judged here, and passt looks at no others: IP
 * options cannot redirect it. The host's addresses are followed while the box runs (addresses.c);
 * when they are not known nothing but ARP goes out.
 */
#include "net/filter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <string.h>

#define ETHER_HEAD 14
#define IP_HEAD 20

static const struct {
    uint32_t net;
    uint32_t mask;
} denied[] = {
    {0x00000000, 0xff000000}, /* 0/8: "this host", which Linux takes for loopback */
    {0x7f000000, 0xff000000}, /* 127/8: loopback */
    {0xa9fe0000, 0xffff0000}, /* 169.254/16: link-local, metadata services */
    {0xe0000000, 0xe0000000}, /* 224/3: groups, reserved, broadcast */
};

int bx_net_filter_init(struct bx_net_filter *filter, uint32_t guest, uint32_t router)
{
    struct bx_net_filter f = {.guest = guest, .own = {router}, .nown = 1};
    struct ifaddrs *all = NULL;
    int r = 0;

    if (getifaddrs(&all) < 0) {
        return -errno;
    }
    for (const struct ifaddrs *a = all; a && r == 0; a = a->ifa_next) {
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET) {
            continue;
        }
        if (f.nown == BX_OWN_MAX) {
            r = -E2BIG;
            break;
        }
        struct sockaddr_in in;
        memcpy(&in, a->ifa_addr, sizeof(in));
        f.own[f.nown++] = ntohl(in.sin_addr.s_addr);
    }
    freeifaddrs(all);
    if (r == 0) {
        *filter = f;
    }
    return r;
}

void bx_net_filter_set_own(struct bx_net_filter *filter, const uint32_t *own, size_t n)
{
    filter->shut = !own || n > BX_OWN_MAX - 1;
    filter->nown = 1; /* the router's */
    for (size_t i = 0; !filter->shut && i < n; i++) {
        filter->own[filter->nown++] = own[i];
    }
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool destination_allowed(const struct bx_net_filter *filter, uint32_t addr)
{
    for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
        if ((addr & denied[i].mask) == denied[i].net) {
            return false;
        }
    }
    for (size_t i = 0; i < filter->nown; i++) {
        if (addr == filter->own[i]) {
            return false;
        }
    }
    return true;
}

static bool ipv4_allowed(const struct bx_net_filter *filter, const uint8_t *ip, size_t len)
{
    if (len < IP_HEAD || ip[0] >> 4 != 4) {
        return false;
    }
    size_t head = (size_t)(ip[0] & 15) * 4, total = (size_t)ip[2] << 8 | ip[3];
    if (head < IP_HEAD || total < head || total > len) {
        return false;
    }
    return !filter->shut && get32(ip + 12) == filter->guest &&
           destination_allowed(filter, get32(ip + 16));
}

bool bx_net_filter_allows(const struct bx_net_filter *filter, const uint8_t *frame, size_t len)
{
    if (len < ETHER_HEAD) {
        return false;
    }
    switch (frame[12] << 8 | frame[13]) {
    case ETHERTYPE_ARP:
        return true;
    case ETHERTYPE_IP:
        return ipv4_allowed(filter, frame + ETHER_HEAD, len - ETHER_HEAD);
    default:
        return false;
    }
}

int bx_net_filter_stream(const struct bx_net_filter *filter, struct bx_buf *in, struct bx_buf *out,
                         uint64_t *dropped)
{
    while (in->len >= 4 && out->max - out->len >= 4 + BX_FRAME_MAX) {
        const uint8_t *p = bx_buf_data(in);
        size_t len = get32(p);

        if (len > BX_FRAME_MAX) {
            return -EPROTO;
        }
        if (in->len < 4 + len) {
            break;
        }
        if (bx_net_filter_allows(filter, p + 4, len)) {
            int r = bx_buf_append(out, p, 4 + len);
            if (r < 0) {
                return r;
            }
        } else {
            (*dropped)++;
        }
        bx_buf_consume(in, 4 + len);
    }
    return 0;
}
