/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_frame.c: headers of frames, and messages.
 */
#include <errno.h>
#include <stdlib.h>

#include "harness.h"
#include "wire/frame.h"
#include "wire/msg.h"
#include "wire/proto.h"

static int decode(uint32_t length, uint32_t channel, uint8_t type)
{
    struct bx_frame in = {.length = length, .channel = channel, .type = type};
    struct bx_frame out;
    uint8_t head[BX_FRAME_HEADER];
    bx_frame_encode(&in, head);
    int r = bx_frame_decode(head, &out);
    if (r == 0) {
        ASSERT_EQ(out.length, length);
        ASSERT_EQ(out.channel, channel);
        ASSERT_EQ(out.type, type);
    }
    return r;
}

TEST(the_layout_is_little_endian)
{
    static const uint8_t want[BX_FRAME_HEADER] = {4, 3, 0, 0, 0x44, 0x33, 0x22, 0x11, 3, 0, 0, 0};
    struct bx_frame f = {.length = 0x0304, .channel = 0x11223344, .type = BX_FRAME_DATA};
    uint8_t head[BX_FRAME_HEADER];
    bx_frame_encode(&f, head);
    ASSERT_MEM(head, want, sizeof(want));
}

TEST(each_type_has_its_lengths_and_channels)
{
    static const struct {
        uint8_t type;
        uint32_t length;
        uint32_t channel;
        int result;
    } rows[] = {
        {BX_FRAME_HELLO, 12, 0, 0},
        {BX_FRAME_HELLO, 11, 0, -EPROTO},
        {BX_FRAME_HELLO, 13, 0, -EPROTO},
        {BX_FRAME_HELLO, 12, 1, -EPROTO},
        {BX_FRAME_MSG, 2, 0, 0},
        {BX_FRAME_MSG, 1, 0, -EPROTO},
        {BX_FRAME_MSG, BX_FRAME_MSG_MAX, 0, 0},
        {BX_FRAME_MSG, BX_FRAME_MSG_MAX + 1, 0, -EPROTO},
        {BX_FRAME_MSG, 2, 5, -EPROTO},
        {BX_FRAME_DATA, 1, 5, 0},
        {BX_FRAME_DATA, BX_FRAME_DATA_MAX, 5, 0},
        {BX_FRAME_DATA, BX_FRAME_DATA_MAX + 1, 5, -EPROTO},
        {BX_FRAME_DATA, 0, 5, -EPROTO},
        {BX_FRAME_DATA, 1, 0, -EPROTO},
        {BX_FRAME_EOF, 0, UINT32_MAX, 0},
        {BX_FRAME_EOF, 1, 5, -EPROTO},
        {BX_FRAME_EOF, 0, 0, -EPROTO},
        {BX_FRAME_CREDIT, 4, 5, 0},
        {BX_FRAME_CREDIT, 3, 5, -EPROTO},
        {BX_FRAME_CREDIT, 4, 0, -EPROTO},
        {BX_FRAME_RESET, 0, 5, 0},
        {BX_FRAME_RESET, 4, 5, -EPROTO},
        {0, 0, 0, -EPROTO},
        {0, 1, 0, -EPROTO},
        {7, 0, 5, -EPROTO},
        {255, 0, 5, -EPROTO},
        {BX_FRAME_DATA, UINT32_MAX, 5, -EPROTO},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (decode(rows[i].length, rows[i].channel, rows[i].type) != rows[i].result) {
            FAIL("row %zu", i);
        }
    }
}

TEST(reserved_bytes_must_be_zero)
{
    struct bx_frame f = {.length = 1, .channel = 5, .type = BX_FRAME_DATA};
    for (size_t i = 9; i < BX_FRAME_HEADER; i++) {
        uint8_t head[BX_FRAME_HEADER];
        bx_frame_encode(&f, head);
        head[i] = 1;
        ASSERT_EQ(bx_frame_decode(head, &f), -EPROTO);
    }
}

