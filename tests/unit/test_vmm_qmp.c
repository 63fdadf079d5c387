/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QMP: the reader of messages, and the client against a QEMU that this test plays.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/timeutil.h"
#include "harness.h"
#include "vmm/qemu/qmp.h"

#define GREETING                                                                                   \
    "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 22, \"minor\": 2, \"major\": 7}}, "            \
    "\"capabilities\": [\"oob\"]}}\r\n"

/* ---- Reader ---------------------------------------------------------------------------------- */

static struct bx_qmp_msg read_one(const char *text)
{
    struct bx_qmp_reader r = BX_QMP_READER_INIT;
    struct bx_qmp_msg msg = {0};

    ASSERT_OK(bx_qmp_reader_push(&r, text, strlen(text), ERR));
    ASSERT_EQ(bx_qmp_reader_next(&r, &msg, ERR), 1);
    bx_qmp_reader_done(&r);
    return msg;
}

static void refuses(const char *text, const char *why)
{
    struct bx_qmp_reader r = BX_QMP_READER_INIT;
    struct bx_qmp_msg msg = {0};

    ASSERT_OK(bx_qmp_reader_push(&r, text, strlen(text), ERR));
    ASSERT_FAILS(BOXLITE_E_ENGINE, bx_qmp_reader_next(&r, &msg, ERR));
    ASSERT_CONTAINS(err_message(), why);
    ASSERT_NULL(msg.json);
    bx_qmp_reader_done(&r);
}

TEST(reads_each_kind)
{
    struct bx_qmp_msg m = read_one(GREETING);
    ASSERT_EQ(m.kind, BX_QMP_GREETING);
    bx_qmp_msg_done(&m);

    m = read_one("{\"timestamp\": {}, \"event\": \"SHUTDOWN\", \"data\": {\"guest\": true}}\n");
    ASSERT_EQ(m.kind, BX_QMP_EVENT);
    ASSERT_STREQ(m.event, "SHUTDOWN");
    ASSERT(json_is_true(json_object_get(m.value, "guest")));
    bx_qmp_msg_done(&m);

    m = read_one("\r\n{\"event\": \"STOP\"}\n");
    ASSERT_STREQ(m.event, "STOP");
    ASSERT_NULL(m.value);
    bx_qmp_msg_done(&m);

    m = read_one("{\"return\": {}, \"id\": 7}\n");
    ASSERT_EQ(m.kind, BX_QMP_RETURN);
    ASSERT_EQ(m.id, 7);
    bx_qmp_msg_done(&m);

    m = read_one("{\"id\": 8, \"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}\n");
    ASSERT_EQ(m.kind, BX_QMP_ERROR);
    ASSERT_EQ(m.id, 8);
    ASSERT_STREQ(m.desc, "no");
    bx_qmp_msg_done(&m);
}

TEST(refuses_what_is_no_message)
{
    refuses("garbage\n", "QMP");
    refuses("{\"a\": 1}\n", "no known kind");
    refuses("[]\n", "no known kind");
    refuses("{\"event\": 5}\n", "event");
    refuses("{\"event\": \"X\", \"data\": 5}\n", "data");
    refuses("{\"error\": \"x\", \"id\": 1}\n", "error");
    refuses("{\"error\": {}, \"id\": 1}\n", "desc");
    refuses("{\"return\": {}, \"id\": -1}\n", "id");
    refuses("{\"return\": {}, \"id\": \"x\"}\n", "id");
}

TEST(refuses_a_line_without_end)
{
    struct bx_qmp_reader r = BX_QMP_READER_INIT;
    struct bx_qmp_msg msg = {0};
    char block[4096];

    memset(block, ' ', sizeof(block));
    while (bx_qmp_reader_room(&r) >= sizeof(block)) {
        ASSERT_OK(bx_qmp_reader_push(&r, block, sizeof(block), ERR));
        if (bx_qmp_reader_room(&r) > 0) {
            ASSERT_EQ(bx_qmp_reader_next(&r, &msg, ERR), 0);
        }
    }
    ASSERT_FAILS(BOXLITE_E_ENGINE, bx_qmp_reader_next(&r, &msg, ERR));
    ASSERT_CONTAINS(err_message(), "a line of over");
    bx_qmp_reader_done(&r);
}

