/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box.h: the object behind boxlite_box: a row, its folder, and while it runs a shared connection to
 * its shim. State is derived each time (boxconfig.h says from what), never remembered.
 */
#ifndef BX_BOX_BOX_H
#define BX_BOX_BOX_H

#include <boxlite.h>
#include <stdbool.h>

#include "box/boxconfig.h"
#include "box/client.h"
#include "box/runtime.h"

struct boxlite_box {
    boxlite_runtime *rt;
    struct bx_box_row row;
    int fd;                      /* its folder, or -1 when that is gone */
    struct bx_box_config config; /* as read from the folder */
    struct bx_strv label_names;  /* those of config.labels, without values */
    bool have_config;            /* false: damaged; the box can still be listed and removed */
    struct bx_client *client;    /* a reference, or NULL */
    char *json;                  /* what bx_box_json() gave last */
    char *engine;                /* what bx_box_engine() gave last */
    bool quiet;                  /* how the next start is: see quiet.h */
    int keep_fd;                 /* holds it, see bx_box_keep(), or -1 */
    char *vmm;                   /* what bx_box_vmm_json() gave last */
};

struct boxlite_box_list {
    boxlite_box **v;
    size_t n;
};

int bx_box_create(boxlite_runtime *rt, const boxlite_box_options *options, boxlite_box **ret,
                  boxlite_error **err);
int bx_box_open(boxlite_runtime *rt, const char *name_or_id, boxlite_box **ret,
                boxlite_error **err);
/* From a row, whose strings are taken. */
int bx_box_from_row(boxlite_runtime *rt, struct bx_box_row *take, boxlite_box **ret,
                    boxlite_error **err);
void bx_box_free(boxlite_box *box);
int bx_box_need_config(boxlite_box *box, boxlite_error **err); /* INTEGRITY when it is damaged */
/* box->client is an open connection after it. STATE with a hint when the box is not running. */
int bx_box_need_client(boxlite_box *box, boxlite_error **err);
/* The folder's descriptor is good, or NOT_FOUND: the box was removed. */
int bx_box_need_folder(boxlite_box *box, boxlite_error **err);

const char *bx_box_state_name(int state);
int bx_box_state(boxlite_box *box, boxlite_error **err);
/* Its shim has taken away all that was in it: a box that is removed when it stops. The lock decides
 * nothing here, since nobody can start it any more. */
bool bx_box_emptied(int box_fd);
/* Without asking a shim: CREATED, STOPPED, or RUNNING for one that is held in some way. */
int bx_box_state_at_rest(int box_fd, boxlite_error **err);
const char *bx_box_engine(boxlite_box *box);
const char *bx_box_label_name(const boxlite_box *box, size_t i);
int bx_box_json(boxlite_box *box, const char **ret, boxlite_error **err);
/* What the engine's process says of itself, checked to be JSON. */
int bx_box_vmm_json(boxlite_box *box, const char **ret, boxlite_error **err);

int bx_box_start_async(boxlite_box *box, boxlite_done_fn fn, void *data, boxlite_error **err);
int bx_box_start(boxlite_box *box, boxlite_error **err);
int bx_box_stop_async(boxlite_box *box, uint32_t timeout_ms, boxlite_done_fn fn, void *data,
                      boxlite_error **err);
int bx_box_stop(boxlite_box *box, uint32_t timeout_ms, boxlite_error **err);
int bx_box_set_detached(boxlite_box *box, bool on, boxlite_error **err);
/* See boxlite_box_keep(). */
int bx_box_keep(boxlite_box *box, bool on, boxlite_error **err);
int bx_box_pause(boxlite_box *box, bool on, boxlite_error **err);
int bx_box_wait(boxlite_box *box, int timeout_ms, boxlite_error **err);
int bx_box_remove(boxlite_box *box, bool force, boxlite_error **err);

/* The kernel is there and its initramfs holds this installation's agent: an upgrade renews it. NULL: the default. */
int bx_box_check_kernel(const boxlite_runtime *rt, const char *name, boxlite_error **err);
/* 0, or BUSY naming the boxes whose configuration names the kernel. */
int bx_box_kernel_unused(boxlite_runtime *rt, const char *kernel, boxlite_error **err);
int bx_box_list_new(boxlite_runtime *rt, boxlite_box_list **ret, boxlite_error **err);
void bx_box_list_free(boxlite_box_list *list);

/* "quiet_otter"; after a few attempts with a number too (names.c). Caller frees; NULL: no memory. */
char *bx_box_random_name(unsigned attempt);

BX_DEFINE_CLEANUP(boxlite_box *, bx_box_free, bx_cleanup_box);
#define _cleanup_box_ _cleanup_(bx_cleanup_box)

#endif
