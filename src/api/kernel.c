/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c: guest kernels, as exported.
 */
#include "boot/kernel.h"

#include <stdlib.h>

#include "api/api.h"
#include "base/path.h"
#include "box/box.h"
#include "box/options.h"
#include "box/runtime.h"
#include "box/shimproc.h"

struct boxlite_kernel_list {
    struct bx_kernel **v;
    size_t n;
};

int boxlite_kernel_import(boxlite_runtime *rt, const char *path, const char *modules_dir,
                          const char *name, boxlite_error **err)
{
    _cleanup_free_ char *libexec = NULL, *agent = NULL;
    bx_need(rt, err);
    bx_need(path, err);
    int r = name ? bx_check_name("kernel", name, err) : 0;
    if (r == 0) {
        r = bx_libexec_find(rt->libexec_asked, &libexec, err);
    }
    if (r < 0) {
        return r;
    }
    agent = bx_path_join(libexec, BX_AGENT_PROGRAM);
    return agent ? bx_kernel_import(rt->home, path, modules_dir, agent, name, err)
                 : bx_fail_oom(err);
}

int boxlite_kernel_remove(boxlite_runtime *rt, const char *name, int force, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(name, err);
    int r = bx_check_name("kernel", name, err);
    if (r == 0 && !force) {
        r = bx_box_kernel_unused(rt, name, err);
    }
    return r < 0 ? r : bx_kernel_remove(rt->home->fd, name, err);
}

int boxlite_kernel_list_new(boxlite_runtime *rt, boxlite_kernel_list **ret, boxlite_error **err)
{
    boxlite_kernel_list *list;
    bx_need(rt, err);
    bx_need(ret, err);
    list = calloc(1, sizeof(*list));
    if (!list) {
        return bx_fail_oom(err);
    }
    int r = bx_kernel_list(rt->home->fd, &list->v, &list->n, err);
    if (r < 0) {
        free(list);
        return r;
    }
    *ret = list;
    return 0;
}

size_t boxlite_kernel_list_count(const boxlite_kernel_list *list)
{
    return list ? list->n : 0;
}

const char *boxlite_kernel_list_name(const boxlite_kernel_list *list, size_t i)
{
    return i < boxlite_kernel_list_count(list) ? list->v[i]->name : NULL;
}

const char *boxlite_kernel_list_release(const boxlite_kernel_list *list, size_t i)
{
    return i < boxlite_kernel_list_count(list) ? list->v[i]->release : NULL;
}

uint64_t boxlite_kernel_list_size(const boxlite_kernel_list *list, size_t i)
{
    return i < boxlite_kernel_list_count(list) ? list->v[i]->size : 0;
}

void boxlite_kernel_list_free(boxlite_kernel_list *list)
{
    if (list) {
        bx_kernel_list_free(list->v);
        free(list);
    }
}
