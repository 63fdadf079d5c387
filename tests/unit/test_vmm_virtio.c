/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMM's queues and their transport, with the rng device behind them: what a driver may do, and
 * that whatever else it does stops its own device and nothing more.
 */
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <stdlib.h>

#include "harness.h"
#include "vmm/kvm/dev/rng.h"
#include "vmm_driver.h"

#define NO_EVENT_IDX (1ull << VIRTIO_RING_F_EVENT_IDX)

static struct driver d;
static struct bx_virtio rng;

static void start(uint64_t without)
{
    driver_init(&d);
    bx_rng_init(&rng, &d.mem);
    driver_attach(&d, &rng);
    driver_start(&d, without);
}

static const struct piece in = {DRIVER_DATA, 64, true};

static bool works(void)
{
    uint16_t before = driver_used(&d, 0);

    driver_chain(&d, 0, 0, &in, 1);
    driver_notify(&d, 0);
    return driver_used(&d, 0) == (uint16_t)(before + 1);
}

TEST(a_driver_gets_what_it_asks_for)
{
    static const uint8_t zeros[64];

    start(0);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_MAGIC_VALUE), 0x74726976);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_VERSION), 2);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_DEVICE_ID), 4);
    ASSERT(works());
    ASSERT_EQ(driver_used_len(&d, 0, 0), 64);
    ASSERT(memcmp(driver_at(&d, DRIVER_DATA), zeros, 64) != 0);
    driver_done(&d);
}

TEST(the_ring_goes_round)
{
    start(0);
    for (unsigned i = 0; i < 70000; i++) { /* past the end of its 16-bit indices */
        ASSERT(works());
    }
    driver_done(&d);
}

TEST(indirect_tables_are_followed)
{
    start(0);
    struct vring_desc *table = driver_at(&d, DRIVER_DATA + 0x1000);
    table[0] = (struct vring_desc){DRIVER_DATA, 16, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE, 2};
    table[2] = (struct vring_desc){DRIVER_DATA + 64, 16, VRING_DESC_F_WRITE, 0};
    driver_desc(&d, 0)[3] = (struct vring_desc){DRIVER_DATA + 0x1000, 48, VRING_DESC_F_INDIRECT, 0};
    driver_offer(&d, 0, 3);
    driver_notify(&d, 0);
    ASSERT_EQ(driver_used(&d, 0), 1);
    ASSERT_EQ(driver_used_len(&d, 0, 0), 32);
    driver_done(&d);
}

TEST(interrupts_come_when_the_driver_wants_them)
{
    start(NO_EVENT_IDX);
    ASSERT(works());
    ASSERT_EQ(rng.n.interrupts, 1);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
    driver_set(&d, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_INTERRUPT_STATUS), 0);
    ((struct vring_avail *)driver_at(&d, DRIVER_RINGS + 0x2000))->flags =
        VRING_AVAIL_F_NO_INTERRUPT;
    ASSERT(works());
    ASSERT_EQ(rng.n.interrupts, 1);
    driver_done(&d);
}

TEST(with_event_indices_only_the_awaited_entry_interrupts)
{
    start(0);
    struct vring_avail *avail = driver_at(&d, DRIVER_RINGS + 0x2000);
    avail->ring[rng.vq[0].s.size] = 2; /* used_event: tell me of the third */
    ASSERT(works() && works());
    ASSERT_EQ(rng.n.interrupts, 0);
    ASSERT(works());
    ASSERT_EQ(rng.n.interrupts, 1);
    driver_done(&d);
}

/* ---- hostile chains ------------------------------------------------------------------------------ */

/* Each fills entry 0 (and more) of the descriptor table. */
static void loop(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 8, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 1};
    t[1] = (struct vring_desc){DRIVER_DATA, 8, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 0};
}

static void own_loop(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 8, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 0};
}

static void next_past_the_table(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 8, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 8};
}

static void outside(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_MEMORY, 8, VRING_DESC_F_WRITE, 0};
}

static void over_the_end(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_MEMORY - 4, 8, VRING_DESC_F_WRITE, 0};
}

static void address_wraps(struct vring_desc *t)
{
    t[0] = (struct vring_desc){UINT64_MAX - 3, 8, VRING_DESC_F_WRITE, 0};
}

static void huge(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, UINT32_MAX, VRING_DESC_F_WRITE, 0};
}

static void empty(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 0, VRING_DESC_F_WRITE, 0};
}

static void read_behind_write(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 8, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 1};
    t[1] = (struct vring_desc){DRIVER_DATA, 8, 0, 0};
}

static void table_in_a_table(struct vring_desc *t)
{
    struct vring_desc *inner = driver_at(&d, DRIVER_DATA);

    inner[0] = (struct vring_desc){DRIVER_DATA, 16, VRING_DESC_F_INDIRECT, 0};
    t[0] = (struct vring_desc){DRIVER_DATA, 16, VRING_DESC_F_INDIRECT, 0};
}

static void odd_table(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 17, VRING_DESC_F_INDIRECT, 0};
}

static void empty_table(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 0, VRING_DESC_F_INDIRECT, 0};
}

static void table_outside(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_MEMORY - 8, 16, VRING_DESC_F_INDIRECT, 0};
}

static void table_that_goes_on(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 16, VRING_DESC_F_INDIRECT | VRING_DESC_F_NEXT, 1};
    t[1] = (struct vring_desc){DRIVER_DATA, 16, VRING_DESC_F_WRITE, 1};
}

static void long_table(struct vring_desc *t)
{
    t[0] = (struct vring_desc){DRIVER_DATA, 16 * (BX_CHAIN_MAX + 1), VRING_DESC_F_INDIRECT, 0};
}

