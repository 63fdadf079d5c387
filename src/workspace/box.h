/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box.h: the workspaces of a box: see workspace.h for the parts, and the public header for what these do.
 *
 * boxes/ID/workspace/ holds, for the mount number N of the box:
 *   baseline.N   what the box saw (baseline.c)
 *   base.N/      contents for three-way merges: the first files of at most BASE_FILE bytes, BASE_FILES of them and
 *                BASE_BYTES together, named by the digest of their path
 */
#ifndef BX_WORKSPACE_BOX_H
#define BX_WORKSPACE_BOX_H

#include "box/box.h"
#include "workspace/workspace.h"

#define BX_WS_LIMIT (16ull << 30)     /* bytes that a guest's changes may have */
#define BX_WS_UNDO_BYTES (1ull << 30) /* of replaced files that are kept */
#define BX_WS_UNDO_KEEP 20            /* applies that can be undone */

struct boxlite_change_options {
    struct bx_strv paths, excludes, allow;
    char *workspace; /* which one: its path here or in the box; NULL: the only one */
    bool hide_git_ignored;
    bool dry_run, merge;
};

struct boxlite_changes {
    int status; /* BOXLITE_CHANGES_* */
    char *host, *guest;
    struct bx_ws_changes list;
    struct bx_strv conflicts; /* of the apply itself */
    int root, dirfd,
        lockfd;   /* of the workspace; where the new contents are; what keeps that folder */
    int home_tmp; /* in which it is called */
    char name[64];
    char *json;
    char *text;
};

int bx_ws_options_new(boxlite_change_options **ret, boxlite_error **err);
void bx_ws_options_free(boxlite_change_options *o);
/* Adds to one of its lists. */
int bx_ws_options_add(struct bx_strv *list, const char *what, const char *value,
                      boxlite_error **err);
int bx_ws_options_set_workspace(boxlite_change_options *o, const char *path, boxlite_error **err);

/* Makes the baseline of every workspace that has none; before the first start. */
int bx_ws_prepare(boxlite_box *box, boxlite_error **err);
int bx_ws_diff(boxlite_box *box, const struct boxlite_change_options *o, boxlite_changes **ret,
               boxlite_error **err);
int bx_ws_apply(boxlite_box *box, const struct boxlite_change_options *o, boxlite_changes **ret,
                boxlite_error **err);
int bx_ws_discard(boxlite_box *box, const struct boxlite_change_options *o, boxlite_error **err);
int bx_ws_undo(boxlite_runtime *rt, const char *dir, bool dry_run, boxlite_changes **ret,
               boxlite_error **err);
/* Finishes what crashed processes left. */
int bx_ws_recover(boxlite_runtime *rt, boxlite_error **err);
void bx_ws_changes_free(boxlite_changes *c);

/* report.c: the results as JSON and as a unified diff; both belong to c. */
int bx_ws_report_json(boxlite_changes *c, const char **ret, boxlite_error **err);
int bx_ws_report_text(boxlite_changes *c, size_t max, const char **ret, boxlite_error **err);

int bx_ws_report_lines(const boxlite_changes *c, const struct bx_ws_change *ch,
                       struct bx_ws_lines *ret, boxlite_error **err);

/* ---- inside */

/* The folder of a box' records about its workspaces; made when `make`. -errno. */
int bx_ws_box_dir(boxlite_box *box, bool make);
/* Brings the baseline to what the host has now, for the paths of a plan. */
int bx_ws_baseline_follow(boxlite_box *box, size_t index, int root, const struct bx_ws_plan *plan,
                          boxlite_error **err);
int bx_ws_base_save(int dir, size_t index, int root, const char *path);
/* The content that the box saw: 1, or 0: it was not kept. */
int bx_ws_base_load(int dir, size_t index, const char *path, struct bx_buf *ret);
int bx_ws_plan_of(const struct bx_ws_changes *changes, int root, struct bx_ws_plan *ret,
                  boxlite_error **err);

#endif