TEST(takes_bytes_as_they_come)
{
    static const char text[] = "{\"event\": \"A\"}\r\n{\"event\": \"B\"}\r\n";
    struct bx_qmp_reader r = BX_QMP_READER_INIT;
    int found = 0;

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        struct bx_qmp_msg msg = {0};

        ASSERT_OK(bx_qmp_reader_push(&r, text + i, 1, ERR));
        if (bx_qmp_reader_next(&r, &msg, ERR) == 1) {
            ASSERT_EQ(msg.event[0], "AB"[found]);
            found++;
            bx_qmp_msg_done(&msg);
        }
    }
    ASSERT_EQ(found, 2);
    bx_qmp_reader_done(&r);
}

/* ---- Client ---------------------------------------------------------------------------------- */

struct client {
    struct bx_loop *loop;
    struct bx_qmp *qmp;
    int peer;
    int ready, events, replies, failures, closed;
    bool free_at_ready;
    char last[64], error[256];
};

static void on_ready(void *data)
{
    struct client *c = data;

    c->ready++;
    if (c->free_at_ready) {
        bx_qmp_free(c->qmp);
        c->qmp = NULL;
    }
}

static void on_event(void *data, const char *name, const json_t *value)
{
    struct client *c = data;

    c->events++;
    (void)snprintf(c->last, sizeof(c->last), "%s", name);
}

static void on_closed(void *data, const boxlite_error *error)
{
    struct client *c = data;

    c->closed++;
    (void)snprintf(c->error, sizeof(c->error), "%s", error ? boxlite_error_message(error) : "");
}

static void on_reply(void *data, const boxlite_error *error)
{
    struct client *c = data;

    c->replies++;
    c->failures += error != NULL;
    (void)snprintf(c->error, sizeof(c->error), "%s", error ? boxlite_error_message(error) : "");
}

static const struct bx_qmp_events client_events = {
    .ready = on_ready, .event = on_event, .closed = on_closed};

static void client_new(struct client *c)
{
    int pair[2];

    *c = (struct client){0};
    ASSERT_OK(bx_loop_new(&c->loop));
    ASSERT_OK(bx_socketpair(SOCK_STREAM, pair));
    c->peer = pair[0];
    ASSERT_OK(bx_qmp_new(c->loop, pair[1], &client_events, c, &c->qmp, ERR));
}

static void client_done(struct client *c)
{
    bx_qmp_free(c->qmp);
    bx_loop_free(c->loop);
    bx_close(&c->peer);
}

static void say(struct client *c, const char *text)
{
    ASSERT_OK(bx_write_full(c->peer, text, strlen(text)));
}

static void wait_for(struct client *c, const int *count, int value)
{
    uint64_t deadline = bx_deadline_ms(5000);

    while (*count < value) {
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(c->loop, bx_deadline_left_ms(deadline)));
    }
}