TEST(hostile_chains_stop_their_device_until_it_is_reset)
{
    static void (*const chains[])(struct vring_desc *) = {
        loop,          own_loop,   next_past_the_table, outside,   over_the_end,     address_wraps,
        huge,          empty,      read_behind_write,   odd_table, table_in_a_table, empty_table,
        table_outside, long_table, table_that_goes_on};

    for (unsigned i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        start(0);
        ASSERT(works());
        chains[i](driver_desc(&d, 0));
        driver_offer(&d, 0, 0);
        driver_notify(&d, 0);
        ASSERT(driver_broken(&d));
        ASSERT_EQ(driver_used(&d, 0), 1);
        ASSERT(!works());
        driver_start(&d, 0); /* with a reset, as a driver does */
        ASSERT(!driver_broken(&d));
        ASSERT(works());
        driver_done(&d);
    }
}

TEST(hostile_indices_break_the_device)
{
    start(0);
    driver_offer(&d, 0, 64); /* no such entry */
    driver_notify(&d, 0);
    ASSERT(driver_broken(&d));
    driver_start(&d, 0);
    ((struct vring_avail *)driver_at(&d, DRIVER_RINGS + 0x2000))->idx = 65; /* more than it holds */
    driver_notify(&d, 0);
    ASSERT(driver_broken(&d));
    ASSERT_EQ(rng.n.breaks, 2);
    driver_done(&d);
}

/* ---- hostile registers --------------------------------------------------------------------------- */

TEST(queues_that_lie_outside_of_memory_are_refused)
{
    static const struct {
        uint32_t reg, value;
    } bad[] = {{VIRTIO_MMIO_QUEUE_DESC_LOW, DRIVER_MEMORY},
               {VIRTIO_MMIO_QUEUE_DESC_HIGH, 1},
               {VIRTIO_MMIO_QUEUE_AVAIL_LOW, DRIVER_MEMORY - 16},
               {VIRTIO_MMIO_QUEUE_USED_LOW, DRIVER_MEMORY - 16},
               {VIRTIO_MMIO_QUEUE_DESC_LOW, DRIVER_RINGS + 8},
               {VIRTIO_MMIO_QUEUE_NUM, 3},
               {VIRTIO_MMIO_QUEUE_NUM, 0},
               {VIRTIO_MMIO_QUEUE_NUM, 65536 + 8},
               {VIRTIO_MMIO_QUEUE_NUM, 16}};

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        start(0);
        driver_set(&d, VIRTIO_MMIO_QUEUE_SEL, 0);
        driver_set(&d, VIRTIO_MMIO_QUEUE_READY, 0);
        driver_set(&d, VIRTIO_MMIO_QUEUE_NUM, 8);
        driver_set(&d, VIRTIO_MMIO_QUEUE_DESC_LOW, DRIVER_RINGS);
        driver_set(&d, VIRTIO_MMIO_QUEUE_AVAIL_LOW, DRIVER_RINGS + 0x2000);
        driver_set(&d, VIRTIO_MMIO_QUEUE_USED_LOW, DRIVER_RINGS + 0x3000);
        driver_set(&d, bad[i].reg, bad[i].value);
        driver_set(&d, VIRTIO_MMIO_QUEUE_READY, 1);
        ASSERT(driver_broken(&d));
        ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_QUEUE_READY), 0);
        driver_done(&d);
    }
}

TEST(a_ready_queue_does_not_move)
{
    start(0);
    driver_set(&d, VIRTIO_MMIO_QUEUE_SEL, 0);
    driver_set(&d, VIRTIO_MMIO_QUEUE_DESC_LOW, DRIVER_MEMORY);
    driver_set(&d, VIRTIO_MMIO_QUEUE_NUM, 4);
    ASSERT(works());
    driver_done(&d);
}

TEST(features_that_were_not_offered_are_not_agreed)
{
    start(0);
    driver_set(&d, VIRTIO_MMIO_STATUS, 0);
    driver_set(&d, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
    driver_set(&d, VIRTIO_MMIO_DRIVER_FEATURES, UINT32_MAX);
    driver_set(&d, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_FEATURES_OK);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_STATUS), 0);
    driver_set(&d, VIRTIO_MMIO_DRIVER_FEATURES, 0); /* not even VERSION_1 */
    driver_set(&d, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_FEATURES_OK | VIRTIO_CONFIG_S_DRIVER_OK);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_STATUS), 0);
    driver_done(&d);
}

TEST(selectors_and_widths_out_of_range_do_nothing)
{
    uint64_t eight = UINT64_MAX;
    uint8_t one = 0xff;

    start(0);
    driver_set(&d, VIRTIO_MMIO_QUEUE_SEL, 4096);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
    driver_set(&d, VIRTIO_MMIO_QUEUE_READY, 1);
    driver_set(&d, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 7);
    ASSERT_EQ(driver_get(&d, VIRTIO_MMIO_DEVICE_FEATURES), 0);
    bx_virtio_read(&rng, VIRTIO_MMIO_MAGIC_VALUE, &one, 1);
    ASSERT_EQ(one, 0);
    bx_virtio_read(&rng, VIRTIO_MMIO_CONFIG, &eight, 8); /* rng has no config space */
    ASSERT_EQ(eight, 0);
    bx_virtio_write(&rng, VIRTIO_MMIO_CONFIG + 4, &eight, 8);
    bx_virtio_write(&rng, BX_VIRTIO_SPAN - 1, &one, 1);
    ASSERT(works());
    driver_done(&d);
}

TEST(nothing_is_taken_before_the_driver_is_ready)
{
    start(0);
    driver_set(&d, VIRTIO_MMIO_STATUS, 0);
    driver_chain(&d, 0, 0, &in, 1);
    driver_notify(&d, 0);
    ASSERT_EQ(driver_used(&d, 0), 0);
    driver_done(&d);
}
