/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_priv.h: the inside of a bx_client, shared by client.c (life and state), request.c
 * (requests and attachments) and nobody else.
 */
#ifndef BX_BOX_CLIENT_PRIV_H
#define BX_BOX_CLIENT_PRIV_H

#include "box/client.h"
#include "wire/conn_io.h"

struct bx_pending { /* a request without its reply yet */
    uint64_t id;
    bx_reply_fn fn;
    void *data;
    uint32_t attachment; /* of a DETACH: free again with the reply; else 0 */
    struct bx_pending *next;
};

struct bx_attachment { /* slot n - 1 is attachment n */
    bool used;         /* stays so without ops until the shim has answered DETACH */
    uint32_t exec;
    const struct bx_attach_ops *ops;
    void *data;
};

struct bx_client {
    boxlite_runtime *rt; /* NULL once that was freed */
    struct bx_client *next;
    unsigned refs;
    char *id;
    int box_fd; /* own copy */
    int pidfd;  /* of the shim, or -1 */
    bool child; /* it is ours to reap */
    bool owned, auto_remove;
    bool closed, gone;
    bool refused; /* the connection ended, the box did not */
    struct bx_conn *conn;
    struct bx_conn_io *io;
    struct bx_source *end;    /* waits for the shim's process */
    struct bx_source *timer;  /* until it is killed */
    struct bx_source *let_go; /* drops the runtime's reference */
    int state;
    uint64_t answer_by;
    char *engine, *release;
    boxlite_error *failure;
    struct bx_watch *watches;
    struct bx_pending *pending;
    uint64_t requests; /* number of the last one */
    struct bx_attachment *slots;
    size_t nslots;
};

/* request.c, called by client.c */
void bx_client_reply(struct bx_client *c, const struct bx_msg *msg);
void bx_client_started(struct bx_client *c, const struct bx_msg *msg);
void bx_client_fail_all(struct bx_client *c, const boxlite_error *error);
struct bx_attachment *bx_client_slot(struct bx_client *c, uint32_t channel);
/* The error in a message: CODE_NEG, ERRNO, ERROR, HINT; text made fit for a line. */
int bx_client_msg_error(const struct bx_msg *msg, boxlite_error **err);

#endif
