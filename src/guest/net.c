/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.c: see net.h. The classic ioctls of IPv4 are enough: one address, one default route.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "guest/boot.h"
#include "guest/net.h"

#define INTERFACE "eth0"
#define DEVICE_WAIT_MS 5000

static void request_init(struct ifreq *ifr, const char *name)
{
    *ifr = (struct ifreq){0};
    (void)snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", name);
}

static int link_up(int fd, const char *name)
{
    struct ifreq ifr;
    request_init(&ifr, name);
    if (ioctl(fd, SIOCGIFFLAGS, &ifr) < 0) {
        return -errno;
    }
    ifr.ifr_flags |= IFF_UP | IFF_RUNNING;
    return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static struct sockaddr_in ipv4(struct in_addr addr)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = addr};
}

static int set_address(int fd, unsigned long what, struct in_addr addr)
{
    struct ifreq ifr;
    struct sockaddr_in sin = ipv4(addr);
    request_init(&ifr, INTERFACE);
    memcpy(&ifr.ifr_addr, &sin, sizeof(sin));
    return ioctl(fd, what, &ifr) < 0 ? -errno : 0;
}

/* "10.0.2.15/24" */
static int parse_address(const char *text, struct in_addr *addr, struct in_addr *mask)
{
    char buf[INET_ADDRSTRLEN];
    uint64_t bits;
    size_t len = strcspn(text, "/");
    if (len >= sizeof(buf) || text[len] != '/' || bx_parse_u64(text + len + 1, 32, &bits) < 0) {
        return -EINVAL;
    }
    memcpy(buf, text, len);
    buf[len] = 0;
    mask->s_addr = htonl(bits ? UINT32_MAX << (32 - bits) : 0);
    return inet_pton(AF_INET, buf, addr) == 1 ? 0 : -EINVAL;
}

static int add_default_route(int fd, const char *gateway)
{
    struct in_addr gw;
    if (inet_pton(AF_INET, gateway, &gw) != 1) {
        return -EINVAL;
    }
    struct sockaddr_in any = ipv4((struct in_addr){0});
    struct sockaddr_in via = ipv4(gw);
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY, .rt_dev = (char *)INTERFACE};
    memcpy(&route.rt_dst, &any, sizeof(any));
    memcpy(&route.rt_genmask, &any, sizeof(any));
    memcpy(&route.rt_gateway, &via, sizeof(via));
    return ioctl(fd, SIOCADDRT, &route) < 0 ? -errno : 0;
}

static int setup_interface(int fd, const struct config *cfg, struct failure *f)
{
    struct in_addr addr, mask;
    int r = boot_wait_file("/sys/class/net/" INTERFACE, bx_deadline_ms(DEVICE_WAIT_MS));
    if (r < 0) {
        return failure_set(f, r, "waiting for the network device %s", INTERFACE);
    }
    if (parse_address(cfg->net_addr, &addr, &mask) < 0) {
        return failure_say(f, EINVAL, "not an address: %.60s", cfg->net_addr);
    }
    if (cfg->net_mtu > 0) {
        struct ifreq ifr;
        request_init(&ifr, INTERFACE);
        ifr.ifr_mtu = (int)cfg->net_mtu;
        r = ioctl(fd, SIOCSIFMTU, &ifr) < 0 ? -errno : 0;
    }
    r = r < 0 ? r : set_address(fd, SIOCSIFADDR, addr);
    r = r < 0 ? r : set_address(fd, SIOCSIFNETMASK, mask);
    r = r < 0 ? r : link_up(fd, INTERFACE);
    r = r < 0 || !cfg->net_gateway ? r : add_default_route(fd, cfg->net_gateway);
    return r < 0 ? failure_set(f, r, "setting %s up (%.60s)", INTERFACE, cfg->net_addr) : 0;
}

/* As in Docker: any user may listen on any port and send pings. Absent settings do not matter. */
static void relax(const char *path, const char *value)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)bx_write_full(fd, value, strlen(value));
    }
}

int net_setup(const struct config *cfg, struct failure *f)
{
    _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return cfg->net_addr ? failure_set(f, errno, "opening a socket")
                             : 0; /* a kernel without network */
    }
    int r = link_up(fd, "lo");
    if (r < 0 && r != -ENODEV) {
        return failure_set(f, r, "setting the loopback interface up");
    }
    relax("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    relax("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
    return cfg->net_addr ? setup_interface(fd, cfg, f) : 0;
}
