/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qmp.h: a client of QEMU's machine protocol on the loop. It negotiates by itself, tells when QEMU
 * is ready, sends commands without arguments, and gives events. Few commands are ever under way;
 * their replies are matched by id.
 */
#ifndef BX_VMM_QEMU_QMP_H
#define BX_VMM_QEMU_QMP_H

#include "base/loop.h"
#include "vmm/qemu/qmp_msg.h"

struct bx_qmp;

struct bx_qmp_events {
    void (*ready)(void *data); /* once: the main loop of QEMU runs, commands are allowed */
    void (*event)(void *data, const char *name, const json_t *value); /* value may be NULL */
    /* Once, last: NULL at end of file. Commands under way get no reply any more. */
    void (*closed)(void *data, const boxlite_error *error);
};

/* error is NULL on success, and borrowed. */
typedef void (*bx_qmp_reply_fn)(void *data, const boxlite_error *error);

/* Takes the socket, also on failure. */
int bx_qmp_new(struct bx_loop *loop, int take_fd, const struct bx_qmp_events *events, void *data,
               struct bx_qmp **ret, boxlite_error **err);
/* STATE before ready and after closed; BUSY with too many under way. reply may be NULL. */
int bx_qmp_command(struct bx_qmp *q, const char *name, bx_qmp_reply_fn reply, boxlite_error **err);
/* Handles at once what is there to read: for the last words of a QEMU that has ended. */
void bx_qmp_drain(struct bx_qmp *q);
/* Allowed in every callback; accepts NULL. */
void bx_qmp_free(struct bx_qmp *q);

#endif
