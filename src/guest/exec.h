/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h: the commands that run, from the EXEC message to EXITED.
 */
#ifndef BX_GUEST_EXEC_H
#define BX_GUEST_EXEC_H

#include "guest/agent.h"
#include "guest/spec.h"

#define EXECS_MAX 2048

/* Starts a command, or answers why it did not. -EPROTO: the number is in use. */
int exec_start(struct agent *a, struct spec *s);
void exec_signal(struct agent *a, uint32_t id, int signo);
/* What ends it now is told as the want of memory. */
void exec_out_of_memory(struct agent *a, uint32_t id);
void exec_resize(struct agent *a, uint32_t id, unsigned rows, unsigned cols);

/* From the link. */
void exec_bytes(struct agent *a, uint32_t channel, const uint8_t *p, size_t len);
void exec_eof(struct agent *a, uint32_t channel);
void exec_writable(struct agent *a, uint32_t channel);
void exec_reset(struct agent *a, uint32_t channel);

#endif
