/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c: boxes and the kernels that they name. See box.h.
 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "boot/kernel.h"
#include "box/box.h"
#include "box/runtime.h"
#include "box/shimproc.h"

#define NAMED_MAX 3u /* in the message; of more only their number is told */

struct users {
    const char *kernel;
    struct bx_buf names;
    size_t n;
};

static int look(void *data, const struct bx_box_row *row)
{
    struct users *u = data;
    _cleanup_json_ json_t *config = NULL;
    const char *kernel = NULL;

    /* A damaged configuration names none: its box cannot start anyway. */
    if (bx_json_parse(row->config, strlen(row->config), "config", &config, NULL) < 0 ||
        bx_json_str(config, "kernel", false, &kernel, NULL) < 0 || !bx_streq(kernel, u->kernel)) {
        return 0;
    }
    if (u->n++ < NAMED_MAX &&
        bx_buf_appendf(&u->names, "%s%s", u->names.len ? ", " : "", row->name) < 0) {
        return BOXLITE_E_NO_MEMORY;
    }
    return 0;
}

int bx_box_kernel_unused(boxlite_runtime *rt, const char *kernel, boxlite_error **err)
{
    struct users u = {.kernel = kernel, .names = BX_BUF_INIT(4096)};
    char more[40] = "";
    int r = bx_store_box_each(rt->store, look, &u, err);

    if (r == BOXLITE_E_NO_MEMORY) {
        r = bx_fail_oom(err);
    }
    if (r < 0 || u.n == 0) {
        bx_buf_done(&u.names);
        return r;
    }
    if (u.n > NAMED_MAX) {
        (void)snprintf(more, sizeof(more), " and %zu more", u.n - NAMED_MAX);
    }
    r = bx_fail(err, BOXLITE_E_BUSY, "kernel \"%s\" is used by %s %s%s", kernel,
                u.n == 1 ? "box" : "boxes", bx_buf_str(&u.names), more);
    bx_hint(err, "remove %s first, or the kernel all the same by force (-f)",
            u.n == 1 ? "the box" : "the boxes");
    bx_buf_done(&u.names);
    return r;
}

int bx_box_check_kernel(const boxlite_runtime *rt, const char *name, boxlite_error **err)
{
    _cleanup_kernel_ struct bx_kernel *kernel = NULL;
    _cleanup_free_ char *libexec = NULL, *agent = NULL;
    int r = bx_libexec_find(rt->libexec_asked, &libexec, err);

    if (r < 0) {
        return r;
    }
    agent = bx_path_join(libexec, BX_AGENT_PROGRAM);
    return agent ? bx_kernel_open(rt->home->fd, name, agent, &kernel, err) : bx_fail_oom(err);
}
