/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qmp_msg.h: what QEMU says on its machine protocol (qemu docs/interop/qmp-spec): one JSON object a
 * line. The reader takes bytes as they come and gives messages. QEMU is not trusted: it runs the
 * guest. A line that is too long, no JSON object, or no message of the protocol ends the reading.
 */
#ifndef BX_VMM_QEMU_QMP_MSG_H
#define BX_VMM_QEMU_QMP_MSG_H

#include <boxlite.h>

#include "base/buf.h"
#include "base/json.h"

#define BX_QMP_LINE_MAX 65536

enum bx_qmp_kind { BX_QMP_GREETING, BX_QMP_EVENT, BX_QMP_RETURN, BX_QMP_ERROR };

struct bx_qmp_msg {
    enum bx_qmp_kind kind;
    json_t *json;        /* owns all of it; bx_qmp_msg_done() */
    uint64_t id;         /* of a reply; 0: it had none */
    const char *event;   /* the event's name */
    const json_t *value; /* an event's data, a reply's value; NULL: none */
    const char *desc;    /* an error's text */
};

struct bx_qmp_reader {
    struct bx_buf buf;
    size_t seen; /* bytes of buf known to hold no line end */
};
#define BX_QMP_READER_INIT                                                                         \
    {                                                                                              \
        .buf = BX_BUF_INIT(BX_QMP_LINE_MAX)                                                        \
    }

void bx_qmp_reader_done(struct bx_qmp_reader *r);
/* ENGINE when a line without end fills the buffer: take messages out before pushing more, and push
 * at most bx_qmp_reader_room() bytes. */
size_t bx_qmp_reader_room(const struct bx_qmp_reader *r);
int bx_qmp_reader_push(struct bx_qmp_reader *r, const void *data, size_t len, boxlite_error **err);
/* 1: a message was stored in *ret, 0: none is complete, ENGINE: not the protocol. */
int bx_qmp_reader_next(struct bx_qmp_reader *r, struct bx_qmp_msg *ret, boxlite_error **err);
void bx_qmp_msg_done(struct bx_qmp_msg *msg);

#endif
