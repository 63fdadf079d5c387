/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink.h: digests bytes, and stores them if wanted, in a thread of its own, beside whoever reads them on.
 */
#ifndef BX_OCI_SINK_H
#define BX_OCI_SINK_H

#include <boxlite.h>
#include <stddef.h>

#include "base/sha256.h"

struct bx_sink;

/* fd: gets all bytes, in order, or -1; borrowed. */
int bx_sink_new(int fd, struct bx_sink **ret, boxlite_error **err);
/* Takes a copy; waits while the thread is far behind. The failure of an earlier write comes here or in finish. */
int bx_sink_put(struct bx_sink *s, const void *data, size_t len, boxlite_error **err);
/* Waits for the thread and ends it; digest: BX_DIGEST_LEN + 1 bytes. Once. */
int bx_sink_finish(struct bx_sink *s, char *digest, boxlite_error **err);
void bx_sink_free(struct bx_sink *s); /* in any state */

#endif