/* What the client has sent; it sends a line in one piece. */
static const char *hear(struct client *c)
{
    static char text[512];
    uint64_t deadline = bx_deadline_ms(5000);
    ssize_t n;

    while ((n = recv(c->peer, text, sizeof(text) - 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
        ASSERT(bx_now_mono() < deadline);
        ASSERT_OK(bx_loop_dispatch(c->loop, 10));
    }
    ASSERT_GT(n, 0);
    text[n] = '\0';
    return text;
}

static void negotiate(struct client *c)
{
    say(c, GREETING);
    ASSERT_STREQ(hear(c), "{\"execute\":\"qmp_capabilities\",\"id\":1}\n");
    say(c, "{\"return\": {}, \"id\": 1}\r\n");
    wait_for(c, &c->ready, 1);
}

TEST(negotiates_and_commands)
{
    struct client c;

    client_new(&c);
    ASSERT_FAILS(BOXLITE_E_STATE, bx_qmp_command(c.qmp, "stop", on_reply, ERR));
    negotiate(&c);
    ASSERT_OK(bx_qmp_command(c.qmp, "stop", on_reply, ERR));
    ASSERT_OK(bx_qmp_command(c.qmp, "cont", on_reply, ERR));
    ASSERT_STREQ(hear(&c), "{\"execute\":\"stop\",\"id\":2}\n{\"execute\":\"cont\",\"id\":3}\n");
    say(&c, "{\"event\": \"STOP\"}\n{\"error\": {\"desc\": \"never\"}, \"id\": 3}\n"
            "{\"return\": {}, \"id\": 2}\n");
    wait_for(&c, &c.replies, 2);
    ASSERT_EQ(c.failures, 1);
    ASSERT_EQ(c.events, 1);
    ASSERT_STREQ(c.last, "STOP");
    client_done(&c);
}

TEST(end_of_file_is_no_error)
{
    struct client c;

    client_new(&c);
    negotiate(&c);
    say(&c, "{\"event\": \"SHUTDOWN\"}\n");
    bx_close(&c.peer);
    wait_for(&c, &c.closed, 1);
    ASSERT_EQ(c.events, 1);
    ASSERT_STREQ(c.error, "");
    ASSERT_FAILS(BOXLITE_E_STATE, bx_qmp_command(c.qmp, "stop", on_reply, ERR));
    client_done(&c);
}

/* What breaks the protocol closes the client, with the reason, once. */
TEST(nonsense_closes_it)
{
    static const char *const nonsense[] = {"hello\n", GREETING, "{\"return\": {}, \"id\": 99}\n",
                                           "{\"error\": {\"desc\": \"x\"}}\n"};

    for (size_t i = 0; i < BX_ARRAY_SIZE(nonsense); i++) {
        struct client c;

        client_new(&c);
        negotiate(&c);
        say(&c, nonsense[i]);
        wait_for(&c, &c.closed, 1);
        ASSERT_CONTAINS(c.error, "QMP: ");
        say(&c, "{\"event\": \"X\"}\n");
        ASSERT_OK(bx_loop_dispatch(c.loop, 0));
        ASSERT_EQ(c.events, 0);
        ASSERT_EQ(c.closed, 1);
        client_done(&c);
    }
}

TEST(refused_negotiation_closes_it)
{
    struct client c;

    client_new(&c);
    say(&c, GREETING);
    (void)hear(&c);
    say(&c, "{\"error\": {\"desc\": \"not today\"}, \"id\": 1}\n");
    wait_for(&c, &c.closed, 1);
    ASSERT_CONTAINS(c.error, "not today");
    ASSERT_EQ(c.ready, 0);
    client_done(&c);
}

TEST(may_be_freed_in_a_callback)
{
    struct client c;

    client_new(&c);
    c.free_at_ready = true;
    say(&c, GREETING);
    (void)hear(&c);
    say(&c, "{\"return\": {}, \"id\": 1}\n{\"event\": \"X\"}\n");
    wait_for(&c, &c.ready, 1);
    ASSERT_EQ(c.events, 0);
    client_done(&c);
}

TEST(drain_reads_all_there_is)
{
    struct client c;

    client_new(&c);
    negotiate(&c);
    for (int i = 0; i < 100; i++) {
        say(&c, "{\"event\": \"RTC_CHANGE\", \"data\": {\"offset\": 0}}\r\n");
    }
    bx_close(&c.peer);
    bx_qmp_drain(c.qmp);
    ASSERT_EQ(c.events, 100);
    ASSERT_EQ(c.closed, 1);
    client_done(&c);
}

TEST(too_many_commands_are_refused)
{
    struct client c;
    int sent = 0;

    client_new(&c);
    negotiate(&c);
    while (sent < 100 && bx_qmp_command(c.qmp, "stop", NULL, NULL) == 0) {
        sent++;
    }
    ASSERT_EQ(sent, 16);
    ASSERT_FAILS(BOXLITE_E_BUSY, bx_qmp_command(c.qmp, "stop", NULL, ERR));
    client_done(&c);
}
