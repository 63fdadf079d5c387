/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn.h: an apply on disk. See txn.c for what is where.
 */
#ifndef BX_WORKSPACE_TXN_H
#define BX_WORKSPACE_TXN_H

#include "base/log.h"
#include "workspace/workspace.h"

#define BX_WS_STAGE_PREFIX ".boxlite-apply-"

/* journal.c: the plan and the root as text, and back. The text may be damaged. */
int bx_ws_journal_text(const char *root, const struct bx_ws_plan *plan, struct bx_buf *ret);
int bx_ws_journal_parse(const char *text, size_t len, char **ret_root, struct bx_ws_plan *ret,
                        boxlite_error **err);

struct bx_ws_txn {
    int txns;          /* folder of all applies, in the home; borrowed */
    const char *path;  /* of the workspace */
    int root;          /* the workspace; borrowed */
    int source;        /* folder of the new contents; borrowed */
    uint64_t undo_max; /* bytes of replaced files that are kept at most */
    int undo_source;   /* contents are "oN" there instead: an undo */
};

/* Paths that are not as the plan says, each with a line of why; n == 0: all is as it should be. */
int bx_ws_txn_check(const struct bx_ws_txn *t, const struct bx_ws_plan *plan,
                    struct bx_strv *conflicts, boxlite_error **err);
/* All of the plan or nothing; sets the plan's `ino`s. *ret_id: its name in txns (16 bytes + NUL). STATE when something
 * is not as the plan says. */
int bx_ws_txn_run(const struct bx_ws_txn *t, struct bx_ws_plan *plan, char ret_id[17],
                  boxlite_error **err);
/* Finishes or takes back what crashed processes left. */
int bx_ws_txn_recover(int txns, const struct bx_log *log, boxlite_error **err);
/* The newest apply to that workspace that can be taken back: its name, what takes it back, and the folder of its
 * replaced files. NOT_FOUND. */
int bx_ws_txn_last(int txns, const char *path, char ret_id[17], struct bx_ws_plan *ret,
                   int *ret_old, boxlite_error **err);
/* Forgets an apply. */
int bx_ws_txn_forget(int txns, const char *id);
/* Forgets the oldest beyond `keep` of them. */
void bx_ws_txn_prune(int txns, size_t keep);

/* For tests: called before each step that changes something on disk. NULL outside them. */
extern void (*bx_ws_txn_step)(void);

#endif
