/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMM's devices, driven as a guest drives them: disk, network, the agent's port, balloon, serial
 * port; what a sound driver gets, and what a hostile one does not.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/serial_reg.h>
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "harness.h"
#include "vmm/kvm/dev/balloon.h"
#include "vmm/kvm/dev/blk.h"
#include "vmm/kvm/dev/console.h"
#include "vmm/kvm/dev/net.h"
#include "vmm/kvm/dev/serial.h"
#include "vmm_driver.h"

static struct driver d;

/* ---- disk ---------------------------------------------------------------------------------------- */

#define HEADER DRIVER_DATA
#define STATUS (DRIVER_DATA + 0x100)
#define BYTES (DRIVER_DATA + 0x1000)
#define SECTORS 64

static struct bx_blk blk;
static int image = -1;

static void blk_start(bool read_only)
{
    uint8_t sector[512];

    image = memfd_create("image", MFD_CLOEXEC);
    ASSERT(image >= 0);
    for (unsigned i = 0; i < SECTORS; i++) {
        memset(sector, (int)i, sizeof(sector));
        ASSERT_EQ(bx_pwrite_full(image, sector, sizeof(sector), i * 512), 0);
    }
    driver_init(&d);
    ASSERT_OK(bx_blk_init(&blk, &d.mem, image, read_only, ERR));
    driver_attach(&d, &blk.v);
    driver_start(&d, 0);
}

static void blk_done(void)
{
    driver_done(&d);
    bx_close(&image);
}

/* One request; the status byte, or 255 if the device did not answer. */
static unsigned request(uint32_t type, uint64_t sector, uint32_t len)
{
    struct virtio_blk_outhdr *h = driver_at(&d, HEADER);
    bool write = type == VIRTIO_BLK_T_IN || type == VIRTIO_BLK_T_GET_ID;
    const struct piece all[] = {
        {HEADER, sizeof(*h), false}, {BYTES, len, write}, {STATUS, 1, true}};
    const struct piece bare[] = {all[0], all[2]};
    uint16_t before = driver_used(&d, 0);
    uint8_t *status = driver_at(&d, STATUS);

    *h = (struct virtio_blk_outhdr){.type = type, .sector = sector};
    *status = 0xee;
    driver_chain(&d, 0, 0, len ? all : bare, len ? 3 : 2);
    driver_notify(&d, 0);
    return driver_used(&d, 0) == (uint16_t)(before + 1) ? *status : 255;
}

TEST(a_disk_is_read_and_written)
{
    uint8_t got[512];

    blk_start(false);
    ASSERT_EQ(request(VIRTIO_BLK_T_IN, 5, 1024), VIRTIO_BLK_S_OK);
    ASSERT_EQ(*(uint8_t *)driver_at(&d, BYTES), 5);
    ASSERT_EQ(*(uint8_t *)driver_at(&d, BYTES + 512), 6);
    ASSERT_EQ(driver_used_len(&d, 0, 0), 1025);
    memset(driver_at(&d, BYTES), 0xab, 512);
    ASSERT_EQ(request(VIRTIO_BLK_T_OUT, 63, 512), VIRTIO_BLK_S_OK);
    ASSERT_EQ(pread(image, got, 512, 63 * 512), 512);
    ASSERT_EQ(got[511], 0xab);
    ASSERT_EQ(request(VIRTIO_BLK_T_FLUSH, 0, 0), VIRTIO_BLK_S_OK);
    ASSERT_EQ(request(VIRTIO_BLK_T_GET_ID, 0, 20), VIRTIO_BLK_S_OK);
    ASSERT_STREQ(driver_at(&d, BYTES), "boxlite");
    blk_done();
}

