/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box.c: boxes, as exported.
 */
#include "box/box.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "box/changes.h"
#include "box/copy.h"
#include "box/options.h"
#include "workspace/box.h"

int boxlite_box_create(boxlite_runtime *rt, const boxlite_box_options *options, boxlite_box **ret,
                       boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(options, err);
    bx_need(ret, err);
    return bx_box_create(rt, options, ret, err);
}

int boxlite_box_open(boxlite_runtime *rt, const char *name_or_id, boxlite_box **ret,
                     boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(name_or_id, err);
    bx_need(ret, err);
    return bx_box_open(rt, name_or_id, ret, err);
}

void boxlite_box_free(boxlite_box *box)
{
    bx_box_free(box);
}

const char *boxlite_box_id(const boxlite_box *box)
{
    return box ? box->row.id : NULL;
}

const char *boxlite_box_name(const boxlite_box *box)
{
    return box ? box->row.name : NULL;
}

const char *boxlite_box_image(const boxlite_box *box)
{
    return box ? box->row.image : NULL;
}

int boxlite_box_state(boxlite_box *box, boxlite_error **err)
{
    bx_need(box, err);
    return bx_box_state(box, err);
}

const char *boxlite_box_state_name(int state)
{
    return bx_box_state_name(state);
}

int64_t boxlite_box_created(const boxlite_box *box)
{
    return box ? box->row.created : 0;
}

const char *boxlite_box_engine(const boxlite_box *box)
{
    /* What it gives is kept in the handle, which the caller sees as unchanged. */
    return box ? bx_box_engine((boxlite_box *)box) : NULL;
}

size_t boxlite_box_label_count(const boxlite_box *box)
{
    return box ? box->config.labels.n : 0;
}

const char *boxlite_box_label_name(const boxlite_box *box, size_t i)
{
    return box ? bx_box_label_name(box, i) : NULL;
}

const char *boxlite_box_label_value(const boxlite_box *box, size_t i)
{
    const char *eq = i < boxlite_box_label_count(box) ? strchr(box->config.labels.v[i], '=') : NULL;
    return eq ? eq + 1 : NULL;
}

int boxlite_box_json(boxlite_box *box, const char **ret, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(ret, err);
    return bx_box_json(box, ret, err);
}

int boxlite_box_vmm_json(boxlite_box *box, const char **ret, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(ret, err);
    return bx_box_vmm_json(box, ret, err);
}

int boxlite_box_set_detached(boxlite_box *box, int on, boxlite_error **err)
{
    bx_need(box, err);
    return bx_box_set_detached(box, on != 0, err);
}

int boxlite_box_keep(boxlite_box *box, int on, boxlite_error **err)
{
    bx_need(box, err);
    return bx_box_keep(box, on != 0, err);
}

/* What a workspace is must be written down before the box can change it. */
static int prepare_start(boxlite_box *box, boxlite_error **err)
{
    int r = bx_ws_prepare(box, err);
    if (r < 0) {
        bx_wrap(err, "starting box %s", box->row.name);
    }
    return r;
}

int boxlite_box_start(boxlite_box *box, boxlite_error **err)
{
    bx_need(box, err);
    int r = prepare_start(box, err);
    return r < 0 ? r : bx_box_start(box, err);
}

int boxlite_box_start_async(boxlite_box *box, boxlite_done_fn fn, void *data, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(fn, err);
    int r = prepare_start(box, err);
    return r < 0 ? r : bx_box_start_async(box, fn, data, err);
}

int boxlite_box_stop(boxlite_box *box, uint32_t timeout_ms, boxlite_error **err)
{
    bx_need(box, err);
    return bx_box_stop(box, timeout_ms, err);
}

int boxlite_box_stop_async(boxlite_box *box, uint32_t timeout_ms, boxlite_done_fn fn, void *data,
                           boxlite_error **err)
{
    bx_need(box, err);
    bx_need(fn, err);
    return bx_box_stop_async(box, timeout_ms, fn, data, err);
}

int boxlite_box_pause(boxlite_box *box, boxlite_error **err)
{
    bx_need(box, err);
    return bx_box_pause(box, true, err);
}

int boxlite_box_resume(boxlite_box *box, boxlite_error **err)
{
    bx_need(box, err);
    return bx_box_pause(box, false, err);
}

int boxlite_box_remove(boxlite_box *box, int force, boxlite_error **err)
{
    bx_need(box, err);
    return bx_box_remove(box, force != 0, err);
}

int boxlite_box_wait(boxlite_box *box, int timeout_ms, boxlite_error **err)
{
    bx_need(box, err);
    return bx_box_wait(box, timeout_ms, err);
}

int boxlite_box_list_new(boxlite_runtime *rt, boxlite_box_list **ret, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ret, err);
    return bx_box_list_new(rt, ret, err);
}

size_t boxlite_box_list_count(const boxlite_box_list *list)
{
    return list ? list->n : 0;
}

boxlite_box *boxlite_box_list_get(const boxlite_box_list *list, size_t i)
{
    return i < boxlite_box_list_count(list) ? list->v[i] : NULL;
}

void boxlite_box_list_free(boxlite_box_list *list)
{
    bx_box_list_free(list);
}

int boxlite_box_copy_in(boxlite_box *box, const char *host_path, const char *guest_path,
                        boxlite_error **err)
{
    bx_need(box, err);
    bx_need(host_path, err);
    bx_need(guest_path, err);
    int r = prepare_start(box, err);
    return r < 0 ? r : bx_box_copy_in(box, host_path, guest_path, NULL, err);
}

int boxlite_box_copy_in_owner(boxlite_box *box, const char *host_path, const char *guest_path,
                              const char *owner, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(host_path, err);
    bx_need(guest_path, err);
    bx_need(owner, err);
    int r = prepare_start(box, err);
    return r < 0 ? r : bx_box_copy_in(box, host_path, guest_path, owner, err);
}

int boxlite_box_copy_out(boxlite_box *box, const char *guest_path, const char *host_path,
                         boxlite_error **err)
{
    bx_need(box, err);
    bx_need(guest_path, err);
    bx_need(host_path, err);
    int r = prepare_start(box, err);
    return r < 0 ? r : bx_box_copy_out(box, guest_path, host_path, err);
}

int boxlite_box_copy_in_tar(boxlite_box *box, int fd, const char *guest_dir, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(guest_dir, err);
    int r = prepare_start(box, err);
    return r < 0 ? r : bx_box_copy_in_tar(box, fd, guest_dir, err);
}

int boxlite_box_copy_out_tar(boxlite_box *box, const char *guest_path, int fd, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(guest_path, err);
    int r = prepare_start(box, err);
    return r < 0 ? r : bx_box_copy_out_tar(box, guest_path, fd, err);
}

int boxlite_box_exec_tar_in(boxlite_box *box, const char *guest_dir, boxlite_exec **ret,
                            boxlite_error **err)
{
    bx_need(box, err);
    bx_need(guest_dir, err);
    bx_need(ret, err);
    return bx_box_exec_tar(box, true, guest_dir, ret, err);
}

int boxlite_box_exec_tar_out(boxlite_box *box, const char *guest_path, boxlite_exec **ret,
                             boxlite_error **err)
{
    bx_need(box, err);
    bx_need(guest_path, err);
    bx_need(ret, err);
    return bx_box_exec_tar(box, false, guest_path, ret, err);
}

int boxlite_box_changes_tar(boxlite_box *box, int fd, boxlite_error **err)
{
    bx_need(box, err);
    int r = prepare_start(box, err);
    return r < 0 ? r : bx_box_changes_tar(box, fd, err);
}
