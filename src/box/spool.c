/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.c: see spool.h.
 */
#include "box/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/io.h"

#define PAGE 4096u
#define CHUNK_MAX (4u << 20)
#define NO_HOLES_FACTOR 16u

void bx_spool_init(struct bx_spool *sp, uint64_t max)
{
    uint64_t chunk = max / 16 / PAGE * PAGE;
    *sp = (struct bx_spool)BX_SPOOL_INIT;
    sp->max = max;
    sp->chunk = chunk < PAGE ? PAGE : chunk > CHUNK_MAX ? CHUNK_MAX : chunk;
}

void bx_spool_done(struct bx_spool *sp)
{
    bx_close(&sp->fd);
}

int bx_spool_create(struct bx_spool *sp, int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    sp->fd = fd;
    return 0;
}

int bx_spool_open(struct bx_spool *sp, int dirfd, const char *name)
{
    struct stat st;
    _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return -EINVAL;
    }
    off_t head = lseek(fd, 0, SEEK_DATA);
    if (head < 0) {
        if (errno != ENXIO) {
            return -errno;
        }
        head = st.st_size; /* nothing but a hole */
    }
    sp->fd = steal_fd(&fd);
    sp->head = (uint64_t)head;
    sp->tail = (uint64_t)st.st_size;
    return 0;
}

int bx_spool_append(struct bx_spool *sp, const void *data, size_t len)
{
    if (sp->no_holes && sp->tail - sp->head + len > NO_HOLES_FACTOR * sp->max) {
        return -ENOSPC;
    }
    int r = bx_pwrite_full(sp->fd, data, len, (off_t)sp->tail);
    if (r < 0) {
        /* Part of it may be there: the file's size must stay the tail. */
        return ftruncate(sp->fd, (off_t)sp->tail) < 0 ? -errno : r;
    }
    sp->tail += len;
    return 0;
}

ssize_t bx_spool_read(const struct bx_spool *sp, uint64_t offset, void *data, size_t size)
{
    if (offset < sp->head || offset > sp->tail) {
        return -ERANGE;
    }
    if (size > sp->tail - offset) {
        size = sp->tail - offset;
    }
    ssize_t n = size ? pread(sp->fd, data, size, (off_t)offset) : 0;
    return n < 0 ? -errno : n;
}

int bx_spool_trim(struct bx_spool *sp, uint64_t needed, uint64_t keep)
{
    uint64_t to = sp->tail > keep ? sp->tail - keep : 0;
    to = (to < needed ? to : needed) / sp->chunk * sp->chunk;
    if (to <= sp->head || sp->no_holes) {
        return 0;
    }
    if (fallocate(sp->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)sp->head,
                  (off_t)(to - sp->head)) < 0) {
        sp->no_holes = errno == EOPNOTSUPP || errno == ENOSYS;
        return -errno;
    }
    sp->head = to;
    return 0;
}
