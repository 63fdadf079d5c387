/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outputs.h: the two streams that come out of an engine's process: what the guest's console prints,
 * and what the program itself says. Both are read whenever there is something, so that neither ever
 * waits for us; of both a tail is kept, for the reason of an end.
 */
#ifndef BX_VMM_OUTPUTS_H
#define BX_VMM_OUTPUTS_H

#include "base/buf.h"
#include "base/loop.h"

struct bx_outputs {
    int console_fd, errors_fd; /* owned, non-blocking */
    int copy_fd;               /* the program's own words go here too; owned, -1: nowhere */
    struct bx_source *console, *errors;
    struct bx_buf console_tail, errors_tail;
    size_t copied;
    /* Console bytes; may free the struct. NULL: nobody wants them. */
    void (*on_console)(void *data, const uint8_t *p, size_t len);
    void *data;
};

void bx_outputs_init(struct bx_outputs *o);
/* Takes the descriptors; copy_fd is borrowed (-1: none). 0 or -errno. */
int bx_outputs_start(struct bx_outputs *o, struct bx_loop *loop, int console_fd, int errors_fd,
                     int copy_fd);
void bx_outputs_done(struct bx_outputs *o);
/* The process is gone: read to the end. Each reads once; false: there is nothing more. */
bool bx_outputs_read_errors(struct bx_outputs *o);
bool bx_outputs_read_console(struct bx_outputs *o);

#endif
