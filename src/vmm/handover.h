/* SPDX-License-Identifier: Apache-2.0 */
/* handover.h: what each engine's process is handed by its launcher. */
#ifndef BX_VMM_HANDOVER_H
#define BX_VMM_HANDOVER_H

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/spawn.h"
#include "vmm/vmm.h"

/* Opens a file that the process will read by descriptor; "what" names it in errors. INVALID: it is not a regular file. ret_st
 * may be NULL. */
int bx_engine_open_input(const char *path, const char *what, int *ret, struct stat *ret_st,
                         boxlite_error **err);
/* The size in bytes that no file of the process may grow beyond: that of its largest writable disk, and at least so
 * much. */
rlim_t bx_engine_file_limit(const struct bx_vmm_config *c, rlim_t least);
/* The pairs of fixed whose descriptor is there (≥ 0), then the disks, from first_disk on; how many, at most max. */
size_t bx_engine_map_fds(const struct bx_vmm_config *c, const struct bx_spawn_fd *fixed,
                         size_t nfixed, int first_disk, struct bx_spawn_fd *fds, size_t max);

#endif