TEST(ranges_are_cleared)
{
    static const uint8_t zeros[512];
    struct virtio_blk_discard_write_zeroes *r;
    uint8_t got[512];

    blk_start(false);
    r = driver_at(&d, BYTES);
    *r = (struct virtio_blk_discard_write_zeroes){.sector = 8, .num_sectors = 8};
    ASSERT_EQ(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, sizeof(*r)), VIRTIO_BLK_S_OK);
    ASSERT_EQ(pread(image, got, 512, 15 * 512), 512);
    ASSERT_MEM(got, zeros, 512);
    *r = (struct virtio_blk_discard_write_zeroes){.sector = 16, .num_sectors = 8};
    ASSERT_EQ(request(VIRTIO_BLK_T_DISCARD, 0, sizeof(*r)), VIRTIO_BLK_S_OK);
    r->sector = SECTORS - 4; /* over the end */
    ASSERT_EQ(request(VIRTIO_BLK_T_DISCARD, 0, sizeof(*r)), VIRTIO_BLK_S_IOERR);
    r->sector = UINT64_MAX / 512 + 2; /* wraps in bytes */
    ASSERT_EQ(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, sizeof(*r)), VIRTIO_BLK_S_IOERR);
    *r = (struct virtio_blk_discard_write_zeroes){.num_sectors = 8, .flags = 2};
    ASSERT_EQ(request(VIRTIO_BLK_T_DISCARD, 0, sizeof(*r)), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(request(VIRTIO_BLK_T_DISCARD, 0, sizeof(*r) + 1), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(lseek(image, 0, SEEK_END), SECTORS * 512);
    blk_done();
}

TEST(requests_outside_of_the_disk_are_errors)
{
    blk_start(false);
    ASSERT_EQ(request(VIRTIO_BLK_T_IN, SECTORS, 512), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(request(VIRTIO_BLK_T_IN, SECTORS - 1, 1024), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(request(VIRTIO_BLK_T_OUT, UINT64_MAX, 512), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(request(VIRTIO_BLK_T_OUT, 0, 100), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(request(77, 0, 512), VIRTIO_BLK_S_UNSUPP);
    ASSERT_EQ(request(VIRTIO_BLK_T_IN, 0, 512), VIRTIO_BLK_S_OK);
    ASSERT_EQ(lseek(image, 0, SEEK_END), SECTORS * 512);
    blk_done();
}

TEST(a_read_only_disk_stays_as_it_is)
{
    uint8_t got[512];

    blk_start(true);
    memset(driver_at(&d, BYTES), 0xab, 512);
    ASSERT_EQ(request(VIRTIO_BLK_T_OUT, 3, 512), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, 16), VIRTIO_BLK_S_IOERR);
    ASSERT_EQ(pread(image, got, 512, 3 * 512), 512);
    ASSERT_EQ(got[0], 3);
    blk_done();
}

TEST(what_is_no_request_breaks_the_disk)
{
    const struct piece no_status[] = {{HEADER, 16, false}};
    const struct piece short_header[] = {{HEADER, 15, false}, {STATUS, 1, true}};

    blk_start(false);
    driver_chain(&d, 0, 0, no_status, 1);
    driver_notify(&d, 0);
    ASSERT(driver_broken(&d));
    driver_start(&d, 0);
    driver_chain(&d, 0, 0, short_header, 2);
    driver_notify(&d, 0);
    ASSERT(driver_broken(&d));
    blk_done();
}

/* ---- network ------------------------------------------------------------------------------------- */

enum { RX, TX };
#define NET_HEADER 12

static struct bx_net net;
static int wire[2] = {-1, -1};

static void net_start(uint64_t without)
{
    static const uint8_t mac[6] = {0x52, 0x54, 0, 1, 2, 3};

    ASSERT_EQ(bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, wire), 0);
    driver_init(&d);
    ASSERT_OK(bx_net_init(&net, &d.mem, wire[1], mac, ERR));
    driver_attach(&d, &net.v);
    driver_start(&d, without);
    bx_net_socket(&net, EPOLLOUT);
}

static void net_done(void)
{
    bx_net_done(&net);
    bx_gmem_done(&d.mem);
    bx_close(&wire[0]);
    bx_close(&wire[1]);
}

static void send_frame(size_t len)
{
    static uint8_t frame[4 + 70000];
    uint32_t prefix = htonl((uint32_t)len);

    memcpy(frame, &prefix, 4);
    for (size_t i = 0; i < len; i++) {
        frame[4 + i] = (uint8_t)i;
    }
    ASSERT_EQ(bx_write_full(wire[0], frame, 4 + len), 0);
    bx_net_socket(&net, EPOLLIN);
}

TEST(frames_come_to_the_guest)
{
    const struct piece buffer = {DRIVER_DATA, 1526, true};

    net_start(0);
    send_frame(100);
    ASSERT_EQ(driver_used(&d, RX), 0); /* it waits for a buffer */
    driver_chain(&d, RX, 0, &buffer, 1);
    driver_notify(&d, RX);
    ASSERT_EQ(driver_used(&d, RX), 1);
    ASSERT_EQ(driver_used_len(&d, RX, 0), NET_HEADER + 100);
    ASSERT_EQ(((uint8_t *)driver_at(&d, DRIVER_DATA))[NET_HEADER + 99], 99);
    ASSERT_EQ(((struct virtio_net_hdr_v1 *)driver_at(&d, DRIVER_DATA))->num_buffers, 1);
    net_done();
}

TEST(a_large_frame_takes_several_buffers_at_once)
{
    net_start(0);
    for (unsigned i = 0; i < 3; i++) {
        const struct piece buffer = {DRIVER_DATA + i * 0x1000, 1500, true};
        ASSERT_EQ(driver_used(&d, RX), 0); /* nothing is shown before all of it has room */
        driver_chain(&d, RX, i, &buffer, 1);
        driver_notify(&d, RX);
        if (i == 0) {
            send_frame(4000);
        }
    }
    ASSERT_EQ(driver_used(&d, RX), 3);
    ASSERT_EQ(((struct virtio_net_hdr_v1 *)driver_at(&d, DRIVER_DATA))->num_buffers, 3);
    ASSERT_EQ(driver_used_len(&d, RX, 2), NET_HEADER + 4000 - 3000);
    net_done();
}

TEST(frames_go_out_behind_their_length)
{
    const struct piece out[] = {{DRIVER_DATA, NET_HEADER + 10, false},
                                {DRIVER_DATA + 0x1000, 50, false}};
    uint8_t got[64];
    uint32_t len;

    net_start(0);
    memset(driver_at(&d, DRIVER_DATA + 0x1000), 7, 50);
    driver_chain(&d, TX, 0, out, 2);
    driver_notify(&d, TX);
    ASSERT_EQ(driver_used(&d, TX), 1);
    ASSERT_EQ(bx_read_full(wire[0], got, 64), 64);
    memcpy(&len, got, 4);
    ASSERT_EQ(ntohl(len), 60);
    ASSERT_EQ(got[63], 7);
    net_done();
}

/* A socket that takes frames only in part: the framing holds. */
TEST(a_full_socket_never_breaks_the_framing)
{
    const struct piece out = {DRIVER_DATA, NET_HEADER + 60000, false};
    static uint8_t got[4 + 60000];
    unsigned sent = 0;
    int small = 1;

    net_start(0);
    ASSERT_EQ(setsockopt(wire[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    for (; sent < 20; sent++) {
        driver_chain(&d, TX, sent, &out, 1);
    }
    driver_notify(&d, TX);
    ASSERT(driver_used(&d, TX) < sent);
    for (unsigned i = 0; i < sent; i++) {
        size_t have = 0;
        while (have < sizeof(got)) {
            ssize_t n = read(wire[0], got + have, sizeof(got) - have);
            have += n > 0 ? (size_t)n : 0;
            bx_net_socket(&net, EPOLLOUT);
        }
        uint32_t len;
        memcpy(&len, got, 4);
        ASSERT_EQ(ntohl(len), 60000);
    }
    ASSERT_EQ(driver_used(&d, TX), sent);
    net_done();
}

TEST(odd_frames_of_the_guest_are_dropped)
{
    const struct piece only_header = {DRIVER_DATA, NET_HEADER, false};
    const struct piece too_long = {DRIVER_DATA, NET_HEADER + BX_NET_FRAME_MAX + 1, false};
    const struct piece tiny_buffer = {DRIVER_DATA, 4, true};
    uint8_t byte;

    net_start(0);
    driver_chain(&d, TX, 0, &only_header, 1);
    driver_chain(&d, TX, 1, &too_long, 1);
    driver_notify(&d, TX);
    ASSERT_EQ(driver_used(&d, TX), 2);
    ASSERT_EQ(net.dropped, 2);
    ASSERT_EQ(read(wire[0], &byte, 1), -1);
    driver_chain(&d, RX, 0, &tiny_buffer, 1);
    send_frame(10);
    ASSERT(driver_broken(&d));
    net_done();
}

TEST(nonsense_from_the_network_ends_it)
{
    const uint32_t lengths[] = {0, htonl(BX_NET_FRAME_MAX + 1), UINT32_MAX};

    for (unsigned i = 0; i < 3; i++) {
        net_start(0);
        ASSERT_EQ(bx_write_full(wire[0], &lengths[i], 4), 0);
        bx_net_socket(&net, EPOLLIN);
        ASSERT(net.gone);
        ASSERT(!driver_broken(&d));
        net_done();
    }
}

/* ---- the agent's port ---------------------------------------------------------------------------- */

enum { PORT_RX, PORT_TX, CTL_RX, CTL_TX };
static struct bx_console console;

static void say(uint16_t event, uint16_t value)
{
    const struct piece out = {DRIVER_DATA, sizeof(struct virtio_console_control), false};

    *(struct virtio_console_control *)driver_at(&d, DRIVER_DATA) =
        (struct virtio_console_control){.event = event, .value = value};
    driver_chain(&d, CTL_TX, 0, &out, 1);
    driver_notify(&d, CTL_TX);
}

static const struct virtio_console_control *heard(unsigned i)
{
    return driver_at(&d, DRIVER_DATA + 0x2000 + i * 0x100);
}

static void console_start(void)
{
    ASSERT_EQ(bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, wire), 0);
    driver_init(&d);
    bx_console_init(&console, &d.mem, wire[1], "org.test");
    driver_attach(&d, &console.v);
    driver_start(&d, 0);
    bx_console_socket(&console, EPOLLOUT);
    for (unsigned i = 0; i < 6; i++) {
        const struct piece buffer = {DRIVER_DATA + 0x2000 + i * 0x100, 64, true};
        driver_chain(&d, CTL_RX, i, &buffer, 1);
    }
    say(VIRTIO_CONSOLE_DEVICE_READY, 1);
    say(VIRTIO_CONSOLE_PORT_READY, 1);
}

static void console_done(void)
{
    driver_done(&d);
    bx_close(&wire[0]);
    bx_close(&wire[1]);
}

TEST(the_port_introduces_itself)
{
    console_start();
    ASSERT_EQ(driver_used(&d, CTL_RX), 3);
    ASSERT_EQ(heard(0)->event, VIRTIO_CONSOLE_PORT_ADD);
    ASSERT_EQ(heard(1)->event, VIRTIO_CONSOLE_PORT_NAME);
    ASSERT_MEM(heard(1) + 1, "org.test", 8);
    ASSERT_EQ(heard(2)->event, VIRTIO_CONSOLE_PORT_OPEN);
    ASSERT_EQ(heard(2)->value, 1);
    console_done();
}

TEST(bytes_go_both_ways_once_the_port_is_open)
{
    const struct piece in = {DRIVER_DATA + 0x4000, 64, true},
                       out = {DRIVER_DATA + 0x5000, 5, false};
    char got[5];

    console_start();
    driver_chain(&d, PORT_RX, 0, &in, 1);
    ASSERT_EQ(write(wire[0], "hello", 5), 5);
    bx_console_socket(&console, EPOLLIN);
    ASSERT_EQ(driver_used(&d, PORT_RX), 0); /* nobody has opened it */
    say(VIRTIO_CONSOLE_PORT_OPEN, 1);
    ASSERT_EQ(driver_used(&d, PORT_RX), 1);
    ASSERT_EQ(driver_used_len(&d, PORT_RX, 0), 5);
    ASSERT_MEM(driver_at(&d, DRIVER_DATA + 0x4000), "hello", 5);
    memcpy(driver_at(&d, DRIVER_DATA + 0x5000), "there", 5);
    driver_chain(&d, PORT_TX, 0, &out, 1);
    driver_notify(&d, PORT_TX);
    ASSERT_EQ(read(wire[0], got, 5), 5);
    ASSERT_MEM(got, "there", 5);
    console_done();
}

TEST(a_host_that_hangs_up_is_told_to_the_guest)
{
    console_start();
    bx_close(&wire[0]);
    say(VIRTIO_CONSOLE_PORT_OPEN, 1);
    const struct piece in = {DRIVER_DATA + 0x4000, 64, true};
    driver_chain(&d, PORT_RX, 0, &in, 1);
    bx_console_socket(&console, EPOLLIN | EPOLLHUP);
    ASSERT_EQ(driver_used(&d, CTL_RX), 4);
    ASSERT_EQ(heard(3)->event, VIRTIO_CONSOLE_PORT_OPEN);
    ASSERT_EQ(heard(3)->value, 0);
    console_done();
}

TEST(odd_control_messages_are_ignored)
{
    const struct piece cut = {DRIVER_DATA, 3, false};

    console_start();
    driver_chain(&d, CTL_TX, 0, &cut, 1);
    driver_notify(&d, CTL_TX);
    say(0x7777, 1);
    ASSERT(!driver_broken(&d));
    ASSERT_EQ(driver_used(&d, CTL_RX), 3);
    console_done();
}

/* ---- balloon ------------------------------------------------------------------------------------- */

TEST(memory_that_the_guest_gives_away_is_free)
{
    static struct bx_balloon balloon;
    const struct piece pfns = {DRIVER_DATA, 4 * 5, false};
    const uint64_t page = DRIVER_DATA + 0x10000;
    const struct piece report = {page + 0x2000, 0x2000, true};

    driver_init(&d);
    bx_balloon_init(&balloon, &d.mem);
    driver_attach(&d, &balloon.v);
    driver_start(&d, 0);
    memset(driver_at(&d, page), 1, 0x4000);
    const uint32_t list[5] = {(uint32_t)(page >> 12), (uint32_t)(page >> 12) + 1, UINT32_MAX,
                              DRIVER_MEMORY >> 12, 0};
    memcpy(driver_at(&d, DRIVER_DATA), list, sizeof(list));
    driver_chain(&d, 0, 0, &pfns, 1);
    driver_notify(&d, 0);
    ASSERT_EQ(driver_used(&d, 0), 1);
    ASSERT_EQ(balloon.freed, 3 * 4096);
    ASSERT_EQ(*(uint8_t *)driver_at(&d, page + 0x1fff), 0);
    ASSERT_EQ(*(uint8_t *)driver_at(&d, page + 0x2000), 1);
    driver_chain(&d, 2, 0, &report, 1);
    driver_notify(&d, 2);
    ASSERT_EQ(balloon.freed, 5 * 4096);
    ASSERT_EQ(*(uint8_t *)driver_at(&d, page + 0x2000), 0);
    bx_balloon_resize(&balloon, 8 << 20);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_CONFIG), 2048);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG,
              VIRTIO_MMIO_INT_CONFIG);
    driver_done(&d);
}

/* ---- serial port --------------------------------------------------------------------------------- */

static void print(struct bx_serial *s, const char *text)
{
    for (; *text; text++) {
        bx_serial_write(s, UART_TX, (uint8_t)*text);
    }
}

TEST(lines_of_the_console_come_out)
{
    struct bx_serial s;
    char got[64] = "";

    ASSERT_EQ(bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, wire), 0);
    bx_serial_init(&s, wire[1]);
    print(&s, "one\ntwo");
    ASSERT_EQ(read(wire[0], got, sizeof(got)), 4);
    bx_serial_flush(&s);
    ASSERT_EQ(read(wire[0], got, sizeof(got)), 3);
    ASSERT_MEM(got, "two", 3);
    bx_serial_write(&s, UART_LCR, UART_LCR_DLAB); /* divisor, not a byte */
    bx_serial_write(&s, UART_TX, 'x');
    bx_serial_write(&s, UART_LCR, 0);
    ASSERT_EQ(s.bytes, 7);
    bx_serial_write(&s, UART_IER, UART_IER_THRI);
    ASSERT_EQ(bx_serial_read(&s, UART_IIR), UART_IIR_THRI);
    ASSERT_EQ(bx_serial_read(&s, UART_IIR), UART_IIR_NO_INT);
    bx_close(&wire[0]);
    bx_close(&wire[1]);
}

TEST(a_console_that_nobody_reads_never_blocks)
{
    struct bx_serial s;

    ASSERT_EQ(bx_socketpair(SOCK_STREAM | SOCK_NONBLOCK, wire), 0);
    bx_serial_init(&s, wire[1]);
    for (unsigned i = 0; i < 4096; i++) {
        print(&s, "a line that goes nowhere, as nobody is at the other end to take it from here\n");
    }
    ASSERT_GT(s.dropped, 0);
    bx_close(&wire[0]);
    bx_close(&wire[1]);
}
