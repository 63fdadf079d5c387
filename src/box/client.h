/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h: the library's end of link 2, one connection to the shim of one box.
 *
 * It knows the protocol's requests and channels and nothing of what they are for: a request is a
 * message with a function for its reply, an attachment is a number with functions for its streams.
 * It keeps the last state that the shim told. Life of a connection:
 *
 *   open  --end of file or error-->  closed  --the shim's process has ended-->  gone
 *
 * A connection that the shim refuses or lets go while the box runs on goes to "gone" as well, with
 * bx_client_refused(): only the owner of a box, or who stops it, kills its shim.
 *
 * "closed" ends all requests and attachments with the connection's error; "gone" is when the shim's
 * process has ended. "over" is when the box' lock is free: the shim said STOPPED (it may stay for a
 * while, open, to give slow readers the rest of their output), or is gone. Who waits for a box' end
 * waits for over; then it can be started or removed at once.
 * Handles count references; the owner's connection of an attached box has one of the runtime.
 *
 * The functions given here are called from the loop inside the connection's callbacks: they must
 * not free the client. What goes on to the user goes by a deferred call (see op.h, exec.c).
 */
#ifndef BX_BOX_CLIENT_H
#define BX_BOX_CLIENT_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "box/runtime.h"
#include "wire/msg.h"

struct bx_client;

/* Exactly one of reply and error is not NULL; both are borrowed. */
typedef void (*bx_reply_fn)(void *data, const struct bx_msg *reply, const boxlite_error *error);

struct bx_attach_ops {
    void (*bytes)(void *data, unsigned stream, const uint8_t *p, size_t len);
    void (*eof)(void *data, unsigned stream);
    void (*writable)(void *data); /* stdin takes bytes again */
    void (*reset)(void *data);    /* stdin is not wanted any more */
    void (*started)(void *data);  /* the command runs */
    void (*closed)(void *data);   /* the connection has ended */
};

/* A watcher of state and life; called on every change. Embedded by its user, who removes it. */
struct bx_watch {
    void (*fn)(void *data);
    void *data;
    struct bx_watch *next;
    struct bx_client *client;
};

/* The open connection to that box while it is not over, if this runtime has one. Borrowed. */
struct bx_client *bx_client_lookup(boxlite_runtime *rt, const char *id);
/* Takes fd, a connected socket to the shim of box `id`; box_fd is the box' folder, borrowed. pidfd
 * is that of the shim when it is this process' child, else -1 (taken). One reference. */
int bx_client_new(boxlite_runtime *rt, const char *id, int box_fd, int take_fd, int take_pidfd,
                  struct bx_client **ret, boxlite_error **err);
/* The shared open connection, or a new one. STATE: the box is not running. One reference. */
int bx_client_connect(boxlite_runtime *rt, const char *id, int box_fd, struct bx_client **ret,
                      boxlite_error **err);
struct bx_client *bx_client_ref(struct bx_client *c);
void bx_client_unref(struct bx_client *c); /* accepts NULL */
/* Makes the runtime hold it to its end; the box ends with it. */
void bx_client_own(struct bx_client *c, bool auto_remove);
/* Ends the connections of a runtime: those of owned boxes are waited for, killed when they take too
 * long, reaped. */
void bx_clients_shutdown(boxlite_runtime *rt);

const char *bx_client_id(const struct bx_client *c);
int bx_client_box_fd(const struct bx_client *c);
int bx_client_state(const struct bx_client *c);           /* BOXLITE_BOX_*; -1: not told yet */
const char *bx_client_engine(const struct bx_client *c);  /* or NULL */
const char *bx_client_release(const struct bx_client *c); /* guest kernel's, or NULL */
/* It is gone though the box runs on: the shim takes no more connections, or let this one go; the
 * failure says so. Nobody may then take the box for stopped. */
bool bx_client_refused(const struct bx_client *c);
/* How the box failed, if the shim said so or was lost; borrowed, or NULL. */
const boxlite_error *bx_client_failure(const struct bx_client *c);
/* When a shim that has not told its state counts as one that does not answer (monotonic). */
uint64_t bx_client_answer_by(const struct bx_client *c);
bool bx_client_open(const struct bx_client *c);
bool bx_client_gone(const struct bx_client *c);
bool bx_client_over(const struct bx_client *c);
/* The shim is killed: for one that does not answer. */
void bx_client_kill(struct bx_client *c);

void bx_client_watch(struct bx_client *c, struct bx_watch *w, void (*fn)(void *data), void *data);
void bx_client_unwatch(struct bx_watch *w); /* also when it never watched (zeroed) */

/* Starts a request of that type in msg, which the caller owns and adds fields to; then sends it.
 * The returned id may be used to forget it. Failure of sending is returned, fn is not called then.
 * */
int bx_request_begin(struct bx_client *c, struct bx_buf *msg, uint16_t type, boxlite_error **err);
int bx_request_send(struct bx_client *c, struct bx_buf *msg, bx_reply_fn fn, void *data,
                    uint64_t *ret_id, boxlite_error **err);
/* The reply will be dropped. 0 is no request. */
void bx_request_forget(struct bx_client *c, uint64_t id);
/* The same for a WAIT, which the box is told to forget as well: it holds a bounded number of them. */
void bx_request_withdraw(struct bx_client *c, uint64_t id);
/* Its reply will go to another function. */
void bx_request_redirect(struct bx_client *c, uint64_t id, bx_reply_fn fn, void *data);
/* A request with one or no number field whose reply nobody waits for. */
void bx_request_tell(struct bx_client *c, uint16_t type, uint32_t exec, uint16_t tag,
                     uint64_t value);

/* Opens the three channels of a new attachment to that exec. */
int bx_client_attach(struct bx_client *c, uint32_t exec, const struct bx_attach_ops *ops,
                     void *data, uint32_t *ret_attachment, boxlite_error **err);
/* Forgets it and tells the shim (if it ever was told of it). */
void bx_client_detach(struct bx_client *c, uint32_t attachment, bool told);
ssize_t bx_client_write(struct bx_client *c, uint32_t attachment, const void *data, size_t len);
size_t bx_client_room(struct bx_client *c, uint32_t attachment);
int bx_client_write_eof(struct bx_client *c, uint32_t attachment);
void bx_client_consumed(struct bx_client *c, uint32_t attachment, unsigned stream, size_t n);

BX_DEFINE_CLEANUP(struct bx_client *, bx_client_unref, bx_cleanup_client);
#define _cleanup_client_ _cleanup_(bx_cleanup_client)

#endif