TEST(fields_come_back_as_they_were_written)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(1000);
    struct bx_msg m;
    struct bx_field f;
    _cleanup_free_ char *s = NULL;
    uint64_t v;
    ASSERT_EQ(bx_msg_begin(&b, BX_AG_EXEC), 0);
    ASSERT_EQ(bx_msg_u64(&b, BX_T_EXEC, UINT64_MAX), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ARG, "echo"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ARG, ""), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_CWD, NULL), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, "a\0b", 3), 0);
    ASSERT_EQ(bx_msg_parse(bx_buf_data(&b), b.len, &m), 0);
    ASSERT_EQ(m.type, BX_AG_EXEC);
    ASSERT_EQ(bx_msg_get_u64(&m, BX_T_EXEC, UINT64_MAX, &v), 0);
    ASSERT_EQ(v, UINT64_MAX);
    ASSERT_EQ(bx_msg_get_u64(&m, BX_T_EXEC, UINT64_MAX - 1, &v), -EPROTO);
    ASSERT_EQ(bx_msg_get_u64(&m, BX_T_ARG, UINT64_MAX, &v), -EPROTO);
    ASSERT_EQ(bx_msg_get_u64(&m, BX_T_PID, UINT64_MAX, &v), -ENOENT);
    ASSERT_EQ(bx_msg_get_str(&m, BX_T_ARG, &s), 0);
    ASSERT_STREQ(s, "echo");
    char *t = NULL;
    ASSERT_EQ(bx_msg_get_str(&m, BX_T_FILE, &t), -EPROTO);
    ASSERT_EQ(bx_msg_get_str(&m, BX_T_CWD, &t), -ENOENT);
    ASSERT_EQ(bx_msg_next(&m, &f), 1);
    ASSERT_EQ(bx_msg_next(&m, &f), 1);
    ASSERT_EQ(bx_msg_next(&m, &f), 1);
    ASSERT_EQ(f.tag, BX_T_ARG);
    ASSERT_EQ(f.len, 0);
    ASSERT_EQ(bx_msg_next(&m, &f), 1);
    ASSERT_EQ(f.len, 3);
    ASSERT_EQ(bx_msg_next(&m, &f), 0);
    ASSERT_EQ(bx_msg_next(&m, &f), 0);
}

TEST(a_message_that_is_cut_anywhere_is_refused)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(1000);
    ASSERT_EQ(bx_msg_begin(&b, BX_AG_PING), 0);
    ASSERT_EQ(bx_msg_u64(&b, BX_T_REQUEST, 7), 0);
    for (size_t len = 0; len < b.len; len++) {
        uint8_t *exact = malloc(len ? len : 1);
        struct bx_msg m;
        struct bx_field f;
        memcpy(exact, bx_buf_data(&b), len);
        int r = bx_msg_parse(exact, len, &m);
        r = r < 0 ? r : bx_msg_next(&m, &f);
        ASSERT_EQ(r, len == 2 ? 0 : -EPROTO); /* a type alone is a whole message */
        free(exact);
    }
}

TEST(a_field_over_the_buffers_maximum_leaves_it_as_it_was)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10);
    ASSERT_EQ(bx_msg_begin(&b, 1), 0);
    ASSERT_EQ(bx_msg_u64(&b, 1, 1), -ENOBUFS);
    ASSERT_EQ(bx_msg_bytes(&b, 1, "xy", 2), 0);
    ASSERT_EQ(bx_msg_bytes(&b, 1, "", 0), -ENOBUFS);
    ASSERT_EQ(bx_msg_bytes(&b, 1, "", SIZE_MAX), -ENOBUFS);
    ASSERT_EQ(b.len, 10);
}

TEST(strings_of_fields_survive_failing_allocations)
{
    TORTURE
    {
        struct bx_field f = {.tag = 1, .data = (const uint8_t *)"abc", .len = 3};
        char *s = NULL;
        int r = bx_field_str(&f, &s);
        ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 0);
        free(s);
    }
}
