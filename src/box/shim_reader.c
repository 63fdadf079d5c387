/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_reader.c: attachments: one client that follows one command's output, and perhaps writes its
 * input.
 *
 * A reader stands at an absolute offset of each stream. At the end of the spool new bytes are sent
 * to it straight from memory; anywhere else they are read back from the spool as the client's
 * credit allows, so each reader has its own pace. Two readers of one command know nothing of each
 * other; one client's connection holds them all.
 */
#include <errno.h>

#include "base/error.h"
#include "box/shim.h"

#define PUMP_SIZE (128u * 1024u)
/* Read back in one go before other sources of the loop get their turn: the connection's queue is
 * no bigger. */
#define PUMP_MAX BX_CONN_OUT_SOFT

static uint32_t channel_of(const struct bx_shim_reader *r, int which)
{
    return BX_CHANNEL(r->attachment, which + BX_STREAM_OUT);
}

struct bx_shim_reader *bx_shim_reader_find(struct bx_shim_client *client, uint32_t attachment)
{
    struct bx_shim_reader *r = client->readers;
    while (r && r->attachment != attachment) {
        r = r->next_of_client;
    }
    return r;
}

bool bx_shim_reader_done(const struct bx_shim_reader *r)
{
    return r->at[0].done && r->at[1].done;
}

static void close_channels(struct bx_shim_reader *r)
{
    for (int i = BX_STREAM_IN; i <= BX_STREAM_ERR; i++) {
        bx_conn_close(r->client->conn, BX_CHANNEL(r->attachment, i));
    }
}

static void place(struct bx_shim_reader *r, const struct bx_shim_attach *how)
{
    for (int i = 0; i < 2; i++) {
        const struct bx_spool *sp = &r->exec->out[i].spool;
        r->at[i].pos = how->offset[i] > sp->head ? how->offset[i] : sp->head;
        r->at[i].end = how->follow ? UINT64_MAX : sp->tail;
    }
}

static int check_attach(const struct bx_shim_client *client, const struct bx_shim_exec *exec,
                        const struct bx_shim_attach *how, boxlite_error **err)
{
    if (client->nreaders >= BX_SHIM_READERS_MAX) {
        return bx_fail(err, BOXLITE_E_BUSY, "%zu attachments on one connection", client->nreaders);
    }
    if (how->input && !exec->has_stdin) {
        return bx_fail(err, BOXLITE_E_STATE, "command %u was started without an input",
                       exec->number);
    }
    if (how->input && exec->writer) {
        return bx_fail(err, BOXLITE_E_BUSY, "someone else writes to command %u", exec->number);
    }
    return 0;
}

int bx_shim_reader_new(struct bx_shim_client *client, struct bx_shim_exec *exec,
                       const struct bx_shim_attach *how, struct bx_shim_reader **ret,
                       boxlite_error **err)
{
    int r = check_attach(client, exec, how, err);
    if (r < 0) {
        return r;
    }
    struct bx_shim_reader *reader = calloc(1, sizeof(*reader));
    if (!reader) {
        return bx_fail_oom(err);
    }
    *reader =
        (struct bx_shim_reader){.exec = exec, .client = client, .attachment = how->attachment};
    for (int i = BX_STREAM_IN; r == 0 && i <= BX_STREAM_ERR; i++) {
        r = bx_conn_open(client->conn, BX_CHANNEL(how->attachment, i));
    }
    if (r < 0) {
        if (r != -EEXIST) {
            close_channels(reader);
        }
        free(reader);
        return bx_fail_errno(err, BOXLITE_E_INVALID, r, "attachment %u", how->attachment);
    }
    place(reader, how);
    reader->next_of_exec = exec->readers;
    exec->readers = reader;
    reader->next_of_client = client->readers;
    client->readers = reader;
    client->nreaders++;
    if (how->input) {
        exec->writer = reader;
    }
    *ret = reader;
    return 0;
}

