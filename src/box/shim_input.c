/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_input.c: a command's input, from the one client that writes it to the guest.
 *
 * Credit goes back to the client when its bytes are on their way to the guest, so what waits here
 * is at most a window of the present writer, and what earlier writers left (`in_foreign`, always
 * in front). A writer who goes leaves the input open: another may attach. Once the command reads
 * no more, every writer's bytes are swallowed and the writer is told by a reset.
 */
#include <errno.h>

#include "box/shim.h"

static void credit_writer(struct bx_shim_exec *e, size_t n)
{
    size_t foreign = n < e->in_foreign ? n : e->in_foreign;
    e->in_foreign -= foreign;
    struct bx_shim_reader *w = e->writer;
    if (w && n > foreign) {
        (void)bx_conn_consumed(w->client->conn, BX_CHANNEL(w->attachment, BX_STREAM_IN),
                               n - foreign);
        bx_conn_io_kick(w->client->io);
    }
}

static void finish_input(struct bx_shim_exec *e)
{
    if (e->in_eof && !e->in_eof_sent && e->in.len == 0) {
        e->in_eof_sent = true;
        (void)bx_conn_send_eof(e->shim->agent, BX_CHANNEL(e->number, BX_STREAM_IN));
        bx_conn_io_kick(e->shim->agent_io);
    }
}

static bool is_open(const struct bx_shim_exec *e)
{
    return e->shim->agent && !e->in_closed &&
           (e->state == BX_EXEC_SENT || e->state == BX_EXEC_RUNNING);
}

void bx_shim_exec_in_writable(struct bx_shim_exec *e)
{
    if (!is_open(e)) {
        return;
    }
    if (e->in.len > 0) {
        ssize_t n = bx_conn_send(e->shim->agent, BX_CHANNEL(e->number, BX_STREAM_IN),
                                 bx_buf_data(&e->in), e->in.len);
        if (n <= 0) {
            return;
        }
        bx_buf_consume(&e->in, (size_t)n);
        bx_conn_io_kick(e->shim->agent_io);
        credit_writer(e, (size_t)n);
    }
    finish_input(e);
}

void bx_shim_exec_input(struct bx_shim_exec *e, const uint8_t *p, size_t len)
{
    size_t taken = 0;
    if (e->in_closed) {
        credit_writer(e, len);
        return;
    }
    if (is_open(e) && e->in.len == 0) {
        ssize_t n = bx_conn_send(e->shim->agent, BX_CHANNEL(e->number, BX_STREAM_IN), p, len);
        taken = n > 0 ? (size_t)n : 0;
        bx_conn_io_kick(e->shim->agent_io);
        credit_writer(e, taken);
    }
    if (taken < len && bx_buf_append(&e->in, p + taken, len - taken) < 0) {
        bx_shim_client_drop(
            e->writer->client); /* writers in turn have filled it up, or no memory */
    }
}

void bx_shim_exec_input_eof(struct bx_shim_exec *e)
{
    e->in_eof = true;
    if (is_open(e)) {
        finish_input(e);
    }
}

void bx_shim_exec_in_closed(struct bx_shim_exec *e)
{
    if (e->in_closed) {
        return;
    }
    e->in_closed = true;
    size_t left = e->in.len;
    bx_buf_done(&e->in);
    credit_writer(e, left);
    struct bx_shim_reader *w = e->writer;
    if (w) {
        (void)bx_conn_send_reset(w->client->conn, BX_CHANNEL(w->attachment, BX_STREAM_IN));
        bx_conn_io_kick(w->client->io);
    }
}

void bx_shim_exec_writer_gone(struct bx_shim_exec *e)
{
    e->writer = NULL;
    e->in_foreign = e->in.len;
}
