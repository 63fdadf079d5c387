/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c: what a caller asks of diff, apply and discard. See box.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "workspace/box.h"

#define ITEMS_MAX 65536

int bx_ws_options_new(boxlite_change_options **ret, boxlite_error **err)
{
    boxlite_change_options *o = calloc(1, sizeof(*o));
    if (!o) {
        return bx_fail_oom(err);
    }
    o->paths.max = o->excludes.max = o->allow.max = ITEMS_MAX;
    *ret = o;
    return 0;
}

void bx_ws_options_free(boxlite_change_options *o)
{
    if (o) {
        bx_strv_done(&o->paths);
        bx_strv_done(&o->excludes);
        bx_strv_done(&o->allow);
        free(o->workspace);
        free(o);
    }
}

int bx_ws_options_add(struct bx_strv *list, const char *what, const char *value,
                      boxlite_error **err)
{
    if (!*value) {
        return bx_fail(err, BOXLITE_E_INVALID, "%s: is empty", what);
    }
    int r = bx_strv_add(list, value);
    return r == 0 ? 0
           : list->n >= ITEMS_MAX
               ? bx_fail(err, BOXLITE_E_INVALID, "%s: more than %d", what, ITEMS_MAX)
               : bx_fail_oom(err);
}

int bx_ws_options_set_workspace(boxlite_change_options *o, const char *path, boxlite_error **err)
{
    char *copy = strdup(path);
    if (!copy) {
        return bx_fail_oom(err);
    }
    free(o->workspace);
    o->workspace = copy;
    return 0;
}