void bx_shim_reader_free(struct bx_shim_reader *r)
{
    struct bx_shim_exec *exec = r->exec;
    struct bx_shim_reader **p;
    for (p = &exec->readers; *p != r; p = &(*p)->next_of_exec) {
    }
    *p = r->next_of_exec;
    for (p = &r->client->readers; *p != r; p = &(*p)->next_of_client) {
    }
    *p = r->next_of_client;
    r->client->nreaders--;
    if (exec->writer == r) {
        bx_shim_exec_writer_gone(exec);
    }
    close_channels(r);
    free(r);
    bx_shim_exec_readers_moved(exec);
    bx_shim_reap_later(exec->shim);
}

/* ---- sending */

static void finish(struct bx_shim_reader *r, int which)
{
    r->at[which].done = true;
    (void)bx_conn_send_eof(r->client->conn, channel_of(r, which));
    bx_conn_io_kick(r->client->io);
    if (bx_shim_reader_done(r)) {
        bx_shim_check_drained(r->exec->shim);
    }
}

/* Bytes that may be sent to it now, as far as the spool goes. */
static uint64_t available(const struct bx_shim_reader *r, int which)
{
    const struct bx_shim_at *at = &r->at[which];
    uint64_t tail = r->exec->out[which].spool.tail;
    uint64_t end = at->end < tail ? at->end : tail;
    return end > at->pos ? end - at->pos : 0;
}

static bool at_end(const struct bx_shim_reader *r, int which)
{
    const struct bx_shim_out *o = &r->exec->out[which];
    return available(r, which) == 0 &&
           (r->at[which].pos >= r->at[which].end || (o->ended && o->stuck.len == 0));
}

/* One piece from the spool: true if it was taken whole and there may be more. */
static bool pump_piece(struct bx_shim_reader *r, int which)
{
    static uint8_t piece[PUMP_SIZE];
    struct bx_shim_at *at = &r->at[which];
    uint64_t size = available(r, which);
    size_t room = bx_conn_room(r->client->conn, channel_of(r, which));
    if (size == 0) {
        return false;
    }
    if (room == 0) {
        bx_conn_want(r->client->conn, channel_of(r, which));
        return false;
    }
    size = size < room ? size : room;
    ssize_t n = bx_spool_read(&r->exec->out[which].spool, at->pos, piece,
                              size < sizeof(piece) ? (size_t)size : sizeof(piece));
    if (n <= 0) {
        bx_warn(&r->exec->shim->log, "exec", "reading back output of command %u: %s",
                r->exec->number, strerror((int)-n));
        bx_shim_client_drop(r->client); /* a gap in a stream must not look like its content */
        return false;
    }
    ssize_t sent = bx_conn_send(r->client->conn, channel_of(r, which), piece, (size_t)n);
    if (sent <= 0) {
        return false;
    }
    at->pos += (uint64_t)sent;
    return sent == n;
}

void bx_shim_reader_pump(struct bx_shim_reader *r, int which)
{
    struct bx_shim_at *at = &r->at[which];
    uint64_t before = at->pos;
    if (at->done) {
        return;
    }
    while (at->pos - before < PUMP_MAX && pump_piece(r, which)) {
    }
    if (available(r, which) > 0) {
        bx_conn_want(r->client->conn, channel_of(r, which));
    }
    if (at_end(r, which)) {
        finish(r, which);
    }
    if (at->pos != before) {
        bx_conn_io_kick(r->client->io);
    }
    if (at->pos != before || at->done) {
        bx_shim_exec_readers_moved(r->exec);
    }
}

void bx_shim_reader_live(struct bx_shim_reader *r, int which, uint64_t offset, const uint8_t *p,
                         size_t len)
{
    struct bx_shim_at *at = &r->at[which];
    if (at->done || at->pos != offset || at->end != UINT64_MAX) {
        return; /* the pump brings it there */
    }
    ssize_t n = bx_conn_send(r->client->conn, channel_of(r, which), p, len);
    if (n > 0) {
        at->pos += (uint64_t)n;
        bx_conn_io_kick(r->client->io);
    }
}
