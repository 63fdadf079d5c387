/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk under a hostile driver: whatever it does, the image keeps its size, and a read-only one its
 * bytes.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/kvm/dev/blk.h"
#include "vmm_feed.h"

#define SIZE (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void host(void *data, struct feed *f)
{
    (void)data; /* a disk has no other side */
    (void)f;
}

static int image(void)
{
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("image", MFD_CLOEXEC);
    }
    if (fd < 0 || ftruncate(fd, 0) < 0 || ftruncate(fd, SIZE) < 0) {
        abort();
    }
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct feed f = {data, size};
    static struct driver d;
    static struct bx_blk blk;
    bool read_only = feed_u8(&f) & 1;
    struct stat st;
    uint8_t byte = 1;
    int fd = image();

    driver_init(&d);
    if (bx_blk_init(&blk, &d.mem, fd, read_only, NULL) < 0) {
        abort();
    }
    driver_attach(&d, &blk.v);
    feed_run(&d, &f, host, NULL);
    driver_done(&d);
    if (fstat(fd, &st) < 0 || st.st_size != SIZE) {
        abort();
    }
    for (unsigned i = 0; read_only && i < SIZE; i += 512) {
        if (pread(fd, &byte, 1, i) != 1 || byte != 0) {
            abort();
        }
    }
    return 0;
}
