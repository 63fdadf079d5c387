/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_client.c: what a shim may send to the library, while a request, an attachment and an asynchronous call wait for it.
 * Whatever comes, the connection ends in order: each waiting one is told once.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "box/client.h"
#include "wire/frame.h"
#include "wire/proto.h"

struct seen {
    unsigned replies, closed, bytes;
    bool attached;
};

static void on_reply(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    struct seen *s = data;
    s->replies++;
    if (!reply == !error) {
        abort();
    }
}

static void on_bytes(void *data, unsigned stream, const uint8_t *p, size_t len)
{
    struct seen *s = data;
    for (size_t i = 0; i < len; i++) {
        s->bytes += p[i];
    }
}

static void on_stream(void *data, unsigned stream)
{
}

static void on_event(void *data)
{
}

static void on_closed(void *data)
{
    struct seen *s = data;
    s->closed++;
}

static const struct bx_attach_ops ops = {on_bytes, on_stream, on_event,
                                         on_event, on_event,  on_closed};

/* HELLO of a shim, so that inputs need not carry it. */
static void put_hello(int fd)
{
    uint8_t hello[BX_FRAME_HEADER + 12];
    const struct bx_frame f = {.length = 12, .channel = 0, .type = BX_FRAME_HELLO};
    bx_frame_encode(&f, hello);
    bx_put_le32(hello + BX_FRAME_HEADER, BX_WIRE_MAGIC);
    bx_put_le32(hello + BX_FRAME_HEADER + 4, BX_WIRE_VERSION);
    bx_put_le32(hello + BX_FRAME_HEADER + 8, BX_ROLE_SHIM);
    (void)bx_write_full(fd, hello, sizeof(hello));
}

static void talk(boxlite_runtime *rt, struct bx_client *c, struct seen *seen)
{
    struct bx_buf msg = BX_BUF_INIT(256);
    uint32_t attachment;
    if (bx_request_begin(c, &msg, BX_SH_LIST, NULL) < 0 ||
        bx_request_send(c, &msg, on_reply, seen, NULL, NULL) < 0 ||
        bx_client_attach(c, 1, &ops, seen, &attachment, NULL) < 0) {
        abort();
    }
    bx_buf_done(&msg);
    for (int i = 0; i < 64 && !bx_client_gone(c); i++) {
        if (bx_loop_dispatch(rt->loop, 0) < 0) {
            abort();
        }
    }
    if (!bx_client_gone(c) || seen->replies != 1 || seen->closed != 1 ||
        bx_client_state(c) != BOXLITE_BOX_STOPPED) {
        abort();
    }
    bx_client_detach(c, attachment, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    boxlite_runtime rt = {0};
    struct bx_client *c = NULL;
    struct seen seen = {0};
    int pair[2], dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (size > 60000 || dir < 0 || bx_loop_new(&rt.loop) < 0 ||
        bx_socketpair(SOCK_STREAM, pair) < 0) {
        bx_loop_free(rt.loop);
        bx_close(&dir);
        return 0;
    }
    put_hello(pair[1]);
    (void)bx_write_full(pair[1], data, size);
    (void)shutdown(pair[1], SHUT_WR);
    if (bx_client_new(&rt, "f", dir, pair[0], -1, &c, NULL) < 0) {
        abort();
    }
    talk(&rt, c, &seen);
    bx_client_unref(c);
    if (rt.clients) {
        abort();
    }
    bx_loop_free(rt.loop);
    (void)close(pair[1]);
    (void)close(dir);
    return 0;
}
