/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handover.c: an engine's process opens nothing that a guest could have a say in: it is handed descriptors at numbers
 * that its command line names, and a limit on what its files may grow to.
 */
#include "vmm/handover.h"

#include <errno.h>
#include <fcntl.h>

#include "base/error.h"
#include "base/fd.h"

int bx_engine_open_input(const char *path, const char *what, int *ret, struct stat *ret_st,
                         boxlite_error **err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the %s %s", what, path);
    }
    if (!S_ISREG(st.st_mode)) {
        return bx_fail(err, BOXLITE_E_INVALID, "the %s %s is not a regular file", what, path);
    }
    *ret = steal_fd(&fd);
    if (ret_st) {
        *ret_st = st;
    }
    return 0;
}

rlim_t bx_engine_file_limit(const struct bx_vmm_config *c, rlim_t least)
{
    rlim_t largest = least;
    struct stat st;

    for (size_t i = 0; i < c->ndisks; i++) {
        if (!c->disks[i].read_only && fstat(c->disks[i].fd, &st) == 0 &&
            (rlim_t)st.st_size > largest) {
            largest = (rlim_t)st.st_size;
        }
    }
    return largest;
}

size_t bx_engine_map_fds(const struct bx_vmm_config *c, const struct bx_spawn_fd *fixed,
                         size_t nfixed, int first_disk, struct bx_spawn_fd *fds, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < nfixed && n < max; i++) {
        if (fixed[i].from >= 0) {
            fds[n++] = fixed[i];
        }
    }
    for (size_t i = 0; i < c->ndisks && n < max; i++) {
        fds[n++] = (struct bx_spawn_fd){c->disks[i].fd, first_disk + (int)i};
    }
    return n;
}
