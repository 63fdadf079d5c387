/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes.c: see changes.h.
 *
 * Left out is what BoxLite itself puts into a container: the files that shim_boot.c sends with CONFIGURE
 * and the places where the kernel's file systems are mounted.
 */
#include "box/changes.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/io.h"
#include "box/quiet.h"

#define CHUNK (256u << 10)

static const char *const own_places[] = {
    "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev", "/proc", "/sys",
};

int bx_changes_start(boxlite_box *box, const char *upper, const char *merged, struct bx_copy *ret,
                     boxlite_error **err)
{
    const char *argv[2 + BX_ARRAY_SIZE(own_places)] = {upper, merged};
    size_t argc = 2;
    for (size_t i = 0; bx_streq(upper, BX_ROOT_UPPER) && i < BX_ARRAY_SIZE(own_places); i++) {
        argv[argc++] = own_places[i];
    }
    return bx_copy_start_builtin(box, "changes-out", argv, argc, false, ret, err);
}

static int write_all(struct bx_copy *c, int fd, boxlite_error **err)
{
    _cleanup_free_ char *chunk = malloc(CHUNK);
    ssize_t n;

    if (!chunk) {
        return bx_fail_oom(err);
    }
    while ((n = bx_copy_read(c, chunk, CHUNK, err)) > 0) {
        int w = bx_write_full(fd, chunk, (size_t)n);
        if (w < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, w, "writing the archive");
        }
    }
    return n < 0 ? (int)n : bx_copy_finish(c, err);
}

int bx_box_changes_tar(boxlite_box *box, int fd, boxlite_error **err)
{
    _cleanup_quiet_ struct bx_quiet quiet = {0};
    _cleanup_(bx_copy_done) struct bx_copy c = {0};
    int r = bx_quiet_begin(box, &quiet, err);

    r = r < 0 ? r : bx_changes_start(box, BX_ROOT_UPPER, BX_ROOT_MERGED, &c, err);
    r = r < 0 ? r : write_all(&c, fd, err);
    bx_copy_done(&c);
    c = (struct bx_copy){0};
    r = r < 0 ? r : bx_quiet_end(&quiet, err);
    if (r < 0) {
        bx_wrap(err, "changes of box %s", box->row.name);
    }
    return r;
}
