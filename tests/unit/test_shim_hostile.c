/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of every shape, by a generator that always makes the same ones: from clients, none of which may hurt
 * another, and from a guest, which may lose its box and nothing more.
 */
#include <stdlib.h>

#include "shim_fixture.h"

static struct fx fx;
static uint64_t seed;

static uint64_t draw(uint64_t below) /* xorshift64 */
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

/* Small numbers hit what exists, large ones the bounds. */
static uint64_t some_number(void)
{
    static const uint64_t large[] = {UINT64_MAX, INT64_MAX, UINT32_MAX, 1u << 28, 65536, 4096};
    return draw(4) ? draw(6) : large[draw(BX_ARRAY_SIZE(large))];
}

static void some_field(struct bx_buf *b)
{
    static const char text[] = "A=b/../\xff\n\0x";
    uint16_t tag = (uint16_t)(1 + draw(56));
    if (draw(3)) {
        ASSERT_OK(bx_msg_u64(b, tag, some_number()));
    } else {
        ASSERT_OK(bx_msg_bytes(b, tag, text, draw(sizeof(text))));
    }
}

static void some_message(struct bx_buf *b, uint16_t first, uint16_t last, uint64_t request)
{
    ASSERT_OK(bx_msg_begin(b, (uint16_t)(first + draw(last - first + 1u))));
    if (request) {
        ASSERT_OK(bx_msg_u64(b, BX_T_REQUEST, request));
    }
    for (uint64_t n = draw(7); n > 0; n--) {
        some_field(b);
    }
    if (draw(4) == 0) {
        ASSERT_OK(bx_msg_str(b, BX_T_ARG, "x"));
    }
}

/* Stop and pause would end the test too early; they have tests of their own. */
static bool is_tame(const struct bx_buf *b)
{
    struct bx_msg m;
    uint16_t type = bx_msg_parse(bx_buf_data(b), b->len, &m) == 0 ? m.type : BX_SH_STOP;
    return type != BX_SH_STOP && type != BX_SH_PAUSE && type != BX_SH_RESUME;
}

static void rogue_client(unsigned messages)
{
    struct fx_client *c = fx_connect(&fx);
    struct bx_buf b = BX_BUF_INIT(65536);
    c->ignore = true;
    for (unsigned i = 0; i < messages && !c->closed; i++) {
        some_message(&b, 60, 80, draw(20) ? i + 1 : 0);
        if (!is_tame(&b) || bx_conn_msg(c->conn, &b) < 0) {
            continue;
        }
        for (uint32_t channel = 4; channel < 12; channel++) {
            (void)bx_conn_open(c->conn, channel);
            (void)bx_conn_send(c->conn, channel, "input", draw(6));
        }
        bx_conn_io_kick(c->io);
        fx_settle(&fx);
    }
    bx_buf_done(&b);
    fx_disconnect(c);
    fx_settle(&fx);
    fx.nclients--; /* its place is used again */
    fx_forget(c);
}

TEST_FOR(no_request_hurts_another_client, 120)
{
    fx_init(&fx);
    fx.config.detached = true;
    struct fx_client *c = fx_run(&fx);
    uint32_t n = (uint32_t)fx_exec(c, true, false);
    ASSERT_EQ(fx_attach(c, 1, n, 0), 0);
    for (seed = 1; seed < 60; seed = seed % 1000 + 1) {
        uint64_t round = seed;
        rogue_client(60);
        seed = round;
        fx_output(&fx, n, BX_STREAM_OUT, "x", 1);
        FX_UNTIL(&fx, c->streams[1][1].bytes == round);
    }
    ASSERT_EQ(fx_ask(c, BX_SH_STATUS, 0), 0);
    ASSERT_EQ(fx_answer(c, BX_T_STATE), BOXLITE_BOX_RUNNING);
    ASSERT_EQ(fx.shim->nclients, 1);
    fx_done(&fx);
}

TEST_FOR(no_message_of_a_guest_hurts_more_than_its_box, 120)
{
    for (unsigned round = 1; round <= 60; round++) {
        struct bx_buf b = BX_BUF_INIT(65536);
        seed = round * 7919u;
        fx_init_again(&fx, round > 1);
        fx.config.detached = true;
        fx.world.panic_ms = 1;
        struct fx_client *c = fx_run(&fx);
        for (int i = 0; i < 3; i++) {
            ASSERT_GT(fx_exec(c, i == 1, i == 2), 0);
        }
        ASSERT_EQ(fx_attach(c, 1, 2, 0), 0);
        for (unsigned i = 0; i < 100 && fx.agent && !fx.agent_closed; i++) {
            some_message(&b, 30, 40, draw(3));
            ASSERT_OK(bx_conn_msg(fx.agent, &b));
            (void)bx_conn_send(fx.agent, (uint32_t)(8 + draw(12)), "output", draw(7));
            if (draw(20) == 0) {
                (void)bx_conn_send_eof(fx.agent, (uint32_t)(8 + draw(12)));
            }
            bx_conn_io_kick(fx.agent_io);
            fx_settle(&fx);
        }
        if (c->state != BOXLITE_BOX_RUNNING || !fx.agent || fx.agent_closed) {
            FX_UNTIL(&fx, c->state == BOXLITE_BOX_STOPPED);
            ASSERT_EQ(c->code, BOXLITE_E_GUEST);
        } else {
            ASSERT_EQ(fx_ask(c, BX_SH_STATUS, 0), 0);
        }
        bx_buf_done(&b);
        fx_done(&fx);
    }
}
