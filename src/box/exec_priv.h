/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_priv.h: the inside of a boxlite_exec, shared by exec.c (what the user calls) and exec_link.c
 * (where it comes from).
 */
#ifndef BX_BOX_EXEC_PRIV_H
#define BX_BOX_EXEC_PRIV_H

#include "base/buf.h"
#include "box/client.h"
#include "box/exec.h"
#include "box/spool.h"

struct bx_exec_stream {
    struct bx_buf buf; /* received and not yet read: bounded by the channel's window */
    uint64_t start;    /* offset of the first byte that this reader could get */
    uint64_t next;     /* offset of the next byte to come */
    bool eof;          /* nothing comes any more */
    bool broken;       /* bytes were lost for want of memory */
    bool stored;       /* the rest is read from the spool, from `next` on */
    struct bx_spool spool;
};

struct boxlite_exec {
    boxlite_runtime *rt;
    struct bx_client *client; /* a reference; NULL: only the folder is left */
    struct bx_exec_how how;
    uint32_t number;                         /* 0: the shim has not told it yet */
    uint32_t attachment;                     /* 0: none */
    bool attached;                           /* the shim has accepted it: input may go */
    uint64_t ask_exec, ask_attach, ask_wait; /* requests under way */
    struct bx_exec_stream out[2];            /* stdout, stderr */
    bool in_close, in_closed;                /* end of input is wanted; was sent */
    bool in_broken;                          /* nobody takes it any more */
    bool started, exited;
    struct bx_exec_exit exit;
    boxlite_error *error; /* why there is no result */
    uint64_t signals;     /* bit n - 1: signal n waits for the number */
    uint16_t rows, cols;  /* likewise a resize */
    boxlite_exec_fn fn;
    void *fn_data;
    uint32_t fired; /* events to tell in the next call */
    struct bx_source *defer;
    bool progress; /* the callback took or gave bytes */
    bool *gone;    /* set when it is freed inside its callback */
};

/* Marks events as new: the callback will be called. */
void bx_exec_fire(boxlite_exec *exec, uint32_t events);
/* No result will come: EXITED is due and bx_exec_wait() gives this error. */
void bx_exec_fail(boxlite_exec *exec, const boxlite_error *error);
/* Asks the shim for streams and result of exec->number, from the first byte that is kept. */
int bx_exec_link(boxlite_exec *exec, boxlite_error **err);
/* Ends all dealings with the shim; kills the command if that is how. */
void bx_exec_unlink(boxlite_exec *exec);
/* What the folder holds of it takes the place of what would have come. */
void bx_exec_use_stored(boxlite_exec *exec, int box_fd);
/* Makes an empty handle. */
int bx_exec_new(boxlite_box *box, const struct bx_exec_how *how, uint32_t number,
                boxlite_exec **ret, boxlite_error **err);

#endif
