/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any file as a kernel: what does not fit into memory is refused, and nothing is written outside of
 * it.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "vmm/kvm/x86_64/arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_error_ boxlite_error *err = NULL;
    _cleanup_close_ int fd = memfd_create("kernel", MFD_CLOEXEC);
    uint64_t entry = 0, end = 0;
    struct bx_gmem mem;

    if (fd < 0 || write(fd, data, size) != (ssize_t)size ||
        bx_gmem_init(&mem, 4 << 20, -1, false, NULL) < 0) {
        abort();
    }
    int r = bx_kernel_load(&mem, fd, &entry, &end, &err);
    if ((r == 0) != (err == NULL) || (r == 0 && (end > mem.size || entry >= mem.size))) {
        abort();
    }
    bx_gmem_done(&mem);
    return 0;
}
