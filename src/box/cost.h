/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.h: what a box costs its host now.
 */
#ifndef BX_BOX_COST_H
#define BX_BOX_COST_H

#include <stdint.h>
#include <sys/types.h>

/* Bytes of disk that the box' folder really takes for its writable disk; 0 if there is none. */
uint64_t bx_cost_disk(int box_fd);
/* Bytes of memory of its supervisor and of the processes that this started; 0 if they have gone. */
uint64_t bx_cost_memory(pid_t shim);

#endif
