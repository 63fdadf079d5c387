/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_io.h: joins a bx_conn to a descriptor and a loop: reads, feeds, writes what is pending, watches
 * for room. Everything queued during a callback goes out in one write at its end, without another turn
 * of the loop. Works on sockets (MSG_NOSIGNAL) and on character devices such as a virtio port.
 */
#ifndef BX_WIRE_CONN_IO_H
#define BX_WIRE_CONN_IO_H

#include "base/loop.h"
#include "wire/conn.h"

struct bx_conn_io;

/* closed: called once when the link ended: 0 at end of file, else -errno. The conn and the io stay valid
 * until the user frees them (allowed inside the callback). */
typedef void (*bx_conn_closed_fn)(void *data, int error);

/* Takes fd (made non-blocking); conn is borrowed. */
int bx_conn_io_new(struct bx_loop *loop, int take_fd, struct bx_conn *conn,
                   bx_conn_closed_fn closed, void *data, struct bx_conn_io **ret);
void bx_conn_io_free(struct bx_conn_io *io); /* closes the descriptor; accepts NULL */
/* Call after queueing something outside of this conn's callbacks. Cheap; schedules one flush. */
void bx_conn_io_kick(struct bx_conn_io *io);
/* Stop and start reading (to hold back a peer). */
void bx_conn_io_pause(struct bx_conn_io *io, bool paused);
/* Blocks (poll) until all pending output is written or the deadline passes: 0, -ETIMEDOUT, -errno. */
int bx_conn_io_flush(struct bx_conn_io *io, uint64_t deadline);

#endif
