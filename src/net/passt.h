/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passt.h: user-mode networking by passt(1), a separate process that jails itself. One per box; it
 * dies with the process that started it and when its socket ends. $BOXLITE_PASST names another
 * program.
 *
 * The frames pass a filter in this process (filter.h): a guest reaches neither the host's loopback
 * nor any of its own addresses, nor link-local ones; IPv4 only.
 */
#ifndef BX_NET_PASST_H
#define BX_NET_PASST_H

#include <boxlite.h>

#include "base/log.h"
#include "base/loop.h"

struct bx_passt;

struct bx_passt_net { /* what the guest is to be configured with */
    char addr[48];    /* "10.0.2.15/24" */
    char gateway[48];
    char dns[48]; /* a resolver that answers in the guest */
    char mac[18];
    uint32_t mtu;
};

typedef void (*bx_passt_ended_fn)(void *data, const boxlite_error *error);

/* ret_fd: the engine's end (frames), owned by the caller, who closes it once the engine has it.
 * ended: when passt ended by itself. Missing program: ENGINE with a hint. */
int bx_passt_start(struct bx_loop *loop, const struct bx_log *log, int log_fd,
                   bx_passt_ended_fn ended, void *data, struct bx_passt **ret, int *ret_fd,
                   struct bx_passt_net *ret_net, boxlite_error **err);
void bx_passt_free(struct bx_passt *p); /* kills and reaps; accepts NULL */

#endif
