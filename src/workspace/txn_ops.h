/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn_ops.h: one operation of an apply: prepared, done, taken back. Number n names its nodes in the stage. Each is 0 or
 * -errno.
 */
#ifndef BX_WORKSPACE_TXN_OPS_H
#define BX_WORKSPACE_TXN_OPS_H

#include "workspace/txn.h"

void bx_ws_step(void);
int bx_ws_op_stage(const struct bx_ws_txn *t, int stage, struct bx_ws_op *op, size_t n);
/* -ESTALE: the host's node is not the one the plan knows. */
int bx_ws_op_do(int root, int stage, const struct bx_ws_op *op, size_t n);
/* May be called whether it was done or not, and again. */
int bx_ws_op_undo(int root, int stage, const struct bx_ws_op *op, size_t n);
/* Moves the old node, if there is one, to another folder. */
int bx_ws_op_keep(int stage, int old, size_t n);
/* What takes a plan back; contents are the files of `old`. */
int bx_ws_plan_reverse(const struct bx_ws_plan *plan, int old, struct bx_ws_plan *ret,
                       boxlite_error **err);

#endif
